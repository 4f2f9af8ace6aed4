import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk } from '../io/disk.ts'
import type { Codecs } from '../record/compression.ts'
import type { Inflater } from '../record/inflater.ts'
import type { BufferPool } from './buffer-pool.ts'
import type { GroupCommit } from './group-commit.ts'
import type { HandleCache } from './handles.ts'
import type { LoadOptions } from './load-types.ts'
import type { DirectorySyncs } from './log-folder.ts'
import type { ProducerStateOptions } from './producer-state.ts'
import type { Removals } from './removals.ts'
import type { TailMemory } from './tail.ts'
import type { LogConfig } from './types.ts'

/** What all logs of a data folder share. */
export interface LogDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly log: Logger
  readonly handles: HandleCache
  readonly commit: GroupCommit
  readonly pool: BufferPool
  readonly tailMemory: TailMemory
  readonly codecs: Codecs
  readonly inflater: Inflater
  readonly metrics: Metrics
  readonly removals: Removals
  readonly failpoint: Failpoint
  /** Of the data folder, where the folders of partitions are made. */
  readonly folders: DirectorySyncs
  readonly producerOptions?: ProducerStateOptions
}

type LoadKey = 'wasClean' | 'recoveryPoint' | 'txnSeals' | 'acknowledgedOffset' | 'logStartOffset' | 'maxEpoch' | 'hadPowerCut' | 'synced'

/** What makes one log that one. */
export interface LogOptions {
  readonly topic: string
  readonly partition: number
  readonly topicId: Uuid
  /** `<data folder>/<topic>-<partition>`; made by the first write unless it is there. */
  readonly folder: string
  readonly isFolderThere: boolean
  readonly config: LogConfig
  /** Everything but what `config` and the names tell `loadLog`. */
  readonly load: Pick<LoadOptions, LoadKey>
  /** It keeps what the broker needs to go on, so it may use the space that other logs must leave. */
  readonly usesReserve?: boolean
  /** Bytes that may wait to be written; an append beyond it is refused. */
  readonly maxQueuedBytes?: number
  /** Asked before a batch is taken; false refuses it with STORAGE_FULL. */
  readonly hasRoom?: ((bytes: number) => boolean) | null
  /** Makes the checkpoint forget what lies behind `offset`, durably, before a truncation takes it away. */
  readonly onTruncate?: (offset: number) => Promise<void>
  /** Saves `txnSeals` with the recovery points: durable when it resolves, before a segment takes the place of others. */
  readonly onReseal?: () => Promise<void>
  /** The log failed. Called once for each failure, in the turn that found it. */
  readonly onFailed?: (error: unknown) => void
}
