import { MIB } from '../core/limits.ts'
import { MqlError, type Place } from './errors.ts'

export type TokenKind = 'word' | 'keyword' | 'number' | 'string' | 'symbol' | 'end'

export interface Token {
  readonly kind: TokenKind
  /** A keyword in capitals; a string without its quotes; everything else as it is written. */
  readonly text: string
  /** As it stands in the source. */
  readonly raw: string
  readonly place: Place
  /** Where it ends in the source, in UTF-16 units. */
  readonly end: number
}

/**
 * Words that are no names unless they are quoted. These are the keywords of the language's first version; what was added since is told
 * by where it stands, so that topics with such names need no quotes.
 */
export const KEYWORDS: ReadonlySet<string> = new Set(
  (
    'CONNECT DISCONNECT CREATE LIST SHOW TOPIC TOPICS GROUP GROUPS PARTITIONS PARTITION PRODUCE INTO KEY VALUE FETCH FROM LIMIT ' +
    'SUBSCRIBE TO TIMEOUT COMMIT OFFSET JOIN LEAVE HEARTBEAT ON HOST PORT USER PASSWORD HELP EXIT QUIT'
  ).split(' '),
)

/** Longest input that is looked at. */
const MAX_INPUT_UNITS = 4 * MIB

const SPACE = /[ \t\r\n]+|--[^\n]*/y
const WORD = /[A-Za-z0-9_][A-Za-z0-9_.-]*/y
const DIGITS = /^\d+$/
const SYMBOL = /<>|!=|<=|>=|[;,*()=<>.[\]-]/y

const START: Place = { line: 1, column: 1, position: 1 }

/** The tokens of the input, an `end` token last. Throws MqlError: an open string, or a character that means nothing. */
export function lex(source: string): Token[] {
  checkLength(source.length)
  return lexFrom(source, START, 0)
}

/** Throws MqlError: input of so many UTF-16 units is not looked at. */
export function checkLength(units: number): void {
  if (units > MAX_INPUT_UNITS) throw new MqlError(`the input is longer than ${MAX_INPUT_UNITS} characters`, START, true)
}

/** The same for a part of an input that begins at a place in it, behind so many UTF-16 units. No token goes beyond its line. */
export function lexFrom(source: string, start: Place, unitsBefore: number): Token[] {
  const cursor = new Cursor(source, start, unitsBefore)
  const tokens: Token[] = []
  for (;;) {
    while (cursor.take(SPACE) !== null) {}
    const token = nextToken(cursor)
    tokens.push(token)
    if (token.kind === 'end') return tokens
  }
}

function nextToken(cursor: Cursor): Token {
  const place = cursor.place()
  const token = (kind: TokenKind, text: string, raw: string): Token => ({ kind, text, raw, place, end: cursor.end })
  if (cursor.done) return token('end', '', '')
  const word = cursor.take(WORD)
  if (word !== null) {
    if (DIGITS.test(word)) return token('number', word, word)
    const upper = word.toUpperCase()
    return KEYWORDS.has(upper) ? token('keyword', upper, word) : token('word', word, word)
  }
  const quote = cursor.peek()
  if (quote === "'" || quote === '"') {
    const raw = cursor.takeString(quote)
    if (raw === null) throw new MqlError(`the string is not closed: ${quote} is missing before the end of the line`, place, true)
    return token('string', raw.slice(1, -1).replaceAll(quote + quote, quote), raw)
  }
  const symbol = cursor.take(SYMBOL)
  if (symbol !== null) return token('symbol', symbol, symbol)
  throw new MqlError(`${shownPoint(quote)} means nothing here${REMEDIES[quote] ?? ''}`, place, true)
}

/** What other consoles do with it. */
const REMEDIES: Readonly<Record<string, string>> = {
  '\\': ': QUIT; leaves the console, HELP; shows what there is',
  '?': ': HELP; shows what there is',
}

function shownPoint(point: string): string {
  const code = point.codePointAt(0) ?? 0
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ? `the character U+${code.toString(16).toUpperCase().padStart(4, '0')}` : `"${point}"`
}

/** Walks over the source and counts lines and code points. */
class Cursor {
  at = 0
  readonly #source: string
  readonly #unitsBefore: number
  #line: number
  #column: number
  #position: number

  constructor(source: string, { line, column, position }: Place, unitsBefore: number) {
    this.#source = source
    this.#unitsBefore = unitsBefore
    this.#line = line
    this.#column = column
    this.#position = position
  }

  get done(): boolean {
    return this.at >= this.#source.length
  }

  /** Where it is in the whole input. */
  get end(): number {
    return this.#unitsBefore + this.at
  }

  place(): Place {
    return { line: this.#line, column: this.#column, position: this.#position }
  }

  peek(): string {
    return String.fromCodePoint(this.#source.codePointAt(this.at) ?? 0)
  }

  /** What the sticky pattern finds here, or null. */
  take(pattern: RegExp): string | null {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.#source)?.[0]
    return found === undefined || found === '' ? null : this.#walk(found)
  }

  /** From quote to quote; a doubled quote is one inside. Null when the line ends before. */
  takeString(quote: string): string | null {
    let close = this.at
    for (;;) {
      close = this.#source.indexOf(quote, close + 1)
      if (close < 0) return null
      if (this.#source[close + 1] !== quote) break
      close++
    }
    const raw = this.#source.slice(this.at, close + 1)
    return raw.includes('\n') ? null : this.#walk(raw)
  }

  #walk(found: string): string {
    this.at += found.length
    for (const point of found) {
      this.#position++
      if (point === '\n') {
        this.#line++
        this.#column = 1
      } else this.#column++
    }
    return found
  }
}
