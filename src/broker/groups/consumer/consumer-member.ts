import { MoonMQError } from '../../../core/errors.ts'
import { type Holding, holdsAll, NO_HOLDING, type TopicPartitions } from './assignment.ts'
import { type ClassicSide, JOIN_EPOCH } from './consumer-types.ts'
import type { MemberState, Progress } from './reconcile.ts'

const NEVER = Number.POSITIVE_INFINITY

/** A member of a consumer group. Deadlines are monotonic and not stored: after a restart everybody gets a whole one. */
export class ConsumerMember {
  readonly memberId: string
  instanceId: string | null = null
  rackId: string | null = null
  clientId = ''
  clientHost = ''
  subscribedTopics: readonly string[] = []
  /** Empty: none. */
  subscribedRegex = ''
  rebalanceTimeoutMs = -1
  assignor: string | null = null
  /** Set for a member that speaks the classic protocol. */
  classic: ClassicSide | null = null
  epoch = JOIN_EPOCH
  previousEpoch = JOIN_EPOCH
  state: MemberState = 'stable'
  assigned: Holding = NO_HOLDING
  revoking: Holding = NO_HOLDING
  sessionDeadlineMs = NEVER
  /** By when it has to give back what is revoked. */
  revokeDeadlineMs = NEVER
  /** By when a classic member has to join again, and to sync. */
  joinDeadlineMs = NEVER
  syncDeadlineMs = NEVER

  constructor(memberId: string) {
    this.memberId = memberId
  }

  /** The same member in a new process: everything but its id, its epoch and its deadlines. */
  succeededBy(memberId: string): ConsumerMember {
    const next = new ConsumerMember(memberId)
    const { instanceId, rackId, clientId, clientHost, subscribedTopics, subscribedRegex, rebalanceTimeoutMs, assignor, classic } = this
    const { state, assigned, revoking } = this
    Object.assign(next, {
      instanceId,
      rackId,
      clientId,
      clientHost,
      subscribedTopics,
      subscribedRegex,
      rebalanceTimeoutMs,
      assignor,
      classic,
    })
    Object.assign(next, { state, assigned, revoking })
    return next
  }

  get progress(): Progress {
    return { epoch: this.epoch, state: this.state, assigned: this.assigned, revoking: this.revoking }
  }

  isReconciledTo(epoch: number): boolean {
    return this.state === 'stable' && this.epoch === epoch
  }

  /** Everything of it that is shown or counted changes but `progress`, which `ConsumerMembers` keeps with its owners. */
  enter(epoch: number): void {
    if (epoch === this.epoch) return
    this.previousEpoch = this.epoch
    this.epoch = epoch
  }

  /**
   * Throws FENCED_MEMBER_EPOCH unless the request comes from where the member is. The epoch before is as good while it holds nothing else
   * than it was given: the answer with the new one was lost. One that joins anew has let go of everything.
   */
  checkEpoch(group: string, epoch: number, owned: readonly TopicPartitions[] | null): void {
    if (epoch === this.epoch || epoch === JOIN_EPOCH) return
    if (epoch === this.previousEpoch && epoch < this.epoch && owned !== null && holdsAll(this.assigned, owned)) return
    throw new MoonMQError('FENCED_MEMBER_EPOCH', { group, member: this.memberId, epoch, current: this.epoch })
  }

  nextDeadlineMs(): number {
    return Math.min(this.sessionDeadlineMs, this.revokeDeadlineMs, this.joinDeadlineMs, this.syncDeadlineMs)
  }

  /** Why it is to go, if any of its times is over. */
  overdue(nowMs: number): string | null {
    if (this.sessionDeadlineMs <= nowMs) return 'its session is over'
    if (this.revokeDeadlineMs <= nowMs) return 'it did not give back its partitions in time'
    if (this.joinDeadlineMs <= nowMs) return 'it did not join again in time'
    return this.syncDeadlineMs <= nowMs ? 'it did not sync in time' : null
  }
}
