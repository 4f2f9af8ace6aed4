import { MoonMQError } from '../core/errors.ts'
import { MAX_TOPIC_NAME_BYTES } from '../core/limits.ts'

/** Topics that hold the broker's own state. Clients neither create, write nor delete them. */
const INTERNAL_TOPICS: ReadonlySet<string> = new Set([
  '__cluster_metadata',
  '__consumer_offsets',
  '__share_group_state',
  '__transaction_state',
])

export function isInternalTopic(name: string): boolean {
  return INTERNAL_TOPICS.has(name)
}

const ALLOWED = /^[A-Za-z0-9._-]+$/

/** Why a name is no topic name by Kafka's rule, or null. Only a name that passed may become part of a path. */
export function topicNameFault(name: string): string | null {
  if (name === '') return 'it is empty'
  if (name === '.' || name === '..') return '"." and ".." are not allowed'
  if (!ALLOWED.test(name)) return 'only ASCII letters, digits, ".", "_" and "-" are allowed'
  if (name.length > MAX_TOPIC_NAME_BYTES) return `it has ${name.length} characters, at most ${MAX_TOPIC_NAME_BYTES} are allowed`
  return null
}

/** Throws TOPIC_NAME_INVALID. */
export function checkTopicName(name: string): void {
  const reason = topicNameFault(name)
  if (reason !== null) throw new MoonMQError('TOPIC_NAME_INVALID', { topic: name.slice(0, MAX_TOPIC_NAME_BYTES + 1), reason })
}

/** Separators of a name up to which every name that it could collide with is looked up; beyond, all topics are gone through. */
const MAX_VARIED_SEPARATORS = 8
const DOT = 0x2e
const UNDERSCORE = 0x5f

/**
 * The existing topic whose name differs from `name` only in "." against "_", or null. Such a pair would share the names of its
 * metrics (KAFKA-3219).
 */
export function collidingTopic(name: string, existing: Pick<ReadonlyMap<string, unknown>, 'has' | 'keys'>): string | null {
  const separators: number[] = []
  for (let index = 0; index < name.length; index++) {
    const code = name.charCodeAt(index)
    if (code === DOT || code === UNDERSCORE) separators.push(index)
  }
  if (separators.length <= MAX_VARIED_SEPARATORS) {
    for (const variant of variants(name, separators)) if (variant !== name && existing.has(variant)) return variant
    return null
  }
  const plain = name.replaceAll('.', '_')
  for (const other of existing.keys()) {
    if (other.length === name.length && other !== name && other.replaceAll('.', '_') === plain) return other
  }
  return null
}

/** Every name with "." or "_" at these places. */
function* variants(name: string, separators: readonly number[]): Generator<string, void, undefined> {
  const letters = [...name]
  for (let choice = 0; choice < 1 << separators.length; choice++) {
    for (const [bit, index] of separators.entries()) letters[index] = (choice >> bit) & 1 ? '.' : '_'
    yield letters.join('')
  }
}
