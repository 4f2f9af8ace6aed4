import { MoonMQError } from '../../core/errors.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { GroupEffect, GroupMachine, MemberView, StoredPair } from '../groups/machine.ts'
import { type MetadataHash, NO_TOPICS } from '../groups/metadata-hash.ts'
import {
  currentRecord,
  groupEpochRecord,
  type KnownTopic,
  memberRecord,
  memberTombstones,
  type StoredMember,
  type StoredShareGroup,
  targetEpochRecord,
  targetRecord,
  topicsRecord,
} from './share-group-records.ts'
import { assignSimply, type ShareAssignment } from './simple-assignor.ts'

export interface ShareHeartbeat {
  readonly memberId: string
  /** 0 joins, −1 leaves. */
  readonly memberEpoch: number
  /** Null: as before. */
  readonly rackId: string | null
  readonly topicNames: readonly string[] | null
  readonly clientId: string
  readonly clientHost: string
}

export interface ShareHeartbeatAnswer {
  readonly memberEpoch: number
  /** Null: as before. */
  readonly assignment: ShareAssignment | null
}

/** What the group sees of the metadata. */
export interface TopicsSeen {
  /** Another value when any topic may have changed. */
  version(): unknown
  /** Another value when one of these topics has changed. */
  hash(names: Iterable<string>): MetadataHash
  find(name: string): { readonly id: Uuid; readonly partitions: number } | undefined
}

export interface ShareGroupOptions {
  /** May be different the next time. */
  readonly sessionTimeoutMs: () => number
  /** Least time between two assignments. */
  readonly assignmentIntervalMs: () => number
  readonly maxMembers: number
}

interface Member extends StoredMember {
  deadlineMs: number
}

const NOTHING: ShareAssignment = new Map()

/** The members of one share group (KIP-932): who reads which partitions. Members share partitions, so nobody waits for another. */
export class ShareGroup implements GroupMachine {
  readonly kind = 'share'
  readonly protocolType = 'share'
  readonly group: string
  readonly #topicsSeen: TopicsSeen
  readonly #options: ShareGroupOptions
  readonly #members = new Map<string, Member>()
  readonly #targets = new Map<string, ShareAssignment>()
  readonly #topics = new Map<Uuid, KnownTopic>()
  #epoch = 0
  #assignmentEpoch = 0
  #isDead = false
  /** The metadata that the targets were made from, and what of it the members read. */
  #version: unknown
  #metadataHash: MetadataHash = NO_TOPICS
  /** A restart forgets it: the first assignment after it waits for nothing. */
  #assignedAtMs = Number.NEGATIVE_INFINITY
  #effects: GroupEffect[] = []
  #pairs: StoredPair[] = []

  constructor(group: string, topicsSeen: TopicsSeen, options: ShareGroupOptions) {
    this.group = group
    this.#topicsSeen = topicsSeen
    this.#options = options
  }

  static restore(group: string, stored: StoredShareGroup, topicsSeen: TopicsSeen, options: ShareGroupOptions, nowMs: number): ShareGroup {
    const machine = new ShareGroup(group, topicsSeen, options)
    machine.#epoch = stored.epoch
    machine.#assignmentEpoch = stored.assignmentEpoch
    const deadlineMs = nowMs + options.sessionTimeoutMs()
    for (const member of stored.members.values()) machine.#members.set(member.memberId, { ...member, deadlineMs })
    for (const [memberId, target] of stored.targets) machine.#targets.set(memberId, target)
    for (const topic of stored.topics.values()) machine.#topics.set(topic.id, topic)
    machine.#metadataHash = stored.metadataHash
    return machine
  }

  get state(): string {
    if (this.#isDead) return 'Dead'
    return this.#members.size === 0 ? 'Empty' : 'Stable'
  }

  get epoch(): number {
    return this.#epoch
  }

  get assignmentEpoch(): number {
    return this.#assignmentEpoch
  }

  get memberCount(): number {
    return this.#members.size
  }

  get isVacant(): boolean {
    return this.#members.size === 0 && this.#topics.size === 0
  }

  members(): IterableIterator<StoredMember> {
    return this.#members.values()
  }

  /** Topics of which the group has positions. */
  topics(): IterableIterator<KnownTopic> {
    return this.#topics.values()
  }

  *views(): IterableIterator<MemberView> {
    for (const { memberId, clientId, clientHost, topicNames, assigned } of this.#members.values()) {
      yield { memberId, instanceId: null, clientId, clientHost, topics: topicNames, assigned }
    }
  }

  // ---- heartbeats -----------------------------------------------------------------------------------------------------------

  /** Throws GROUP_MEMBER_UNKNOWN, FENCED_MEMBER_EPOCH, GROUP_LIMIT, INVALID_REQUEST. */
  heartbeat(request: ShareHeartbeat, nowMs: number): ShareHeartbeatAnswer {
    if (request.memberEpoch < 0) return this.#leave(request.memberId, nowMs)
    const known = this.#members.get(request.memberId)
    if (known === undefined) return this.#join(request, nowMs)
    if (request.memberEpoch > 0) checkEpoch(this.group, known, request.memberEpoch)
    known.deadlineMs = nowMs + this.#options.sessionTimeoutMs()
    const readsOthers = this.#update(known, request, nowMs)
    return this.#answer(request, this.#members.get(request.memberId) ?? known, readsOthers)
  }

  #join(request: ShareHeartbeat, nowMs: number): ShareHeartbeatAnswer {
    const { memberId, memberEpoch, rackId, topicNames, clientId, clientHost } = request
    if (memberEpoch !== 0) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: memberId })
    const { maxMembers, sessionTimeoutMs } = this.#options
    if (this.#members.size >= maxMembers) throw new MoonMQError('GROUP_LIMIT', { group: this.group, limit: maxMembers })
    const member: Member = {
      memberId,
      rackId,
      clientId,
      clientHost,
      topicNames: sortedNames(topicNames ?? []),
      epoch: 0,
      previousEpoch: 0,
      assigned: NOTHING,
      deadlineMs: nowMs + sessionTimeoutMs(),
    }
    this.#members.set(memberId, member)
    this.#pairs.push(memberRecord(this.group, member))
    if (this.#members.size === 1) this.#transition('Empty', 'Stable', `member "${memberId}" joined`)
    this.#reassign(true, nowMs)
    return this.#answer(request, member, true)
  }

  /** Whether it reads other topics than before. */
  #update(member: Member, { rackId, topicNames, clientId, clientHost }: ShareHeartbeat, nowMs: number): boolean {
    const names = topicNames === null ? member.topicNames : sortedNames(topicNames)
    const next = { ...member, rackId: rackId ?? member.rackId, topicNames: names, clientId, clientHost }
    const readsOthers = names.join() !== member.topicNames.join()
    if (readsOthers || next.rackId !== member.rackId || clientId !== member.clientId || clientHost !== member.clientHost) {
      this.#members.set(member.memberId, next)
      this.#pairs.push(memberRecord(this.group, next))
    }
    this.#reassign(readsOthers, nowMs)
    return readsOthers
  }

  #answer(request: ShareHeartbeat, member: Member, readsOthers: boolean): ShareHeartbeatAnswer {
    const isBehind = member.epoch !== this.#assignmentEpoch
    const wanted = isBehind || readsOthers ? this.#wantedBy(member) : member.assigned
    const isChanged = !areSame(member.assigned, wanted)
    let current = member
    if (isChanged || isBehind) {
      current = { ...member, previousEpoch: isBehind ? member.epoch : member.previousEpoch, epoch: this.#assignmentEpoch, assigned: wanted }
      this.#members.set(member.memberId, current)
      this.#pairs.push(currentRecord(this.group, current))
    }
    this.#store()
    // Who told everything is told everything: it may have lost what it had.
    const asksForAll = request.memberEpoch === 0 || request.topicNames !== null
    return { memberEpoch: current.epoch, assignment: isChanged || asksForAll ? current.assigned : null }
  }

  /** Of its target what it still reads: the target can be older than what it subscribes to, as long as no new one may be made. */
  #wantedBy({ memberId, topicNames }: Member): ShareAssignment {
    const target = this.#targets.get(memberId) ?? NOTHING
    const read = new Set(topicNames.map((name) => this.#topicsSeen.find(name)?.id))
    return [...target.keys()].every((id) => read.has(id)) ? target : new Map([...target].filter(([id]) => read.has(id)))
  }

  #leave(memberId: string, nowMs: number): ShareHeartbeatAnswer {
    if (!this.#members.has(memberId)) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: memberId })
    this.#remove(memberId, `member "${memberId}" left`)
    this.#reassign(true, nowMs)
    this.#store()
    return { memberEpoch: -1, assignment: null }
  }

  #remove(memberId: string, reason: string): void {
    this.#members.delete(memberId)
    this.#targets.delete(memberId)
    this.#pairs.push(...memberTombstones(this.group, memberId))
    if (this.#members.size === 0) this.#transition('Stable', 'Empty', reason)
  }

  // ---- assignment -----------------------------------------------------------------------------------------------------------

  /** Raises the epoch when the members, what they read, or the topics have changed, and makes new targets when it is time for them. */
  #reassign(membersChanged: boolean, nowMs: number): void {
    this.#refresh(membersChanged)
    if (this.#epoch <= this.#assignmentEpoch) return
    const intervalMs = this.#options.assignmentIntervalMs()
    // Members that come and go together cost one assignment; the first heartbeat after the interval makes it.
    if (intervalMs > 0 && nowMs < this.#assignedAtMs + intervalMs) return
    this.#assignedAtMs = nowMs
    this.#assign()
  }

  #refresh(membersChanged: boolean): void {
    const version = this.#topicsSeen.version()
    if (!membersChanged && version === this.#version) return
    this.#version = version
    this.#dropGone()
    const hash = this.#topicsSeen.hash([...this.#members.values()].flatMap(({ topicNames }) => topicNames))
    if (!membersChanged && hash === this.#metadataHash) return
    this.#metadataHash = hash
    this.#epoch++
    this.#pairs.push(groupEpochRecord(this.group, this.#epoch, hash))
  }

  /** Positions in a topic go with it. */
  #dropGone(): void {
    const gone = [...this.#topics.values()].filter(({ id, name }) => this.#topicsSeen.find(name)?.id !== id)
    for (const { id } of gone) this.#topics.delete(id)
    if (gone.length > 0) this.#pairs.push(topicsRecord(this.group, this.#topics.values()))
  }

  #assign(): void {
    const topics = new Map<Uuid, { readonly id: Uuid; readonly name: string; readonly partitions: number }>()
    const members = [...this.#members.values()].map(({ memberId, topicNames }) => {
      const ids = new Set<Uuid>()
      for (const name of topicNames) {
        const topic = this.#topicsSeen.find(name)
        if (topic === undefined) continue
        ids.add(topic.id)
        topics.set(topic.id, { ...topic, name })
      }
      return { memberId, topics: ids, current: this.#targets.get(memberId) ?? NOTHING }
    })
    this.#noteTopics(topics.values())
    for (const [memberId, target] of assignSimply(members, [...topics.values()])) {
      if (areSame(this.#targets.get(memberId) ?? NOTHING, target)) continue
      this.#targets.set(memberId, target)
      this.#pairs.push(targetRecord(this.group, memberId, target))
    }
    this.#assignmentEpoch = this.#epoch
    this.#pairs.push(targetEpochRecord(this.group, this.#assignmentEpoch))
  }

  #noteTopics(topics: Iterable<{ readonly id: Uuid; readonly name: string; readonly partitions: number }>): void {
    let isNew = false
    for (const { id, name, partitions } of topics) {
      if ((this.#topics.get(id)?.partitions.length ?? -1) >= partitions) continue
      this.#topics.set(id, { id, name, partitions: Array.from({ length: partitions }, (_, partition) => partition) })
      isNew = true
    }
    if (isNew) this.#pairs.push(topicsRecord(this.group, this.#topics.values()))
  }

  /** From now on the group has a position in these partitions: an administrator chose it. */
  addTopic(id: Uuid, name: string, partitions: number): void {
    this.#noteTopics([{ id, name, partitions }])
    if (this.#epoch === 0) {
      this.#epoch = 1
      this.#pairs.push(groupEpochRecord(this.group, this.#epoch, this.#metadataHash))
    }
    this.#store()
  }

  /** The group has no position in the topic any more. False when it had none. */
  forgetTopic(id: Uuid): boolean {
    if (!this.#topics.delete(id)) return false
    this.#pairs.push(topicsRecord(this.group, this.#topics.values()))
    this.#store()
    return true
  }

  // ---- the machine ----------------------------------------------------------------------------------------------------------

  #transition(from: string, to: string, reason: string): void {
    this.#effects.push({ kind: 'transition', from, to, reason })
  }

  #store(): void {
    if (this.#pairs.length > 0) this.#effects.push({ kind: 'store' })
  }

  drain(): GroupEffect[] {
    return this.#effects.splice(0)
  }

  takeRecords(): readonly StoredPair[] {
    return this.#pairs.splice(0)
  }

  nextDeadlineMs(): number {
    let least = Number.POSITIVE_INFINITY
    for (const { deadlineMs } of this.#members.values()) least = Math.min(least, deadlineMs)
    return least
  }

  tick(nowMs: number): void {
    const silent = [...this.#members.values()].filter(({ deadlineMs }) => deadlineMs <= nowMs)
    if (silent.length === 0) return
    for (const { memberId } of silent) this.#remove(memberId, `member "${memberId}" was not heard from`)
    this.#reassign(true, nowMs)
    this.#store()
  }

  /** Share groups have no committed offsets; Kafka says that there is no such group for whoever commits. */
  refuseCommit(): MoonMQError {
    return new MoonMQError('GROUP_MISSING', { group: this.group })
  }

  subscribedTopics(): null {
    return null
  }

  kill(reason: string): void {
    const { state } = this
    this.#members.clear()
    this.#isDead = true
    this.#transition(state, 'Dead', reason)
  }
}

function checkEpoch(group: string, { memberId, epoch, previousEpoch }: Member, told: number): void {
  // One that did not hear of its new epoch still tells the one before.
  if (told === epoch || told === previousEpoch) return
  throw new MoonMQError('FENCED_MEMBER_EPOCH', { group, member: memberId, epoch: told, current: epoch })
}

function sortedNames(names: readonly string[]): string[] {
  return [...new Set(names)].sort()
}

function areSame(left: ShareAssignment, right: ShareAssignment): boolean {
  if (left.size !== right.size) return false
  for (const [id, partitions] of left) if (partitions.join() !== right.get(id)?.join()) return false
  return true
}
