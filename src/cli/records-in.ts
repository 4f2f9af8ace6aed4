import type { RecordToSend } from '../client/types.ts'
import { UsageError } from './context.ts'

export interface LineFormat {
  /** Every line must be a JSON object with `value`. */
  readonly json: boolean
  /** The whole line is the value. */
  readonly raw: boolean
  /** Between key and value. */
  readonly separator: string
}

/**
 * One line as a record. A JSON object with a `value` is a record of its own (`key`, `headers`, `partition` as well); any other
 * line that begins like JSON or like a URL is a value; else what stands before the first separator is the key.
 */
export function parseLine(line: string, format: LineFormat): RecordToSend {
  if (format.raw) return { value: line }
  if (format.json || line.startsWith('{')) {
    const record = parseObject(line, format.json)
    if (record !== null) return record
  }
  if (/^[[{"]|^[a-z][a-z0-9+.-]*:\/\//i.test(line)) return { value: line }
  const at = line.indexOf(format.separator)
  return at < 0 ? { value: line } : { key: line.slice(0, at), value: line.slice(at + format.separator.length) }
}

function parseObject(line: string, required: boolean): RecordToSend | null {
  let parsed: unknown
  try {
    parsed = JSON.parse(line)
  } catch (error) {
    if (required) throw new UsageError(`not JSON: ${excerpt(line)} (${(error as Error).message})`)
    return null
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed) || !('value' in parsed)) {
    if (required) throw new UsageError(`a record needs a "value": ${excerpt(line)}`)
    return null
  }
  const { key, value, headers, partition } = parsed as Record<string, unknown>
  if (partition !== undefined && (!Number.isSafeInteger(partition) || (partition as number) < 0)) {
    throw new UsageError(`"partition" must be a whole number from 0 up: ${excerpt(line)}`)
  }
  return {
    key: key === undefined || key === null ? null : text(key),
    value: value === null ? null : text(value),
    ...(headers === undefined ? {} : { headers: headerList(headers, line) }),
    ...(partition === undefined ? {} : { partition: partition as number }),
  }
}

function headerList(headers: unknown, line: string): { key: string; value: string | null }[] {
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw new UsageError(`"headers" must be an object of names and values: ${excerpt(line)}`)
  }
  return Object.entries(headers).map(([key, value]) => ({ key, value: value === null ? null : text(value) }))
}

/** Text as it is, anything else as JSON. */
function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function excerpt(line: string): string {
  return line.length > 80 ? `${line.slice(0, 77)}...` : line
}
