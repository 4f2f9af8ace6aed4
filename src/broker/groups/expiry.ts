import type { OffsetEntry } from '../offsets/offset-store.ts'
import type { GroupMachine } from './machine.ts'

/**
 * The offsets of a group that have outlived `retentionMs` (KIP-211). Without members, the time counts from when the last one left; for
 * commits without membership, from the commit. While somebody subscribes to a topic its offsets stay, however old they are; and while a
 * classic group rebalances all of them.
 */
export function expiredOffsets(
  machine: GroupMachine,
  stateChangedAtMs: number,
  offsets: Iterable<OffsetEntry>,
  nowMs: number,
  retentionMs: number,
): OffsetEntry[] {
  if (machine.state === 'PreparingRebalance' || machine.state === 'CompletingRebalance') return []
  const subscribed = machine.subscribedTopics()
  if (subscribed === null) return []
  const emptySinceMs = machine.state === 'Empty' && machine.protocolType !== '' ? stateChangedAtMs : 0
  const found: OffsetEntry[] = []
  for (const entry of offsets) {
    const sinceMs = Math.max(entry.value.commitTimestampMs, emptySinceMs)
    if (nowMs - sinceMs >= retentionMs && !subscribed.has(entry.topic)) found.push(entry)
  }
  return found
}
