import type { Clock } from '../core/clock.ts'
import type { TopicPartition } from '../core/types.ts'
import type { Uuid } from '../core/uuid.ts'
import type { CompactionNote } from './compaction/note.ts'
import type { EpochCache } from './epoch-cache.ts'
import type { HandleCache } from './handles.ts'
import type { ProducerState, ProducerStateOptions } from './producer-state.ts'
import type { CutReport, RecoverDeps, SyncedBefore } from './recovery.ts'
import type { Segment } from './segment.ts'
import type { TxnSeal } from './txn-seals.ts'

export interface LoadDeps extends RecoverDeps {
  readonly handles: HandleCache
  readonly clock: Clock
  readonly producerOptions?: ProducerStateOptions
}

export interface LoadOptions extends TopicPartition {
  readonly folder: string
  /** False: nothing was ever written, and the folder is made by the first write. */
  readonly isThere: boolean
  readonly topicId: Uuid
  /** Every log was closed in order and nothing was written since: only the end of the active segment is read. */
  readonly wasClean: boolean
  /** By the checkpoint: all below was synced. After a clean stop it is the log's end. */
  readonly recoveryPoint: number
  /**
   * What was saved, with the recovery point, of the transaction indexes of segments that end there or before. Null: nobody knows, so each
   * is built anew, as without a recovery point.
   */
  readonly txnSeals: readonly TxnSeal[] | null
  /** Everything below is known to be synced, though indexes of segments behind the recovery point may not be; at least that point. */
  readonly acknowledgedOffset?: number
  /** By the checkpoint; null when it does not say. It is saved before segments below it go. */
  readonly logStartOffset: number | null
  /** Leader epoch of the partition in the metadata log; null when nobody knows it yet. */
  readonly maxEpoch: number | null
  readonly hadPowerCut: boolean
  /** At a start alone: what is durable already, though recovery reads it. */
  readonly synced?: SyncedBefore | null
  readonly indexIntervalBytes: number
  /** After a failed sync: bytes past this offset are written again. */
  readonly rewriteFrom: number | null
}

/** With what the folder itself says of compaction. */
export interface Loading extends LoadOptions {
  readonly holesBelow: number
}

export interface LoadedLog {
  /** At least one; the last one takes appends. */
  readonly segments: Segment[]
  readonly nextOffset: number
  readonly logStartOffset: number
  readonly producers: ProducerState
  readonly epochs: EpochCache
  readonly cuts: readonly CutReport[]
  readonly compaction: CompactionNote
  /** Taken as a stop in order left it. */
  readonly wasClean: boolean
}
