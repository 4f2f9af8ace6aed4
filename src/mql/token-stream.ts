import { MqlError } from './errors.ts'
import type { Token } from './lexer.ts'

/** Tokens in order, with what a parser asks of them. Every refusal names the token that was not expected. */
export class TokenStream {
  readonly source: string
  readonly #tokens: readonly Token[]
  #at = 0

  constructor(source: string, tokens: readonly Token[]) {
    this.source = source
    this.#tokens = tokens
  }

  peek(ahead = 0): Token {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)] as Token
  }

  next(): Token {
    const token = this.peek()
    if (token.kind !== 'end') this.#at++
    return token
  }

  /** An unquoted word, keyword or not. */
  sees(word: string, ahead = 0): boolean {
    const { kind, text } = this.peek(ahead)
    return (kind === 'keyword' || kind === 'word') && text.toUpperCase() === word
  }

  seesSymbol(symbol: string, ahead = 0): boolean {
    const { kind, text } = this.peek(ahead)
    return kind === 'symbol' && text === symbol
  }

  /** Takes one of the words when it comes next. */
  take(...words: readonly string[]): string | null {
    const found = words.find((word) => this.sees(word))
    if (found === undefined) return null
    this.next()
    return found
  }

  takeSymbol(symbol: string): boolean {
    if (!this.seesSymbol(symbol)) return false
    this.next()
    return true
  }

  expect(...words: readonly string[]): string {
    return this.take(...words) ?? this.fail(words.join(' or '))
  }

  expectSymbol(symbol: string): void {
    if (!this.takeSymbol(symbol)) this.fail(`"${symbol}"`)
  }

  /** A word, a string, or a number in its spelling. */
  name(what: string): string {
    const { kind, text } = this.peek()
    if (kind === 'word' || kind === 'string' || kind === 'number') return this.next().text
    if (kind === 'keyword') this.fail(`${what}, and ${text} is a keyword: quote it if it is a name`, false)
    return this.fail(what)
  }

  names(what: string): string[] {
    const found = [this.name(what)]
    while (this.takeSymbol(',')) found.push(this.name(what))
    return found
  }

  /** A string or a word; a number is none. */
  text(what: string): string {
    const { kind } = this.peek()
    return kind === 'word' || kind === 'string' ? this.next().text : this.fail(what)
  }

  /** A whole number from `min` to `max`. */
  number(what: string, min = 0, max = Number.MAX_SAFE_INTEGER): number {
    const { kind, text, place } = this.peek()
    if (kind !== 'number') return this.fail(what)
    const value = Number(text)
    if (value < min || value > max) throw new MqlError(`${what} is ${text}; it must be from ${min} to ${max}`, place)
    this.next()
    return value
  }

  /** Throws: this token is not what must stand here. */
  fail(expected: string, tellsFound = true): never {
    const { place } = this.peek()
    throw new MqlError(`expected ${expected}${tellsFound ? `, found ${this.#found()}` : ''}`, place)
  }

  #found(): string {
    const { kind, raw, text } = this.peek()
    if (kind === 'end') return 'the end of the input'
    if (kind === 'keyword') return `the keyword ${text}`
    const shown = raw.length > 40 ? `${raw.slice(0, 37)}...` : raw
    return kind === 'string' ? `the string ${shown}` : `${kind === 'number' ? 'the number ' : ''}"${shown}"`
  }
}
