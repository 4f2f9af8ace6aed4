import type { ClientRecord } from '../client/types.ts'
import { decodeUtf8 } from '../core/text.ts'
import type { Column, Comparison, Condition, Literal } from './ast.ts'

/** What a column of a record holds; `undefined`: there is no such part. */
export type Found = string | number | boolean | null | undefined | Buffer | object

/** One record, whose key and value are taken apart at most once. */
export class RecordView {
  readonly record: ClientRecord
  #key: unknown = NOT_PARSED
  #value: unknown = NOT_PARSED

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
        return headersOf(record)
      case 'header':
        return textOrBytes(record.headers.find(({ key }) => key === column.name)?.value)
      case 'key':
        return column.path.length === 0 ? textOrBytes(record.key) : stepInto(this.#json('key'), column.path)
      case 'value':
        return column.path.length === 0 ? textOrBytes(record.value) : stepInto(this.#json('value'), column.path)
    }
  }

  #json(part: 'key' | 'value'): unknown {
    if (part === 'key') {
      if (this.#key === NOT_PARSED) this.#key = parsed(this.record.key)
      return this.#key
    }
    if (this.#value === NOT_PARSED) this.#value = parsed(this.record.value)
    return this.#value
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

const NOT_PARSED = Symbol('not parsed')

function textOrBytes(bytes: Buffer | null | undefined): string | Buffer | null | undefined {
  if (bytes === null || bytes === undefined) return bytes
  return decodeUtf8(bytes) ?? bytes
}

/** The JSON of the bytes, or undefined when they are none. */
function parsed(bytes: Buffer | null): unknown {
  const text = bytes === null ? null : decodeUtf8(bytes)
  if (text === null) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
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
 * and what is negated. Text that is a number, as keys and headers have it, is compared with numbers as one.
 */
export function matches(condition: Condition, view: RecordView): boolean {
  switch (condition.kind) {
    case 'and':
      return condition.parts.every((part) => matches(part, view))
    case 'or':
      return condition.parts.some((part) => matches(part, view))
    case 'not':
      return !matches(condition.part, view)
    case 'compare':
      return compared(view.get(condition.column), condition.op, condition.value)
    case 'in': {
      const found = view.get(condition.column)
      return condition.values.some((value) => compared(found, '=', value))
    }
    case 'null':
      return (view.get(condition.column) ?? null) === null
    case 'contains':
      return textOf(view.get(condition.column))?.includes(condition.text) ?? false
    case 'like': {
      const text = textOf(view.get(condition.column))
      return text !== null && like(text, condition.pattern)
    }
  }
}

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

/** `%` is any text, `_` one code point, and a backslash before them takes their meaning away. In time of text × pattern at most. */
export function like(text: string, pattern: string): boolean {
  const points = [...text]
  const wanted = likeParts(pattern)
  let at = 0
  let part = 0
  let starPart = -1
  let starAt = 0
  while (at < points.length) {
    const next = wanted[part]
    if (next !== undefined && (next.kind === 'one' || (next.kind === 'point' && next.point === points[at]))) {
      at++
      part++
    } else if (next?.kind === 'any') {
      starPart = part++
      starAt = at
    } else if (starPart >= 0) {
      // The last `%` takes one more.
      part = starPart + 1
      at = ++starAt
    } else return false
  }
  return wanted.slice(part).every((next) => next.kind === 'any')
}

type LikePart = { readonly kind: 'any' | 'one' } | { readonly kind: 'point'; readonly point: string }

function likeParts(pattern: string): LikePart[] {
  const parts: LikePart[] = []
  const points = [...pattern]
  for (let at = 0; at < points.length; at++) {
    const point = points[at] as string
    const next = points[at + 1]
    if (point === '\\' && (next === '%' || next === '_' || next === '\\')) parts.push({ kind: 'point', point: points[++at] as string })
    else if (point === '%') parts.push({ kind: 'any' })
    else if (point === '_') parts.push({ kind: 'one' })
    else parts.push({ kind: 'point', point })
  }
  return parts
}
