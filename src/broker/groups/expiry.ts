import { asMoonMQError } from '../../core/errors.ts'
import { ByteReader } from '../../core/reader.ts'
import { dataCodec } from '../../schema/messages.ts'
import type { OffsetEntry } from '../offsets/offset-store.ts'
import type { ClassicGroup } from './classic-group.ts'

/** The embedded protocol of consumers; the subscriptions of others cannot be read. */
const CONSUMER_PROTOCOL = 'consumer'

/**
 * The offsets of a group that have outlived `retentionMs` (KIP-211). Without members, the time counts from when the last one left; for
 * commits without membership, from the commit. While a stable group subscribes to a topic its offsets stay, however old they are;
 * while the group rebalances everything stays.
 */
export function expiredOffsets(
  group: ClassicGroup,
  stateChangedAtMs: number,
  offsets: Iterable<OffsetEntry>,
  nowMs: number,
  retentionMs: number,
): OffsetEntry[] {
  const old = (sinceMs: number) => nowMs - sinceMs >= retentionMs
  if (group.state === 'Empty') {
    const emptySinceMs = group.protocolType === '' ? 0 : stateChangedAtMs
    return picked(offsets, ({ value }) => old(Math.max(value.commitTimestampMs, emptySinceMs)))
  }
  if (group.state !== 'Stable') return []
  const subscribed = subscribedTopics(group)
  if (subscribed === null) return []
  return picked(offsets, ({ topic, value }) => !subscribed.has(topic) && old(value.commitTimestampMs))
}

function picked(offsets: Iterable<OffsetEntry>, where: (entry: OffsetEntry) => boolean): OffsetEntry[] {
  const found: OffsetEntry[] = []
  for (const entry of offsets) if (where(entry)) found.push(entry)
  return found
}

/** The topics that members of the group ask for; null when that cannot be told, so nothing may be taken from them. */
function subscribedTopics(group: ClassicGroup): ReadonlySet<string> | null {
  if (group.protocolType !== CONSUMER_PROTOCOL) return null
  const topics = new Set<string>()
  for (const member of group.members()) {
    const named = topicsOf(member.metadata(group.protocol))
    if (named === null) return null
    for (const topic of named) topics.add(topic)
  }
  return topics
}

function topicsOf(subscription: Buffer): readonly string[] | null {
  try {
    const reader = new ByteReader(subscription)
    // Newer versions only add fields at the end, so the first version's reader finds the topics in all of them.
    reader.int16()
    return dataCodec('ConsumerProtocolSubscription', 0).decode(reader).topics
  } catch (error) {
    if (asMoonMQError(error).code === 'BAD_FRAME') return null
    throw error
  }
}
