import type { Metrics } from '../../core/counters.ts'
import type { OffsetWatcher } from './offset-store.ts'

/** The high watermark of a partition; undefined while nobody can tell. */
export type HighWatermarkOf = (topic: string, partition: number) => number | undefined

/** `moonmq_consumer_lag` of one group: a series for each offset that it has committed, computed when somebody looks. */
export function lagOf(group: string, metrics: Metrics, highWatermark: HighWatermarkOf): OffsetWatcher {
  const series = new Map<string, () => void>()
  return {
    added(topic, partition, committed) {
      const read = () => Math.max(0, (highWatermark(topic, partition) ?? committed()) - committed())
      const labels = { group, topic, partition: String(partition) }
      series.set(`${topic}-${partition}`, metrics.observed('moonmq_consumer_lag', read, labels))
    },
    removed(topic, partition) {
      const key = `${topic}-${partition}`
      series.get(key)?.()
      series.delete(key)
    },
  }
}
