import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Loader } from '../core/loader.ts'
import type { Logger, LogLevels } from '../core/logger.ts'
import type { Offload } from '../core/offload.ts'
import type { Random } from '../core/random.ts'
import type { Metadata } from '../metadata/types.ts'
import type { BatchCodecs } from '../record/batch-jobs.ts'
import type { LogSource } from './log-source.ts'

/** What a broker is given. It owns none of it: whoever gave it closes it. */
export interface BrokerDeps {
  readonly metadata: Metadata
  readonly logs: LogSource
  readonly codecs: BatchCodecs
  readonly offload: Offload
  readonly loader: Loader
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  /** Absent or null: the log is not the broker's to change. */
  readonly logLevels?: LogLevels | null
  readonly metrics: Metrics
  readonly failpoint?: Failpoint
}
