import type { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import type { RequestContext } from './context.ts'
import type { AckType, AcquiredRange } from './share/share-types.ts'

/** What the doors ask of share groups (KIP-932). */

export interface ShareGroupHeartbeat {
  readonly group: string
  readonly memberId: string
  /** 0 joins, −1 leaves. */
  readonly memberEpoch: number
  /** Null: as before. */
  readonly rackId: string | null
  /** Null: as before. */
  readonly topicNames: readonly string[] | null
}

export interface SharePartitions {
  readonly topicId: Uuid
  readonly partitions: readonly number[]
}

export interface ShareGroupHeartbeatAnswer {
  readonly memberEpoch: number
  readonly heartbeatIntervalMs: number
  /** Null: as before. */
  readonly assignment: readonly SharePartitions[] | null
}

export interface ShareAcks {
  readonly topicId: Uuid
  readonly partition: number
  readonly batches: readonly {
    readonly first: number
    readonly last: number
    /** One for all offsets, or one for each. */
    readonly types: readonly AckType[]
  }[]
  /** Why the door could not read them: the partition is refused, and no other. */
  readonly unreadable?: string
}

interface ShareRequest {
  readonly group: string
  readonly memberId: string
  /** 0 opens a session, −1 closes it. */
  readonly sessionEpoch: number
  /** The acknowledgements renew locks, and nothing is fetched. */
  readonly isRenewal: boolean
}

export interface ShareFetchRequest extends ShareRequest {
  /** Partitions to be added to the session, with what is said of their records. */
  readonly partitions: readonly ShareAcks[]
  readonly forgotten: readonly { readonly topicId: Uuid; readonly partition: number }[]
  readonly maxWaitMs: number
  /** Until there are so many, or the wait is over, nothing is given out; 0: the answer is what there is now. */
  readonly minBytes: number
  readonly maxBytes: number
  readonly maxRecords: number
  /** An acquired range of the answer is not longer. */
  readonly batchSize: number
  /** Never more than `maxRecords`; else the last batch may go beyond it. */
  readonly isStrict: boolean
}

export interface SharedPartition {
  readonly topicId: Uuid
  readonly partition: number
  readonly error: MoonMQError | null
  /** Of the acknowledgements. */
  readonly ackError: MoonMQError | null
  readonly acquired: readonly AcquiredRange[]
  /** Whole batches that hold what was acquired. */
  readonly records: readonly Buffer[]
  readonly sizeBytes: number
}

export interface ShareFetched {
  readonly lockMs: number
  readonly partitions: readonly SharedPartition[]
  /** Gives back the memory of every read: after the bytes were handed to the socket. */
  release(): void
}

export interface ShareAcknowledgeRequest extends ShareRequest {
  readonly partitions: readonly ShareAcks[]
}

export interface ShareAcknowledged {
  readonly lockMs: number
  /** In the order of the request. */
  readonly errors: readonly (MoonMQError | null)[]
}

export interface ShareGroupMember {
  readonly memberId: string
  readonly rackId: string | null
  readonly memberEpoch: number
  readonly clientId: string
  readonly clientHost: string
  readonly topicNames: readonly string[]
  readonly assignment: readonly (SharePartitions & { readonly topic: string })[]
}

export interface ShareGroupDescription {
  readonly error: MoonMQError | null
  readonly group: string
  readonly state: string
  readonly groupEpoch: number
  readonly assignmentEpoch: number
  readonly assignor: string
  readonly members: readonly ShareGroupMember[]
}

/** Where a share group stands in one partition. */
export interface SharePosition {
  readonly partition: number
  readonly error: MoonMQError | null
  /** −1: it has not begun. */
  readonly startOffset: number
  /** Records that are not done with; −1 where it cannot be told. */
  readonly lag: number
}

export interface SharePositions {
  readonly topic: string
  readonly topicId: Uuid
  readonly partitions: readonly SharePosition[]
}

export interface SharePort {
  heartbeat(context: RequestContext, request: ShareGroupHeartbeat): Promise<ShareGroupHeartbeatAnswer>
  describe(context: RequestContext, groups: readonly string[]): Promise<readonly ShareGroupDescription[]>
  /** Waits up to `maxWaitMs` for records that can be given out. Throws what the session as a whole is refused with. */
  fetch(context: RequestContext, request: ShareFetchRequest): Promise<ShareFetched>
  /** Answered when it is durable. */
  acknowledge(context: RequestContext, request: ShareAcknowledgeRequest): Promise<ShareAcknowledged>
  /** `topics` null = every one that the group has positions in. Throws what the group as a whole is refused with. */
  positions(
    context: RequestContext,
    group: string,
    topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[] | null,
  ): Promise<readonly SharePositions[]>
  /** Chooses where a group without members goes on, or a new one begins. One outcome a partition. */
  alterPositions(
    context: RequestContext,
    group: string,
    topics: readonly { readonly topic: string; readonly partitions: readonly { readonly partition: number; readonly offset: number }[] }[],
  ): Promise<readonly SharePositions[]>
  /** Forgets where a group without members stands. One outcome a topic. */
  deletePositions(context: RequestContext, group: string, topics: readonly string[]): Promise<readonly (MoonMQError | null)[]>
}
