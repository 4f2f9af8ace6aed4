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

/** Where a dead letter came from: two with the same are one. */
export interface Origin {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly group: string
}

/** Headers that a dead letter has besides its own; redriving is a copy without them (DESIGN D11). */
const PREFIX = 'moonmq.dlq.'
/** Bytes that the headers take at most beside the names of topic and group and the reason. */
const HEADERS_BYTES = 400
/** A longer reason is cut: it must never be what makes a record too large. */
const MAX_REASON_BYTES = 1024

/** The headers of the record in the dead-letter topic: its own first, unless they are those of an earlier dead letter. */
export function letterHeaders(letter: DeadLetter, nowMs: number): RecordHeader[] {
  const own = letter.headers.filter(({ key }) => !key.startsWith(PREFIX))
  const added: readonly (readonly [string, string])[] = [
    ['topic', letter.topic],
    ['partition', String(letter.partition)],
    ['offset', String(letter.offset)],
    ['timestamp', String(letter.timestampMs)],
    ['group', letter.group],
    ['attempts', String(letter.attempts)],
    ['reason', cut(letter.reason)],
    ['at', String(nowMs)],
  ]
  return [...own, ...added.map(([name, value]) => ({ key: PREFIX + name, value: Buffer.from(value) }))]
}

/** What the added headers take at most, so that a topic can be made with room for them. */
export const LETTER_ROOM_BYTES = HEADERS_BYTES + MAX_REASON_BYTES + 249 + 2048

/** Null for a record that is no dead letter. */
export function originOf(headers: readonly RecordHeader[]): Origin | null {
  const text = (name: string) => headers.find(({ key }) => key === PREFIX + name)?.value?.toString() ?? null
  const topic = text('topic')
  const partition = text('partition')
  const offset = text('offset')
  const group = text('group')
  if (topic === null || partition === null || offset === null || group === null) return null
  return { topic, partition: Number(partition), offset: Number(offset), group }
}

export function originKey({ topic, partition, offset, group }: Origin): string {
  return `${topic}/${partition}/${offset}/${group}`
}

function cut(reason: string): string {
  const bytes = Buffer.from(reason)
  // A character that was cut in two is left out.
  return bytes.length <= MAX_REASON_BYTES ? reason : bytes.toString('utf8', 0, MAX_REASON_BYTES).replace(/\uFFFD+$/, '')
}
