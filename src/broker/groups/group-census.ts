import type { Clock } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import type { GroupTable } from './group-table.ts'
import type { GroupKind } from './machine.ts'

const STATES: Readonly<Record<GroupKind, readonly string[]>> = {
  classic: ['Empty', 'PreparingRebalance', 'CompletingRebalance', 'Stable'],
  consumer: ['Empty', 'Assigning', 'Reconciling', 'Stable'],
  share: ['Empty', 'Stable'],
  native: ['Empty', 'CompletingRebalance', 'Stable'],
}

/** Shows how many groups there are, by kind and state. They are counted once for all series of a scrape. Returns how to stop. */
export function observeGroups(metrics: Metrics, clock: Clock, table: GroupTable): () => void {
  let counts = new Map<string, number>()
  let countedAtMs = Number.NEGATIVE_INFINITY
  const count = (key: string) => {
    const nowMs = clock.monotonicMs()
    if (nowMs !== countedAtMs) counts = census(table)
    countedAtMs = nowMs
    return counts.get(key) ?? 0
  }
  const stops = [metrics.observed('moonmq_groups', () => table.groupCount)]
  for (const kind of Object.keys(STATES) as GroupKind[]) {
    for (const state of STATES[kind]) stops.push(metrics.observed('moonmq_group_states', () => count(keyOf(kind, state)), { kind, state }))
  }
  return () => {
    for (const stop of stops) stop()
  }
}

function keyOf(kind: GroupKind, state: string): string {
  return `${kind} ${state}`
}

function census({ shards }: GroupTable): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { groups } of shards) {
    for (const { machine } of groups.values()) {
      const key = keyOf(machine.kind, machine.state)
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
  }
  return counts
}
