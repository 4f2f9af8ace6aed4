import { nearest } from '../core/nearest.ts'
import type { Parsed, Statement } from './ast.ts'
import { MqlError } from './errors.ts'
import { lex, type Token } from './lexer.ts'
import { parseSelect } from './select-parser.ts'
import { TokenStream } from './token-stream.ts'

type Parser = (tokens: TokenStream) => Statement

const MAX_PARTITIONS = 100_000
const MAX_LIMIT = 100_000
const DEFAULT_LIMIT = 100
const DEFAULT_TIMEOUT_SECONDS = 5
const MAX_TIMEOUT_SECONDS = 86_400

/** By the first word. */
const STATEMENTS: Readonly<Record<string, Parser>> = {
  CONNECT: connect,
  DISCONNECT: () => ({ kind: 'disconnect' }),
  CREATE: create,
  LIST: list,
  SHOW: list,
  DESCRIBE: describe,
  ALTER: alter,
  DROP: drop,
  PRODUCE: produce,
  FETCH: fetch,
  SUBSCRIBE: subscribe,
  SELECT: parseSelect,
  COMMIT: commit,
  NACK: nack,
  JOIN: (tokens) => {
    tokens.expect('GROUP')
    return membership(tokens)
  },
  LEAVE: (tokens) => {
    tokens.take('GROUP')
    return { kind: 'leave' }
  },
  HEARTBEAT: () => ({ kind: 'heartbeat' }),
  BEGIN: begin,
  ROLLBACK: (tokens) => {
    tokens.take('TRANSACTION')
    return { kind: 'end', commit: false }
  },
  HELP: help,
  EXIT: () => ({ kind: 'quit' }),
  QUIT: () => ({ kind: 'quit' }),
}

/** Words that begin a statement. */
export const STATEMENT_WORDS: readonly string[] = Object.keys(STATEMENTS)

/** Words that are told by where they stand, for completion; other keywords are in the lexer's table. */
export const SOFT_WORDS: readonly string[] = (
  'SELECT DESCRIBE ALTER DROP NACK BEGIN ROLLBACK TRANSACTION AS SET UNSET REASON HEADER OFFSETS WHERE AND OR NOT IN IS NULL LIKE CONTAINS ' +
  'BETWEEN TRUE FALSE EARLIEST LATEST TIME TIMESTAMP SIZE HEADERS COUNT'
).split(' ')

export interface ParseOptions {
  /** The last statement may end with the input instead of `;`. Default false. */
  readonly lastMayEnd?: boolean
}

/** Every statement of the input, or MqlError at the first token that was not expected. */
export function parse(source: string, options: ParseOptions = {}): Parsed[] {
  return parseTokens(source, lex(source), options)
}

/** The same for input that was taken apart already. */
export function parseTokens(source: string, lexed: readonly Token[], { lastMayEnd = false }: ParseOptions = {}): Parsed[] {
  const tokens = new TokenStream(source, lexed)
  const parsed: Parsed[] = []
  while (tokens.peek().kind !== 'end') {
    if (tokens.takeSymbol(';')) continue
    const { place } = tokens.peek()
    parsed.push({ statement: statement(tokens), place })
    if (tokens.takeSymbol(';')) continue
    if (tokens.peek().kind !== 'end') tokens.fail('";" or another part of the statement')
    else if (!lastMayEnd) tokens.fail('";" at the end of the statement')
  }
  return parsed
}

function statement(tokens: TokenStream): Statement {
  const { kind, text } = tokens.peek()
  const word = text.toUpperCase()
  const parser = (kind === 'keyword' || kind === 'word') && Object.hasOwn(STATEMENTS, word) ? STATEMENTS[word] : undefined
  if (parser === undefined) {
    const near = kind === 'word' && word.length <= 20 ? nearest(word, STATEMENT_WORDS) : null
    return tokens.fail(`a statement${near === null ? ' (HELP lists them)' : ` such as ${near}`}`)
  }
  tokens.next()
  return parser(tokens)
}

function connect(tokens: TokenStream): Statement {
  tokens.take('TO')
  let host: string | null = null
  let port: number | null = null
  let user: string | null = null
  let password: string | null = null
  const { kind } = tokens.peek()
  if (kind === 'word' || kind === 'string') host = tokens.next().text
  for (let clause = tokens.take('HOST', 'PORT', 'USER', 'PASSWORD'); clause !== null; ) {
    if (clause === 'HOST') host = tokens.text('a host')
    else if (clause === 'PORT') port = tokens.number('a port', 1, 65_535)
    else if (clause === 'USER') user = tokens.text('a user')
    else password = tokens.text('a password')
    clause = tokens.take('HOST', 'PORT', 'USER', 'PASSWORD')
  }
  return { kind: 'connect', host, port, user, password }
}

function create(tokens: TokenStream): Statement {
  if (tokens.expect('TOPIC', 'GROUP') === 'GROUP') return membership(tokens)
  const name = tokens.name('a topic')
  const partitions = tokens.take('PARTITIONS') === null ? 1 : tokens.number('a number of partitions', 1, MAX_PARTITIONS)
  const config = tokens.take('SET') === null ? {} : settings(tokens)
  return { kind: 'create-topic', name, partitions, config }
}

function membership(tokens: TokenStream): Statement {
  const group = tokens.name('a group')
  tokens.expect('SUBSCRIBE', 'ON', 'TO')
  return { kind: 'join', group, topics: tokens.names('a topic') }
}

function list(tokens: TokenStream): Statement {
  const what = tokens.expect('TOPICS', 'TOPIC', 'GROUPS', 'GROUP', 'OFFSETS')
  if (what === 'GROUPS') return { kind: 'list-groups' }
  if (what === 'GROUP') return { kind: 'membership' }
  if (what !== 'OFFSETS') return { kind: 'list-topics' }
  tokens.expect('FROM')
  const topic = tokens.name('a topic')
  return { kind: 'show-offsets', topic, group: tokens.take('GROUP') === null ? null : tokens.name('a group') }
}

function describe(tokens: TokenStream): Statement {
  if (tokens.take('GROUP') !== null) return { kind: 'describe-group', group: tokens.name('a group') }
  tokens.take('TOPIC')
  return { kind: 'describe-topic', name: tokens.name('a topic') }
}

function alter(tokens: TokenStream): Statement {
  tokens.expect('TOPIC')
  const name = tokens.name('a topic')
  const change = tokens.expect('SET', 'UNSET', 'PARTITIONS')
  if (change === 'PARTITIONS') return { kind: 'grow-topic', name, partitions: tokens.number('a number of partitions', 1, MAX_PARTITIONS) }
  let set: Record<string, string> = {}
  const unset: string[] = []
  for (let clause: string | null = change; clause !== null; clause = tokens.take('SET', 'UNSET')) {
    if (clause === 'SET') set = { ...set, ...settings(tokens) }
    else unset.push(...tokens.names('a setting'))
  }
  const both = unset.find((key) => Object.hasOwn(set, key))
  if (both !== undefined) throw new MqlError(`${both} cannot be set and unset at once`, tokens.peek().place)
  return { kind: 'alter-topic', name, set, unset }
}

/** `name = value, …`; later ones win. */
function settings(tokens: TokenStream): Record<string, string> {
  const found = new Map<string, string>()
  do {
    const key = tokens.name('a setting')
    tokens.expectSymbol('=')
    found.set(key, settingValue(tokens))
  } while (tokens.takeSymbol(','))
  return Object.fromEntries(found)
}

function settingValue(tokens: TokenStream): string {
  const sign = tokens.takeSymbol('-') ? '-' : ''
  return sign === '' ? tokens.name('a value') : `${sign}${tokens.number('a number')}`
}

function drop(tokens: TokenStream): Statement {
  if (tokens.expect('TOPIC', 'GROUP') === 'GROUP') return { kind: 'drop-group', group: tokens.name('a group') }
  return { kind: 'drop-topic', name: tokens.name('a topic') }
}

function produce(tokens: TokenStream): Statement {
  tokens.expect('INTO')
  const topic = tokens.name('a topic')
  let key: string | null = null
  let value: string | null = null
  let partition: number | null = null
  const headers: { key: string; value: string }[] = []
  for (;;) {
    const clause = tokens.take('KEY', 'VALUE', 'HEADER', 'PARTITION')
    if (clause === null) break
    if (clause === 'KEY') key = tokens.text('a key')
    else if (clause === 'VALUE') value = tokens.text('a value')
    else if (clause === 'PARTITION') partition = tokens.number('a partition', 0, MAX_PARTITIONS)
    else headers.push({ key: tokens.name('the name of a header'), value: tokens.text('the value of a header') })
  }
  if (value === null) return tokens.fail('VALUE')
  return { kind: 'produce', topic, key, value, headers, partition }
}

function fetch(tokens: TokenStream): Statement {
  tokens.expect('FROM')
  const topic = tokens.name('a topic')
  const group = tokens.take('GROUP') === null ? '' : tokens.name('a group')
  const limit = tokens.take('LIMIT') === null ? DEFAULT_LIMIT : tokens.number('a limit', 0, MAX_LIMIT)
  return { kind: 'fetch', topic, group, limit }
}

function subscribe(tokens: TokenStream): Statement {
  tokens.take('TO')
  const topic = tokens.name('a topic')
  const group = tokens.take('GROUP') === null ? '' : tokens.name('a group')
  const timeoutSeconds =
    tokens.take('TIMEOUT') === null ? DEFAULT_TIMEOUT_SECONDS : tokens.number('a number of seconds', 0, MAX_TIMEOUT_SECONDS)
  const limit = tokens.take('LIMIT') === null ? null : tokens.number('a limit', 0, MAX_LIMIT)
  return { kind: 'subscribe', topic, group, timeoutSeconds, limit }
}

function commit(tokens: TokenStream): Statement {
  // A topic may be called "transaction": then PARTITION follows.
  if (tokens.seesSymbol(';') || tokens.peek().kind === 'end') return { kind: 'end', commit: true }
  if (tokens.sees('TRANSACTION') && !tokens.sees('PARTITION', 1)) {
    tokens.next()
    return { kind: 'end', commit: true }
  }
  return { kind: 'commit', ...place(tokens) }
}

function nack(tokens: TokenStream): Statement {
  const record = place(tokens)
  return { kind: 'nack', ...record, reason: tokens.take('REASON') === null ? '' : tokens.text('a reason') }
}

function place(tokens: TokenStream): { topic: string; partition: number; offset: number } {
  const topic = tokens.name('a topic')
  tokens.expect('PARTITION')
  const partition = tokens.number('a partition', 0, MAX_PARTITIONS)
  tokens.expect('OFFSET')
  return { topic, partition, offset: tokens.number('an offset') }
}

function begin(tokens: TokenStream): Statement {
  tokens.take('TRANSACTION')
  return { kind: 'begin', name: tokens.take('AS') === null ? null : tokens.name('the name of a producer') }
}

function help(tokens: TokenStream): Statement {
  const { kind } = tokens.peek()
  if (kind !== 'keyword' && kind !== 'word') return { kind: 'help', topic: null }
  return { kind: 'help', topic: tokens.next().text.toUpperCase() }
}
