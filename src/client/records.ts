import { MoonMQError } from '../core/errors.ts'
import { ANY_PARTITION } from '../wire/opcodes.ts'
import type { SendRecord } from '../wire/records.ts'
import { checkObject, checkText, checkWhole, wrong } from './arguments.ts'
import type { Bytes, RecordToSend } from './types.ts'

/** What a record and a frame take besides their bytes, at most. */
const RECORD_OVERHEAD_BYTES = 16
export const FRAME_OVERHEAD_BYTES = 512

/** Throws INVALID_REQUEST. */
export function encodeRecord(record: RecordToSend): SendRecord {
  checkObject('a record', record, 'give an object, such as { key: "a", value: "b" }')
  const { partition, headers } = record
  if (partition !== undefined) checkWhole('partition', partition, 0)
  return {
    partition: partition ?? ANY_PARTITION,
    key: buffer('key', record.key ?? null),
    value: buffer('value', record.value),
    headers: headers === undefined ? [] : encodeHeaders(headers),
  }
}

function encodeHeaders(headers: NonNullable<RecordToSend['headers']>): SendRecord['headers'] {
  if (!Array.isArray(headers)) throw wrong('headers', headers, 'give a list, such as [{ key: "trace", value: "a1" }]')
  return headers.map((header) => {
    checkObject('a header', header, 'give an object, such as { key: "trace", value: "a1" }')
    const { key, value } = header as NonNullable<RecordToSend['headers']>[number]
    checkText('the key of a header', key)
    return { key, value: buffer(`the value of header "${key}"`, value) }
  })
}

function buffer(name: string, value: Bytes | null): Buffer | null {
  if (value === null) return null
  if (typeof value === 'string') return Buffer.from(value)
  if (Buffer.isBuffer(value)) return value
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  throw wrong(name, value, 'give a text, a Buffer or Uint8Array, or null; objects and numbers as text, such as JSON.stringify(value)')
}

export function sizeOfRecord(record: SendRecord): number {
  let bytes = RECORD_OVERHEAD_BYTES + (record.key?.length ?? 0) + (record.value?.length ?? 0)
  for (const { key, value } of record.headers) bytes += 8 + Buffer.byteLength(key) + (value?.length ?? 0)
  return bytes
}

/** Throws RECORD_TOO_LARGE. */
export function checkFits(bytes: number, maxFrameBytes: number): void {
  const limit = maxFrameBytes - FRAME_OVERHEAD_BYTES
  if (bytes > limit) {
    throw MoonMQError.withText('RECORD_TOO_LARGE', `a record of ${bytes} bytes exceeds the broker's limit of ${limit} bytes`)
  }
}
