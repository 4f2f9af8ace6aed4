import { type Deferred, deferred } from '../core/deferred.ts'
import { MIB } from '../core/limits.ts'
import type { SendRecord } from '../wire/records.ts'
import type { Link } from './link.ts'
import { checkFits, encodeRecord, sizeOfRecord } from './records.ts'
import type { SendWindow } from './send-window.ts'
import type { Acked, RecordToSend } from './types.ts'

/** A record on its way, and who hears of its acknowledgement. */
export interface Outgoing {
  readonly record: SendRecord
  readonly bytes: number
  readonly acked: Deferred<Acked>
}

/** The record as it travels, and its size. Throws INVALID_REQUEST, RECORD_TOO_LARGE. */
export function encodeFor(link: Link, record: RecordToSend): { readonly record: SendRecord; readonly bytes: number } {
  const encoded = encodeRecord(record)
  const bytes = sizeOfRecord(encoded)
  checkFits(bytes, link.server?.maxFrameBytes ?? MIB)
  return { record: encoded, bytes }
}

/** Hands a record to `add` once the window has room for it; settles as its acknowledgement does. Throws INVALID_REQUEST, RECORD_TOO_LARGE. */
export async function sendThrough(
  { window, link }: { window: SendWindow; link: Link },
  record: RecordToSend,
  add: (outgoing: Outgoing) => void,
): Promise<Acked> {
  const encoded = encodeFor(link, record)
  return await window.run(encoded.bytes, () => {
    const acked = deferred<Acked>()
    add({ ...encoded, acked })
    return acked.promise
  })
}
