import type { ClientRecord } from '../client/types.ts'
import type { Turn } from '../core/in-turns.ts'
import { decodeUtf8 } from '../core/text.ts'
import type { Column, Comparison, Condition, Literal } from './ast.ts'

/** What a column of a record holds; `undefined`: there is no such part. */
export type Found = string | number | boolean | null | undefined | Buffer | object

/** One record, every part of which is read and taken apart at most once, however often a statement names it. */
export class RecordView {
  readonly record: ClientRecord
  readonly #known = new Map<string, unknown>()

  constructor(record: ClientRecord) {
    this.record = record
  }

  get(column: Column): Found {
    const { record } = this
    switch (column.source) {
      case 'partition':
        return record.partition
      case 'offset':
        return record.offset
      case 'timestamp':
        return record.timestampMs
      case 'size':
        return (record.key?.length ?? 0) + (record.value?.length ?? 0)
      case 'headers':
        return this.#once('headers', () => headersOf(record)) as Found
      case 'header':
        return this.#once(`header.${column.name}`, () => textOrBytes(record.headers.find(({ key }) => key === column.name)?.value)) as Found
      case 'key':
      case 'value': {
        const text = () => this.#once(column.source, () => textOrBytes(record[column.source as 'key' | 'value']))
        if (column.path.length === 0) return text() as Found
        return stepInto(
          this.#once(`${column.source} as JSON`, () => parsed(text())),
          column.path,
        )
      }
    }
  }

  #once(name: string, read: () => unknown): unknown {
    if (!this.#known.has(name)) this.#known.set(name, read())
    return this.#known.get(name)
  }
}

/** By name; a name that is there more than once has a list. */
export function headersOf({ headers }: ClientRecord): object {
  const found = new Map<string, unknown[]>()
  for (const { key, value } of headers) {
    const values = found.get(key)
    if (values === undefined) found.set(key, [textOrBytes(value)])
    else values.push(textOrBytes(value))
  }
  return Object.fromEntries([...found].map(([key, values]) => [key, values.length === 1 ? values[0] : values]))
}

function textOrBytes(bytes: Buffer | null | undefined): string | Buffer | null | undefined {
  if (bytes === null || bytes === undefined) return bytes
  return decodeUtf8(bytes) ?? bytes
}

/** Deeper than this JSON is taken for text: what cannot be written again is not read either. */
const MAX_JSON_DEPTH = 1000

/** The JSON of a text, or undefined when it is none. */
function parsed(text: unknown): unknown {
  if (typeof text !== 'string' || isDeep(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isDeep(text: string): boolean {
  let depth = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === 0x22) isQuoted = !isQuoted
    else if (isQuoted) {
      if (unit === 0x5c) at++
    } else if (unit === 0x5b || unit === 0x7b) {
      if (++depth > MAX_JSON_DEPTH) return true
    } else if (unit === 0x5d || unit === 0x7d) depth--
  }
  return false
}

function stepInto(root: unknown, path: readonly (string | number)[]): Found {
  let at = root
  for (const step of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined
    at = (at as Record<string | number, unknown>)[step]
  }
  return at as Found
}

/**
 * Whether the record fits. A part that is not there, and one of another type than what it is compared with, fits nothing but `IS NULL`
 * and what is negated. Text that is a number, as keys and headers have it, is compared with numbers as one. Yields when its turn is over.
 */
export function* matching(condition: Condition, view: RecordView, turn: Pick<Turn, 'isOver'>): Matching {
  switch (condition.kind) {
    case 'and':
      for (const part of condition.parts) if (!(yield* matching(part, view, turn))) return false
      return true
    case 'or':
      for (const part of condition.parts) if (yield* matching(part, view, turn)) return true
      return false
    case 'not':
      return !(yield* matching(condition.part, view, turn))
  }
  if (turn.isOver) yield
  const found = view.get(condition.column)
  switch (condition.kind) {
    case 'compare':
      return compared(found, condition.op, condition.value)
    case 'in':
      return condition.values.some((value) => compared(found, '=', value))
    case 'null':
      return (found ?? null) === null
    case 'contains':
      return textOf(found)?.includes(condition.text) ?? false
    case 'like': {
      const text = textOf(found)
      return text !== null && (yield* like(text, condition.pattern, turn))
    }
  }
}

/** Whether it fits, in as many steps as that takes. */
export type Matching = Generator<undefined, boolean, undefined>

function compared(found: Found, op: Comparison, wanted: Literal): boolean {
  if (wanted === null || found === null || found === undefined) {
    const isSame = (found ?? null) === null && wanted === null
    return op === '=' ? isSame : op === '<>' && !isSame
  }
  const value = typeof wanted === 'number' && typeof found === 'string' ? numberIn(found) : found
  if (typeof value !== typeof wanted || value === null) return op === '<>'
  if (op === '=') return value === wanted
  if (op === '<>') return value !== wanted
  if (op === '<') return value < wanted
  if (op === '<=') return value <= wanted
  return op === '>' ? value > wanted : value >= wanted
}

function numberIn(text: string): number | null {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  return Number.isNaN(value) ? null : value
}

function textOf(found: Found): string | null {
  if (typeof found === 'string') return found
  if (typeof found === 'number' || typeof found === 'boolean') return String(found)
  return found === null || found === undefined || Buffer.isBuffer(found) ? null : JSON.stringify(found)
}

/** Steps between two looks at the time. */
const STEPS = 4096

/** `%` is any text, `_` one code point, and a backslash before them takes their meaning away. In time of text × pattern at most. */
export function* like(text: string, pattern: string, turn: Pick<Turn, 'isOver'>): Matching {
  const wanted = likeParts(pattern)
  let at = 0
  let part = 0
  let starPart = -1
  let starAt = 0
  for (let steps = 1; at < text.length; steps++) {
    if (steps % STEPS === 0 && turn.isOver) yield
    const next = wanted[part]
    const point = text.codePointAt(at) as number
    if (next === ONE || next === point) {
      at += unitsOf(point)
      part++
    } else if (next === ANY) {
      starPart = part++
      starAt = at
    } else if (starPart >= 0) {
      // The last `%` takes one more.
      part = starPart + 1
      starAt += unitsOf(text.codePointAt(starAt) as number)
      at = starAt
    } else return false
  }
  return wanted.slice(part).every((next) => next === ANY)
}

function unitsOf(point: number): number {
  return point > 0xffff ? 2 : 1
}

/** What stands in a pattern beside code points. */
const ANY = -1
const ONE = -2

function likeParts(pattern: string): number[] {
  const parts: number[] = []
  const points = [...pattern]
  for (let at = 0; at < points.length; at++) {
    const point = points[at] as string
    const next = points[at + 1]
    if (point === '\\' && (next === '%' || next === '_' || next === '\\')) parts.push((points[++at] as string).codePointAt(0) as number)
    else if (point === '%') parts.push(ANY)
    else parts.push(point === '_' ? ONE : (point.codePointAt(0) as number))
  }
  return parts
}
