import { provenanceOf } from '../../record/dead-letter.ts'
import { tierName } from '../dlq/dead-letters.ts'
import type { DeliveredRecord } from '../ports.ts'
import type { Partitions, ServedPartition, ServedTopic } from '../topics/partitions.ts'
import type { Decoded } from './decode.ts'

/** Topics with the records of a topic that wait for their next try, lowest tier first; none unless the topic has `moonmq.retry.delays`. */
export function tiersOf(partitions: Partitions, name: string): readonly { readonly topic: ServedTopic; readonly tier: number }[] {
  const count = partitions.topic(name)?.settings.retryDelaysMs.length ?? 0
  if (count === 0) return NONE
  const tiers: { topic: ServedTopic; tier: number }[] = []
  // A list that was made shorter leaves tiers behind in which records may still wait.
  for (let tier = 1; ; tier++) {
    const topic = partitions.topic(tierName(name, tier))
    if (topic !== undefined) tiers.push({ topic, tier })
    else if (tier >= count) return tiers
  }
}

const NONE: readonly never[] = []
const TIER = /^(.+)\.retry\.([1-9]\d{0,3})$/

/** The topic whose records wait in a tier; any other topic itself. */
export function sourceOf(name: string): string {
  return TIER.exec(name)?.[1] ?? name
}

/** Which records of a tier are for a group, and since when. */
export interface Due {
  /** Wall time at which the first one that is left is due; null = none was left. */
  readonly nextMs: number | null
  /** The records of the group that are due. What comes after the first that is not stays: `nextOffset` is moved back to it. */
  take(decoded: Decoded): readonly DeliveredRecord[]
}

/** Null for a partition that is no tier. All records of a tier wait equally long, so they are due in the order in which they stand. */
export function dueOf(partitions: Partitions, { topic }: ServedPartition, group: string, nowMs: number): Due | null {
  const found = TIER.exec(topic.name)
  if (found === null) return null
  const delays = partitions.topic(found[1] as string)?.settings.retryDelaysMs ?? []
  if (delays.length === 0) return null
  const delayMs = delays[Number(found[2]) - 1] ?? (delays.at(-1) as number)
  let nextMs: number | null = null
  return {
    get nextMs() {
      return nextMs
    },
    take(decoded) {
      const taken: DeliveredRecord[] = []
      for (const record of decoded.records) {
        if (provenanceOf(record.headers, 'retry')?.group !== group) continue
        const dueMs = record.timestampMs + delayMs
        if (dueMs > nowMs) {
          nextMs = dueMs
          decoded.nextOffset = record.offset
          break
        }
        taken.push(record)
      }
      return taken
    },
  }
}
