import { type ErrorCode, MoonMQError } from '../../core/errors.ts'
import type { TopicImage } from '../../metadata/types.ts'
import { MAX_COUNT } from '../../wire/limits.ts'
import type { Call } from '../session.ts'

const NAME = /^(?!-)[A-Za-z0-9._-]{1,249}$/
const RESERVED = '__'

/** The native rule of names (docs/PROTOCOL.md). Throws TOPIC_NAME_INVALID. */
export function checkName(topic: string): void {
  if (NAME.test(topic) && topic !== '.' && topic !== '..') return
  throw new MoonMQError('TOPIC_NAME_INVALID', {
    topic: topic.slice(0, 249),
    reason: 'a name has 1 to 249 of A-Z a-z 0-9 . _ - and does not begin with a dash',
  })
}

/**
 * Names that begin with "__" are the broker's own for version 1, whether they exist or not. Clients of the extension reach topics of
 * such names that were made through Kafka's door. Throws TOPIC_FORBIDDEN.
 */
export function checkReserved({ session }: Call, name: string): void {
  if (isReserved(name) && !session.extended) throw new MoonMQError('TOPIC_FORBIDDEN', { topic: name })
}

export function isReserved(name: string): boolean {
  return name.startsWith(RESERVED)
}

/** A topic that clients may read and write. Throws TOPIC_MISSING, TOPIC_FORBIDDEN. */
export function openTopic(call: Call, name: string): TopicImage {
  checkReserved(call, name)
  const topic = call.broker.topics.get(name)
  if (topic.internal) throw new MoonMQError('TOPIC_FORBIDDEN', { topic: name })
  return topic
}

/** Throws with code 1, as the version-1 protocol says for CREATE_TOPIC. */
export function checkNewTopic(name: string, partitions: number): void {
  if (partitions < 1 || partitions > MAX_COUNT.partitions) {
    throw new MoonMQError('INVALID_REQUEST', { reason: `a topic has 1 to ${MAX_COUNT.partitions} partitions, not ${partitions}` })
  }
  if (isReserved(name)) throw new MoonMQError('INVALID_REQUEST', { reason: 'names that begin with "__" are kept for the broker' })
  checkName(name)
}

const STORAGE_CODES: ReadonlySet<ErrorCode> = new Set(['DATA_DAMAGED', 'CORRUPT_RECORDS', 'STORAGE_FAILED', 'STORAGE_FULL'])

/** It concerns one partition, not the request. */
export function isStorageFault(error: unknown): boolean {
  return error instanceof MoonMQError && STORAGE_CODES.has(error.code)
}
