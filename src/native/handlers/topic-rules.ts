import { MoonMQError } from '../../core/errors.ts'
import type { TopicImage } from '../../metadata/types.ts'
import { MAX_COUNT } from '../../wire/limits.ts'
import type { Call } from '../session.ts'

const NAME = /^(?!-)[A-Za-z0-9._-]{1,249}$/

/** The native rule of names (docs/PROTOCOL.md). Throws TOPIC_NAME_INVALID. */
export function checkName(topic: string): void {
  if (NAME.test(topic) && topic !== '.' && topic !== '..') return
  throw new MoonMQError('TOPIC_NAME_INVALID', {
    topic: topic.slice(0, 249),
    reason: 'a name has 1 to 249 of A-Z a-z 0-9 . _ - and does not begin with a dash',
  })
}

/** A topic that clients may read and write. Throws TOPIC_MISSING, TOPIC_FORBIDDEN. */
export function openTopic(call: Call, name: string): TopicImage {
  const topic = call.broker.topics.get(name)
  if (topic.internal) throw new MoonMQError('TOPIC_FORBIDDEN', { topic: name })
  return topic
}

/** Throws with code 1, as the version-1 protocol says for CREATE_TOPIC. */
export function checkNewTopic(name: string, partitions: number): void {
  if (partitions < 1 || partitions > MAX_COUNT.partitions) {
    throw new MoonMQError('INVALID_REQUEST', { reason: `a topic has 1 to ${MAX_COUNT.partitions} partitions, not ${partitions}` })
  }
  if (name.startsWith('__')) throw new MoonMQError('INVALID_REQUEST', { reason: 'names that begin with "__" are kept for the broker' })
  checkName(name)
}
