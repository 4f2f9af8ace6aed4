import { type Deferred, deferred } from '../core/deferred.ts'
import { MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import type { SendRecord } from '../wire/records.ts'
import type { AbortListeners } from './abortable.ts'
import { checkName } from './arguments.ts'
import type { Link } from './link.ts'
import { checkFits, encodeRecord, sizeOfRecord } from './records.ts'
import type { SendWindow } from './send-window.ts'
import type { Acked, RecordToSend } from './types.ts'

/** A record on its way, and who hears of its acknowledgement. */
export interface Outgoing {
  readonly record: SendRecord
  readonly bytes: number
  readonly acked: Deferred<Acked>
  /** Nobody waits for it any more: it need not be sent, or not again. */
  isGivenUp: boolean
}

/** Where a record goes once there is room for it. */
export interface SendPath {
  readonly window: SendWindow
  readonly link: Link
  readonly listeners: AbortListeners
  readonly add: (topic: string, outgoing: Outgoing) => void
  /** Takes back what is given up and has not left. */
  readonly withdraw: () => void
}

/** The record as it travels, and its size. Throws INVALID_REQUEST, RECORD_TOO_LARGE. */
export function encodeFor(link: Link, topic: string, record: RecordToSend): { readonly record: SendRecord; readonly bytes: number } {
  checkName('topic', topic)
  const encoded = encodeRecord(record)
  const bytes = sizeOfRecord(encoded)
  checkFits(bytes, link.server?.maxFrameBytes ?? MIB)
  return { record: encoded, bytes }
}

/** Hands a record on once the window has room for it; settles as its acknowledgement does. Throws INVALID_REQUEST, RECORD_TOO_LARGE, ABORTED. */
export async function sendThrough(path: SendPath, topic: string, record: RecordToSend, signal: AbortSignal | undefined): Promise<Acked> {
  if (signal?.aborted) throw new MoonMQError('ABORTED')
  const { window, link, listeners, add, withdraw } = path
  const outgoing: Outgoing = { ...encodeFor(link, topic, record), acked: deferred<Acked>(), isGivenUp: false }
  const { acked, bytes } = outgoing
  const start = () => {
    if (!outgoing.isGivenUp) add(topic, outgoing)
    return acked.promise
  }
  if (signal === undefined) return await window.run(bytes, start)
  const undo = listeners.add(signal, () => {
    outgoing.isGivenUp = true
    acked.reject(new MoonMQError('ABORTED'))
    withdraw()
  })
  try {
    return await window.run(bytes, start, acked.promise)
  } finally {
    undo()
  }
}
