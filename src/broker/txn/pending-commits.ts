import type { MoonMQError } from '../../core/errors.ts'
import type { EndTxnMarker } from '../../record/control.ts'
import type { RequestContext } from '../context.ts'
import type { CommitOffsets } from '../group-ports.ts'
import type { ProducerIdentity } from '../txn-ports.ts'

/** What the transaction coordinator needs of the group coordinator. */
export interface PendingCommits {
  /** The partition of `__consumer_offsets` that holds the group. */
  partitionOf(group: string): number
  /**
   * Stores offsets that wait for the end of the producer's transaction; durable when it resolves. `admit` is asked in the turn of the
   * append: undefined lets it pass, a promise is waited for and asked again. Throws what `admit` throws.
   */
  commitPending(
    context: RequestContext,
    producer: ProducerIdentity,
    request: CommitOffsets,
    admit: () => Promise<void> | undefined,
  ): Promise<readonly (MoonMQError | null)[]>
  /** Appends the marker, and the offsets that waited for it count, or are forgotten. Durable when it resolves. */
  endTransaction(partition: number, marker: EndTxnMarker): Promise<void>
}
