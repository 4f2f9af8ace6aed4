import { BrokerSettings, brokerSettingsInForce } from '../broker/settings.ts'
import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import type { Logger } from '../core/logger.ts'
import { Cleaner } from '../storage/compaction/cleaner.ts'
import type { Background } from './background.ts'
import type { Data } from './data.ts'

export interface CompactionDeps {
  readonly data: Data
  readonly background: Background
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
}

/** Starts the loop that compacts logs. Its settings are asked for at each look, so a change takes effect with the next one. */
export function startCompaction(deps: CompactionDeps, options: { nodeId: number; kafka: ReadonlyMap<string, string> }): void {
  const { data, clock, log, metrics } = deps
  const settings = () => new BrokerSettings(brokerSettingsInForce(data.metadata.image, options.nodeId, options.kafka))
  const cleaner = new Cleaner({ logs: data.logs, clock, log, metrics }, () => {
    const now = settings()
    return {
      isEnabled: now.text('log.cleaner.enable') === 'true',
      keyBudgetBytes: now.number('log.cleaner.dedupe.buffer.size'),
      maxBytesPerSecond: now.number('log.cleaner.io.max.bytes.per.second'),
    }
  })
  deps.background.start({
    name: 'compaction',
    intervalMs: () => settings().number('log.cleaner.backoff.ms'),
    pass: (signal) => cleaner.run(signal),
  })
}
