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
export function startCompaction(deps: CompactionDeps): void {
  const { data, clock, log, metrics } = deps
  const { settings } = data
  const cleaner = new Cleaner({ logs: data.logs, clock, log, metrics }, () => ({
    isEnabled: settings.text('log.cleaner.enable') === 'true',
    keyBudgetBytes: settings.number('log.cleaner.dedupe.buffer.size'),
    maxBytesPerSecond: settings.number('log.cleaner.io.max.bytes.per.second'),
  }))
  deps.background.start({
    name: 'compaction',
    intervalMs: () => settings.number('log.cleaner.backoff.ms'),
    pass: (signal) => cleaner.run(signal),
  })
}
