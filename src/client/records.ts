import { MoonMQError } from '../core/errors.ts'
import { ANY_PARTITION } from '../wire/opcodes.ts'
import type { SendRecord } from '../wire/records.ts'
import { invalid } from './options.ts'
import type { Bytes, RecordToSend } from './types.ts'

/** What a record and a frame take besides their bytes, at most. */
const RECORD_OVERHEAD_BYTES = 16
export const FRAME_OVERHEAD_BYTES = 512

/** Throws INVALID_REQUEST. */
export function encodeRecord(record: RecordToSend): SendRecord {
  const { partition } = record
  if (partition !== undefined && (!Number.isInteger(partition) || partition < 0))
    throw invalid(`partition ${partition} is not a number from 0`)
  return {
    partition: partition ?? ANY_PARTITION,
    key: buffer(record.key ?? null),
    value: buffer(record.value),
    headers: (record.headers ?? []).map(({ key, value }) => ({ key, value: buffer(value) })),
  }
}

function buffer(value: Bytes | null): Buffer | null {
  if (value === null) return null
  if (typeof value === 'string') return Buffer.from(value)
  return Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
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
