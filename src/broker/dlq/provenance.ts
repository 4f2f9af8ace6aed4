import { cutText, DEAD, type Envelope, type Origin, provenanceOf, RETRY } from '../../record/dead-letter.ts'
import type { RecordHeader } from '../../record/record.ts'
import type { DeliveredRecord } from '../ports.ts'

/** A record that is not delivered any more, and why. */
export interface DeadLetter extends DeliveredRecord {
  readonly group: string
  /** How often it was delivered. */
  readonly attempts: number
  /** For people; may be empty. */
  readonly reason: string
}

/** Bytes that the headers take at most beside the names of topic and group and the reason. */
const HEADERS_BYTES = 400
/** A longer reason is cut: it must never be what makes a record too large. */
const MAX_REASON_BYTES = 1024

/** The headers of the record in the topic it is moved to: its own first, unless they are those of an earlier move. */
export function letterHeaders(letter: DeadLetter, nowMs: number, kind: 'dead' | 'retry' = 'dead'): RecordHeader[] {
  const own = letter.headers.filter(({ key }) => !key.startsWith(DEAD) && !key.startsWith(RETRY))
  const prefix = kind === 'dead' ? DEAD : RETRY
  const added: readonly (readonly [string, string])[] = [
    ['topic', letter.topic],
    ['partition', String(letter.partition)],
    ['offset', String(letter.offset)],
    ['timestamp', String(letter.timestampMs)],
    ['group', letter.group],
    ['attempts', String(letter.attempts)],
    ['reason', cutText(letter.reason, MAX_REASON_BYTES)],
    ['at', String(nowMs)],
  ]
  return [...own, ...added.map(([name, value]) => ({ key: prefix + name, value: Buffer.from(value) }))]
}

/** What the added headers take at most, so that a topic can be made with room for them. */
export const LETTER_ROOM_BYTES = HEADERS_BYTES + MAX_REASON_BYTES + 249 + 2048

/** A dead letter as version 1 of the native protocol reads it; null for any other record. */
export function envelopeOf(record: Pick<DeliveredRecord, 'headers' | 'value'>): Envelope | null {
  const provenance = provenanceOf(record.headers)
  return provenance === null ? null : { ...provenance, value: record.value ?? Buffer.alloc(0) }
}

/** The time tells a record from one in the same place of a topic that was made again. */
export function originKey({ topic, partition, offset, group, timestampMs }: Origin & { readonly timestampMs: number }): string {
  return `${topic}/${partition}/${offset}/${timestampMs}/${group}`
}
