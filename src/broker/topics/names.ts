import { MoonMQError } from '../../core/errors.ts'
import { MAX_TOPIC_NAME_BYTES } from '../../core/limits.ts'
import type { MetadataImage } from '../../metadata/types.ts'

export const CONSUMER_OFFSETS = '__consumer_offsets'
export const TRANSACTION_STATE = '__transaction_state'
export const SHARE_GROUP_STATE = '__share_group_state'
export const CLUSTER_METADATA = '__cluster_metadata'

/** Topics that hold the broker's own state: no client makes, writes, reads or deletes them (DESIGN section 7). */
export const INTERNAL_TOPICS: ReadonlySet<string> = new Set([CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, CLUSTER_METADATA])

const NAME = /^[A-Za-z0-9._-]+$/

/** Kafka's rule, checked before a name reaches the file system. Throws TOPIC_NAME_INVALID. */
export function checkTopicName(topic: string): void {
  const refuse = (reason: string) => new MoonMQError('TOPIC_NAME_INVALID', { topic: topic.slice(0, MAX_TOPIC_NAME_BYTES), reason })
  if (topic.length === 0) throw refuse('it is empty')
  if (topic.length > MAX_TOPIC_NAME_BYTES) throw refuse(`it is longer than ${MAX_TOPIC_NAME_BYTES} characters`)
  if (topic === '.' || topic === '..') throw refuse('it names a folder')
  if (!NAME.test(topic)) throw refuse('only ASCII letters, digits, ".", "_" and "-" are allowed')
}

/** A name that differs from an existing one only by "." and "_" would share its metric names (KAFKA-3219 and after). */
export function checkCollision(topic: string, image: MetadataImage): void {
  if (!topic.includes('.') && !topic.includes('_')) return
  const folded = fold(topic)
  for (const other of image.topics.keys()) {
    if (other !== topic && other.length === topic.length && fold(other) === folded) {
      throw new MoonMQError('TOPIC_NAME_INVALID', { topic, reason: `it collides with "${other}": "." and "_" count as the same` })
    }
  }
}

function fold(name: string): string {
  return name.replaceAll('.', '_')
}
