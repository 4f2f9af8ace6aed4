import { defined } from '../../../core/assert.ts'
import type { Uuid } from '../../../core/uuid.ts'
import type { GroupEffect, StoredPair } from '../machine.ts'
import { type MetadataHash, NO_TOPICS } from '../metadata-hash.ts'
import type { Assignment, TopicPartitions } from './assignment.ts'
import { ASSIGNORS } from './assignors.ts'
import type { ConsumerMember } from './consumer-member.ts'
import { currentRecord, epochRecord, memberRecord, regexRecord, targetEpochRecord, targetRecord } from './consumer-records.ts'
import type { ConsumerDeps, ConsumerOptions } from './consumer-types.ts'
import { ConsumerMembers } from './members.ts'
import { reconcile } from './reconcile.ts'
import { Subscriptions } from './subscriptions.ts'

const NEVER = Number.POSITIVE_INFINITY

/** Kafka's words for the life of a consumer group. */
export type ConsumerState = 'Empty' | 'Assigning' | 'Reconciling' | 'Stable' | 'Dead'

/** The subscription of a member as a request gives it; absent: as before. */
export interface MemberUpdate {
  readonly instanceId?: string
  readonly rackId?: string
  readonly rebalanceTimeoutMs?: number
  readonly subscribedTopics?: readonly string[]
  readonly subscribedRegex?: string
  readonly assignor?: string
  readonly clientId: string
  readonly clientHost: string
  readonly classic: ConsumerMember['classic']
}

/**
 * What is the same for members of either protocol in a consumer group (KIP-848). Three epochs chase each other: that of the group rises
 * when members, subscriptions or topics change; that of the target when an assignment was made for it; that of a member when it has let
 * go of what the target takes from it. Everything that changes is noted, and `takeRecords` gives it for one batch.
 */
export class ConsumerCore {
  readonly group: string
  readonly members = new ConsumerMembers()
  readonly subscriptions: Subscriptions
  readonly options: ConsumerOptions
  readonly deps: ConsumerDeps
  readonly #effects: GroupEffect[] = []
  #epoch = 0
  #assignmentEpoch = 0
  /** A restart and a change of protocol forget it: the first assignment after them waits for nothing. */
  #assignedAtMs = Number.NEGATIVE_INFINITY
  #metadataHash: MetadataHash = NO_TOPICS
  #epochChanged = false
  #targetEpochChanged = false
  #told: ConsumerState = 'Empty'
  #isDead = false

  constructor(group: string, deps: ConsumerDeps, options: ConsumerOptions) {
    this.group = group
    this.deps = deps
    this.options = options
    this.subscriptions = new Subscriptions(deps)
  }

  get epoch(): number {
    return this.#epoch
  }

  get assignmentEpoch(): number {
    return this.#assignmentEpoch
  }

  get state(): ConsumerState {
    if (this.#isDead) return 'Dead'
    if (this.members.size === 0) return 'Empty'
    if (this.#epoch > this.#assignmentEpoch) return 'Assigning'
    for (const member of this.members.all()) if (!member.isReconciledTo(this.#assignmentEpoch)) return 'Reconciling'
    return 'Stable'
  }

  /** Takes over where a stored group, or one of the classic protocol, stood. */
  startAt(epochs: { epoch: number; assignmentEpoch: number; metadataHash: MetadataHash }): void {
    this.#epoch = epochs.epoch
    this.#assignmentEpoch = epochs.assignmentEpoch
    this.#metadataHash = epochs.metadataHash
    this.#epochChanged = true
    this.#targetEpochChanged = true
  }

  /** What stands in the log now is what is here. */
  noteStored(): void {
    this.members.noteStored()
    this.subscriptions.changed.clear()
    this.#epochChanged = false
    this.#targetEpochChanged = false
    this.#told = this.state
  }

  // ---- steps of a request ---------------------------------------------------------------------------------------------------

  /** Whether what the member subscribes to is another thing than before. */
  update(member: ConsumerMember, update: MemberUpdate): boolean {
    const before: Told = { ...member }
    const { instanceId, classic, ...fields } = update
    Object.assign(member, fields)
    member.classic = classic
    if (instanceId !== undefined && member.instanceId !== instanceId) this.members.nameInstance(member, instanceId)
    if (!sameStored(before, member)) this.members.changed.add(member.memberId)
    if (member.subscribedRegex !== before.subscribedRegex) {
      this.subscriptions.enter(member.subscribedRegex)
      this.subscriptions.prune(this.members.all())
    }
    return member.subscribedRegex !== before.subscribedRegex || !sameList(member.subscribedTopics, before.subscribedTopics)
  }

  /** Raises the group epoch if `changed`, or if the topics that are subscribed to are not what they were. */
  refresh(changed: boolean): void {
    if (!changed && !this.subscriptions.isStale) return
    const otherTopics = this.subscriptions.refresh()
    const hash = this.subscriptions.hash(this.members.all())
    if (!changed && !otherTopics && hash === this.#metadataHash) return
    this.#metadataHash = hash
    this.#epoch++
    this.#epochChanged = true
  }

  /**
   * Makes a new target if the group has gone on since the last one, and that is long enough ago: members that come and go together
   * cost one assignment. Until then everybody goes on with the target that there is, and the first heartbeat after it makes the next one.
   */
  assign(nowMs: number): void {
    if (this.#epoch <= this.#assignmentEpoch) return
    const { assignmentIntervalMs } = this.deps.timing(this.group)
    const isEmpty = this.members.size === 0
    if (!isEmpty && assignmentIntervalMs > 0 && nowMs < this.#assignedAtMs + assignmentIntervalMs) return
    // Who comes to an empty group waits for nothing.
    if (!isEmpty) this.#assignedAtMs = nowMs
    const { topicsOf, partitions } = this.subscriptions.resolved(this.members.all())
    const members = [...this.members.all()].map((member) => ({
      memberId: member.memberId,
      instanceId: member.instanceId,
      topics: topicsOf(member),
      former: this.members.target(member.memberId),
    }))
    const assignor = this.elected()
    const targets = defined(ASSIGNORS[assignor], `the assignor ${assignor}`)(members, partitions)
    for (const { memberId } of members) this.members.aim(memberId, targets.get(memberId) ?? new Map())
    this.#assignmentEpoch = this.#epoch
    this.#targetEpochChanged = true
  }

  /** The assignor that most members name; members that name none do not vote. */
  elected(): string {
    const votes = new Map<string, number>()
    for (const { assignor } of this.members.all()) if (assignor !== null) votes.set(assignor, (votes.get(assignor) ?? 0) + 1)
    let best = this.options.assignors[0] ?? 'uniform'
    let most = 0
    for (const name of this.options.assignors) {
      const count = votes.get(name) ?? 0
      if (count > most) best = name
      most = Math.max(most, count)
    }
    return best
  }

  /** Brings the member one step nearer to its target; with `readsOthers`, away from what it does not subscribe to any longer. */
  advance(member: ConsumerMember, owned: readonly TopicPartitions[] | null, nowMs: number, readsOthers: boolean): void {
    const target = { epoch: this.#assignmentEpoch, assignment: this.#wantedBy(member) }
    const isFree = (topic: Uuid, partition: number) => this.members.isFree(member, topic, partition)
    const next = reconcile(member.progress, target, isFree, owned, readsOthers)
    if (!this.members.advance(member, next)) return
    // Members of the classic protocol are held to account by their joins and syncs.
    if (member.classic !== null || member.state !== 'unrevoked') member.revokeDeadlineMs = NEVER
    else member.revokeDeadlineMs = nowMs + member.rebalanceTimeoutMs
  }

  /** Its target, or what it still subscribes to of one that is older than the subscriptions. */
  #wantedBy(member: ConsumerMember): Assignment {
    const target = this.members.target(member.memberId)
    if (this.#assignmentEpoch === this.#epoch) return target
    const read = this.subscriptions.resolved([member]).topicsOf(member)
    return new Map([...target].filter(([topic]) => read.has(topic)))
  }

  /** Whether a partition of the member's target is still with another. */
  waitsForOthers(member: ConsumerMember): boolean {
    for (const [topic, partitions] of this.members.target(member.memberId)) {
      for (const partition of partitions) {
        if (member.assigned.get(topic)?.has(partition) !== true && !this.members.isFree(member, topic, partition)) return true
      }
    }
    return false
  }

  /** They are gone, and what they had is free; the group goes on with `refresh`. */
  remove(members: readonly ConsumerMember[]): void {
    for (const member of members) this.members.remove(member)
    this.subscriptions.prune(this.members.all())
  }

  // ---- for the shell --------------------------------------------------------------------------------------------------------

  /** Asks for what changed to be stored. The last step of every request. */
  finish(reason: string): void {
    const { members, subscriptions } = this
    const isChanged =
      this.#epochChanged ||
      this.#targetEpochChanged ||
      members.changed.size + members.changedTargets.size + members.changedProgress.size + subscriptions.changed.size > 0
    if (!isChanged) return
    const state = this.state
    if (state !== this.#told) this.#effects.push({ kind: 'transition', from: this.#told, to: state, reason })
    this.#told = state
    this.#effects.push({ kind: 'store' })
  }

  effect(effect: GroupEffect): void {
    this.#effects.push(effect)
  }

  drain(): GroupEffect[] {
    return this.#effects.splice(0)
  }

  /** In an order that Kafka can read: a member before what it is to have. */
  takeRecords(nowMs: number): readonly StoredPair[] {
    const { group, members, subscriptions } = this
    const stored: StoredPair[] = []
    const gone = [...members.changed].filter((memberId) => members.get(memberId) === undefined)
    for (const memberId of gone) {
      stored.push(
        currentRecord(group, memberId, undefined),
        targetRecord(group, memberId, undefined),
        memberRecord(group, memberId, undefined),
      )
    }
    const there = (memberId: string) => members.get(memberId) !== undefined
    for (const memberId of members.changed) if (there(memberId)) stored.push(memberRecord(group, memberId, members.get(memberId)))
    for (const text of subscriptions.changed) {
      const resolved = subscriptions.expression(text)
      stored.push(regexRecord(group, text, resolved === undefined ? undefined : { ...resolved, timestampMs: nowMs }))
    }
    if (this.#epochChanged) stored.push(epochRecord(group, this.#epoch, this.#metadataHash))
    for (const memberId of members.changedTargets) {
      if (there(memberId)) stored.push(targetRecord(group, memberId, members.storedTarget(memberId)))
    }
    if (this.#targetEpochChanged) stored.push(targetEpochRecord(group, this.#assignmentEpoch, nowMs))
    for (const memberId of members.changedProgress) if (there(memberId)) stored.push(currentRecord(group, memberId, members.get(memberId)))
    members.noteStored()
    subscriptions.changed.clear()
    this.#epochChanged = false
    this.#targetEpochChanged = false
    return stored
  }

  kill(reason: string): void {
    this.#isDead = true
    this.#effects.push({ kind: 'transition', from: this.#told, to: 'Dead', reason })
  }
}

function sameList(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((each, at) => each === right[at])
}

/** What of a member is told in the record of its subscription. */
type Told = Pick<
  ConsumerMember,
  | 'instanceId'
  | 'rackId'
  | 'clientId'
  | 'clientHost'
  | 'subscribedTopics'
  | 'subscribedRegex'
  | 'rebalanceTimeoutMs'
  | 'assignor'
  | 'classic'
>

function sameStored(left: Told, right: Told): boolean {
  return (
    left.instanceId === right.instanceId &&
    left.rackId === right.rackId &&
    left.clientId === right.clientId &&
    left.clientHost === right.clientHost &&
    left.subscribedRegex === right.subscribedRegex &&
    left.rebalanceTimeoutMs === right.rebalanceTimeoutMs &&
    left.assignor === right.assignor &&
    left.classic === right.classic &&
    sameList(left.subscribedTopics, right.subscribedTopics)
  )
}
