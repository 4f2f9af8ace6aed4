import { parseWhen } from '../core/when.ts'
import type { Bound, Column, Comparison, Condition, Literal, Select } from './ast.ts'
import { MqlError } from './errors.ts'
import type { TokenStream } from './token-stream.ts'

const MAX_PARTITIONS = 100_000
const MAX_LIMIT = 100_000
/** Each takes its part of every row. */
const MAX_COLUMNS = 1000
/** Parentheses and NOTs within each other. */
const MAX_DEPTH = 64
const NUMBER = /^\d+(\.\d+)?([eE]\d+)?$/
const COMPARISONS: readonly string[] = ['=', '<>', '!=', '<', '<=', '>', '>=']
const EVERYTHING = ['partition', 'offset', 'timestamp', 'key', 'value', 'headers'] as const
const SOURCES: Readonly<Record<string, Column['source']>> = {
  partition: 'partition',
  offset: 'offset',
  timestamp: 'timestamp',
  time: 'timestamp',
  size: 'size',
  key: 'key',
  value: 'value',
  headers: 'headers',
  header: 'header',
}

/** `SELECT` has been taken. */
export function parseSelect(tokens: TokenStream): Select {
  const { columns, count } = selected(tokens)
  tokens.expect('FROM')
  const topic = tokens.name('a topic')
  let partitions: number[] | null = null
  if (tokens.take('PARTITION', 'PARTITIONS') !== null) {
    partitions = []
    do partitions.push(tokens.number('a partition', 0, MAX_PARTITIONS))
    while (tokens.takeSymbol(','))
  }
  let where: Condition | null = null
  let from: Bound | null = null
  let to: Bound | null = null
  let limit: number | null = null
  for (;;) {
    const clause = tokens.take('WHERE', 'FROM', 'TO', 'LIMIT')
    if (clause === null) break
    if (clause === 'WHERE') where = disjunction(tokens, 0)
    else if (clause === 'FROM') from = bound(tokens)
    else if (clause === 'TO') to = bound(tokens)
    else limit = tokens.number('a limit', 0, MAX_LIMIT)
  }
  return { kind: 'select', columns, count, topic, partitions, where, from, to, limit }
}

function selected(tokens: TokenStream): { columns: Column[]; count: boolean } {
  if (tokens.sees('COUNT') && tokens.seesSymbol('(', 1)) {
    tokens.next()
    tokens.expectSymbol('(')
    tokens.expectSymbol('*')
    tokens.expectSymbol(')')
    return { columns: [], count: true }
  }
  const columns: Column[] = []
  do {
    if (tokens.takeSymbol('*')) columns.push(...EVERYTHING.map((source) => ({ source, name: '', path: [], title: source })))
    else {
      const column = parseColumn(tokens)
      columns.push(tokens.take('AS') === null ? column : { ...column, title: tokens.name('a title') })
    }
    if (columns.length > MAX_COLUMNS) throw new MqlError(`more than ${MAX_COLUMNS} columns`, tokens.peek(-1).place)
  } while (tokens.takeSymbol(','))
  return { columns, count: false }
}

/** `key`, `value.customer.id`, `value['a b'][0].c`, `header.trace`, `headers`, `offset`, … */
function parseColumn(tokens: TokenStream): Column {
  const first = tokens.peek()
  const start = first.end - first.raw.length
  const [head = '', ...rest] = first.raw.split('.')
  const lower = head.toLowerCase()
  const source = first.kind === 'word' || first.kind === 'keyword' ? ownValue(SOURCES, lower) : undefined
  if (source === undefined) return tokens.fail('a column: partition, offset, timestamp, size, key, value, headers or header.NAME')
  tokens.next()
  const path: (string | number)[] = []
  let end = first.end
  let name = ''
  if (source === 'header') {
    // Names of headers have dots of their own.
    name = rest.length > 0 ? rest.join('.') : bracketed(tokens)
    end = tokens.peek(-1).end
  } else {
    if (rest.includes('')) throw new MqlError(`"${first.raw}" has an empty step`, first.place)
    path.push(...rest)
    while (tokens.seesSymbol('[') || tokens.seesSymbol('.')) {
      path.push(...step(tokens))
      end = tokens.peek(-1).end
    }
    if (path.length > 0 && source !== 'key' && source !== 'value') {
      throw new MqlError(`${head} has no parts; only key and value may be JSON`, first.place)
    }
  }
  return { source, name, path, title: tokens.source.slice(start, end) }
}

function bracketed(tokens: TokenStream): string {
  tokens.expectSymbol('[')
  const name = tokens.peek().kind === 'string' ? tokens.next().text : tokens.fail('the name of a header in quotes')
  tokens.expectSymbol(']')
  return name
}

function step(tokens: TokenStream): (string | number)[] {
  if (tokens.takeSymbol('.')) {
    const { kind, text, raw, place } = tokens.peek()
    if (kind === 'string') return [tokens.next().text]
    if (kind !== 'word' && kind !== 'keyword' && kind !== 'number') return tokens.fail('the name of a part')
    tokens.next()
    const parts = (kind === 'keyword' ? raw : text).split('.')
    if (parts.includes('')) throw new MqlError(`"${raw}" has an empty step`, place)
    return parts
  }
  tokens.expectSymbol('[')
  const found = tokens.peek().kind === 'string' ? tokens.next().text : tokens.number('a number or a name in quotes', 0, 2 ** 31)
  tokens.expectSymbol(']')
  return [found]
}

function bound(tokens: TokenStream): Bound {
  const word = tokens.take('EARLIEST', 'LATEST', 'OFFSET', 'TIME', 'TIMESTAMP')
  if (word === 'EARLIEST') return { kind: 'earliest' }
  if (word === 'LATEST') return { kind: 'latest' }
  if (word === 'OFFSET') return { kind: 'offset', offset: tokens.number('an offset') }
  if (word === 'TIMESTAMP' && tokens.peek().kind === 'number') return { kind: 'time', timestampMs: tokens.number('a timestamp') }
  const { kind, text, place } = tokens.peek()
  if (word === null && kind === 'number') return { kind: 'offset', offset: tokens.number('an offset') }
  if (kind !== 'word' && kind !== 'string') return tokens.fail(word === null ? 'an offset, EARLIEST, LATEST or a time' : 'a time')
  tokens.next()
  return timeOf(text, place)
}

function timeOf(text: string, place: MqlError['place']): Bound {
  const when = parseWhen(text)
  if (when === null) throw new MqlError(`"${text}" is no time: write '2026-01-31T12:00:00Z' or an age such as 10m`, place)
  return 'ageMs' in when ? { kind: 'age', ageMs: when.ageMs } : { kind: 'time', timestampMs: when.timestampMs }
}

function disjunction(tokens: TokenStream, depth: number): Condition {
  const parts = [conjunction(tokens, depth)]
  while (tokens.take('OR') !== null) parts.push(conjunction(tokens, depth))
  return parts.length === 1 ? (parts[0] as Condition) : { kind: 'or', parts }
}

function conjunction(tokens: TokenStream, depth: number): Condition {
  const parts = [negation(tokens, depth)]
  while (tokens.take('AND') !== null) parts.push(negation(tokens, depth))
  return parts.length === 1 ? (parts[0] as Condition) : { kind: 'and', parts }
}

function negation(tokens: TokenStream, depth: number): Condition {
  if (depth > MAX_DEPTH) throw new MqlError(`more than ${MAX_DEPTH} parentheses or NOTs within each other`, tokens.peek().place)
  if (tokens.take('NOT') !== null) return { kind: 'not', part: negation(tokens, depth + 1) }
  if (!tokens.takeSymbol('(')) return comparison(tokens)
  const inner = disjunction(tokens, depth + 1)
  tokens.expectSymbol(')')
  return inner
}

function comparison(tokens: TokenStream): Condition {
  const column = parseColumn(tokens)
  if (tokens.take('IS') !== null) {
    const isNot = tokens.take('NOT') !== null
    tokens.expect('NULL')
    return negated(isNot, { kind: 'null', column })
  }
  const isNot = tokens.take('NOT') !== null
  const word = tokens.take('IN', 'BETWEEN', 'LIKE', 'CONTAINS')
  if (word === 'IN') return negated(isNot, { kind: 'in', column, values: literals(tokens, column) })
  if (word === 'BETWEEN') {
    const low = literal(tokens, column)
    tokens.expect('AND')
    const compare = (op: Comparison, value: Literal): Condition => ({ kind: 'compare', column, op, value })
    return negated(isNot, { kind: 'and', parts: [compare('>=', low), compare('<=', literal(tokens, column))] })
  }
  if (word === 'LIKE') return negated(isNot, { kind: 'like', column, pattern: tokens.text('a pattern in quotes') })
  if (word === 'CONTAINS') return negated(isNot, { kind: 'contains', column, text: tokens.text('a text in quotes') })
  if (isNot) return tokens.fail('IN, BETWEEN, LIKE or CONTAINS')
  const { kind, text } = tokens.peek()
  if (kind !== 'symbol' || !COMPARISONS.includes(text)) {
    return tokens.fail('a comparison: =, <>, <, <=, >, >=, IS NULL, IN, BETWEEN, LIKE or CONTAINS')
  }
  tokens.next()
  const op = (text === '!=' ? '<>' : text) as Comparison
  return { kind: 'compare', column, op, value: literal(tokens, column) }
}

function negated(isNot: boolean, part: Condition): Condition {
  return isNot ? { kind: 'not', part } : part
}

function literals(tokens: TokenStream, column: Column): Literal[] {
  tokens.expectSymbol('(')
  const found: Literal[] = []
  do found.push(literal(tokens, column))
  while (tokens.takeSymbol(','))
  tokens.expectSymbol(')')
  return found
}

/** A string, a number with its sign and fraction, TRUE, FALSE or NULL. For the timestamp a time is a number of milliseconds. */
function literal(tokens: TokenStream, column: Column): Literal {
  const sign = tokens.takeSymbol('-') ? -1 : 1
  const { kind, text, place } = tokens.peek()
  if (kind === 'number' || (kind === 'word' && NUMBER.test(text))) {
    tokens.next()
    return sign * Number(text)
  }
  if (sign < 0) return tokens.fail('a number')
  const word = tokens.take('TRUE', 'FALSE', 'NULL')
  if (word !== null) return word === 'NULL' ? null : word === 'TRUE'
  if (kind !== 'string' && !(kind === 'word' && column.source === 'timestamp')) {
    return tokens.fail('a value: a string in quotes, a number, TRUE, FALSE or NULL')
  }
  tokens.next()
  if (column.source !== 'timestamp') return text
  const when = parseWhen(text)
  if (when === null || 'ageMs' in when) throw new MqlError(`"${text}" is no time: write '2026-01-31T12:00:00Z'`, place)
  return when.timestampMs
}

function ownValue<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined
}
