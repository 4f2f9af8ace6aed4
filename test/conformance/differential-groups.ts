import { assignedPartitionsOf, encodeAssignment } from '../../src/broker/groups/classic-subscription.ts'
import { SeededRandom } from '../../src/core/random.ts'
import type { Responses } from '../../src/schema/types.generated.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { subscriptionBytes } from '../support/subscriptions.ts'
import { GroupWords, newSlot, type Slot } from './group-words.ts'
import { type Actor, isLoading, lasting } from './lockstep.ts'

/** Members of the classic protocol, of KIP-848's, or of both in one group, which changes over as they come and go. */
export type GroupFlavour = 'classic' | 'consumer' | 'mixed'

const SLOTS = ['a', 'b', 'c'] as const
const TIMEOUT_MS = 60_000
const SESSION_MS = 45_000
const MEMBER_ID_REQUIRED = 79
/** A group on one broker: its members come, go, are fenced and commit, by the seed. */
export class GroupActor implements Actor {
  readonly #control: RawKafka
  readonly #slots: readonly Slot[]
  readonly #random: SeededRandom
  readonly #prefix: string
  readonly #group: string
  readonly #topics: readonly string[]
  readonly #steps: readonly (() => Promise<string>)[]
  readonly #words: GroupWords
  readonly #isMixed: boolean
  #answers: string[] = []
  #producer = { producerId: -1, producerEpoch: -1 }

  private constructor(control: RawKafka, sockets: readonly RawKafka[], seed: number, flavour: GroupFlavour, prefix: string) {
    this.#control = control
    this.#random = new SeededRandom(seed)
    this.#prefix = prefix
    this.#isMixed = flavour === 'mixed'
    this.#words = new GroupWords(prefix, flavour === 'mixed')
    this.#group = `${this.#prefix}-group`
    this.#topics = [`${this.#prefix}-t0`, `${this.#prefix}-t1`]
    this.#slots = SLOTS.map((name, index) => newSlot(name, sockets[index] as RawKafka))
    this.#steps = this.#stepsOf(flavour)
  }

  /** Everything it makes is called after `prefix`. */
  static async open(address: string, seed: number, flavour: GroupFlavour, prefix = `${flavour}${seed}`): Promise<GroupActor> {
    const sockets = await Promise.all(SLOTS.map((name) => RawKafka.greeted(address, name)))
    const actor = new GroupActor(await RawKafka.connect(address, 'control'), sockets, seed, flavour, prefix)
    await actor.#ready()
    return actor
  }

  [Symbol.dispose](): void {
    this.#control[Symbol.dispose]()
    for (const { socket } of this.#slots) socket[Symbol.dispose]()
  }

  async #ready(): Promise<void> {
    const topics = this.#topics.map((name, index) => ({
      name,
      numPartitions: 3 - index,
      replicationFactor: 1,
      assignments: [],
      configs: [],
    }))
    await this.#control.request('CreateTopics', 5, { topics, timeoutMs: 20_000 })
    const asked = { topics: this.#topics.map((name) => ({ name, topicId: undefined })), allowAutoTopicCreation: false }
    const found = await lasting(
      () => this.#control.request('Metadata', 12, asked),
      (answer) => answer.topics.some(({ errorCode, partitions }) => errorCode !== 0 || partitions.some((each) => each.errorCode !== 0)),
    )
    for (const { name, topicId } of found.topics) this.#words.topicNames.set(topicId, (name ?? '').slice(this.#prefix.length + 1))
    for (const [keyType, key] of [
      [0, this.#group],
      [1, this.#group],
    ] as const) {
      const find = () => this.#control.request('FindCoordinator', 4, { keyType, coordinatorKeys: [key] })
      await lasting(find, ({ coordinators }) => coordinators.some(({ errorCode }) => errorCode !== 0))
    }
    const init = { transactionalId: this.#group, transactionTimeoutMs: TIMEOUT_MS, producerId: -1, producerEpoch: -1 }
    const { producerId, producerEpoch } = await lasting(
      () => this.#control.request('InitProducerId', 4, init),
      ({ errorCode }) => errorCode !== 0,
    )
    this.#producer = { producerId, producerEpoch }
    await this.#known()
  }

  /** A coordinator hears of a new topic a moment after everybody else: it does when it assigns it. */
  async #known(): Promise<void> {
    const probe = newSlot('probe', this.#control)
    for (const topic of this.#topics) {
      await lasting(
        async () => {
          probe.memberId = `${topic}-${++probe.joins}`
          await this.#speak(probe, 0, { rebalanceTimeoutMs: TIMEOUT_MS, subscribedTopicNames: [topic], topicPartitions: [] }, 'asks')
          const { length } = probe.assigned
          if (probe.epoch > 0) await this.#speak(probe, -1, {}, 'leaves')
          return length
        },
        (length) => length === 0,
      )
    }
    await lasting(
      () => this.#control.request('DeleteGroups', 2, { groupsNames: [this.#group] }),
      ({ results }) => results[0]?.errorCode !== 0,
    )
    this.#words.firstEpoch = null
  }

  #stepsOf(flavour: GroupFlavour): readonly (() => Promise<string>)[] {
    const slot = (speaks?: Slot['speaks']) => {
      const some = this.#slots.filter((each) => flavour !== 'mixed' || speaks === undefined || maySpeak(each, speaks))
      return this.#pick(...some)
    }
    const classicSlot = () => slot('classic')
    const consumerSlot = () => slot('consumer')
    const times = (count: number, act: () => Promise<string>) => Array.from({ length: count }, () => act)
    const classic = [
      ...times(6, async () => this.#join(classicSlot())),
      ...times(6, async () => this.#sync(classicSlot())),
      ...times(3, () => this.#heartbeat(classicSlot())),
      ...times(2, () => this.#leave(slot())),
    ]
    const consumer = [
      ...times(3, () => this.#enter(consumerSlot())),
      ...times(8, () => this.#beat(consumerSlot())),
      ...times(2, () => this.#beatWrongly(consumerSlot())),
      ...times(2, () => this.#exit(consumerSlot())),
    ]
    const common = [
      ...times(3, () => this.#commit(slot())),
      ...times(2, () => this.#committed(slot())),
      () => this.#commitInTransaction(slot()),
      () => this.#deleteOffsets(),
      () => this.#deleteGroup(),
      () => this.#listed(),
    ]
    return [...(flavour === 'consumer' ? [] : classic), ...(flavour === 'classic' ? [] : consumer), ...common]
  }

  step(): Promise<string> {
    return (this.#steps[this.#random.below(this.#steps.length)] as () => Promise<string>)()
  }

  waiting(): string {
    return this.#slots.flatMap(({ name, request }) => (request === null ? [] : [`${name} ${request}`])).join(', ')
  }

  answered(): string[] {
    return this.#answers.splice(0).sort()
  }

  #pick<T>(...values: readonly T[]): T {
    return values[this.#random.below(values.length)] as T
  }

  // ---- the classic protocol -------------------------------------------------------------------------------------------------

  #join(slot: Slot): string {
    if (slot.request !== null) return `${slot.name} waits`
    // The generation that Kafka tells a static member that was the last of the other protocol is 0.
    if (slot.speaks === 'consumer' && this.#isAlone(slot)) return `${slot.name} is the last of its protocol`
    if (this.#isMixed) takeUp(slot, 'classic')
    // Instead of an empty consumer group there is a new one.
    if (this.#words.isEmpty) this.#words.firstEpoch = null
    // In a mixed group classic members are static: the order of ids, which brokers make up, decides what is assigned to the others.
    const version = this.#isMixed ? this.#pick(5, 9) : this.#pick(3, 5, 9)
    const isStatic = this.#isMixed || (slot.name === 'c' && version >= 5 && this.#random.below(2) === 0)
    if (isStatic !== (slot.instanceId !== null)) slot.memberId = ''
    slot.instanceId = isStatic ? (slot.name === 'c' ? 'i' : 'h') : null
    if (this.#random.below(8) === 0 && !this.#isMixed) slot.memberId = this.#pick('', 'nobody')
    // In one order: between protocols with as many votes nobody promises anything.
    const names = this.#pick(['range'], ['range'], ['range', 'sticky'], ['sticky'], ['odd'])
    const topics = this.#pick(this.#topics, this.#topics.slice(0, 1))
    const { memberId, instanceId } = slot
    const body = {
      groupId: this.#group,
      sessionTimeoutMs: SESSION_MS,
      rebalanceTimeoutMs: TIMEOUT_MS,
      memberId,
      ...(version >= 5 ? { groupInstanceId: instanceId } : {}),
      protocolType: this.#random.below(12) === 0 ? 'connect' : 'consumer',
      protocols: names.map((name) => ({ name, metadata: subscriptionBytes(topics) })),
      ...(version >= 8 ? { reason: 'by chance' } : {}),
    }
    const said = `${slot.name} joins ${version} as "${this.#words.nameOf(memberId)}" ${instanceId ?? ''} ${body.protocolType} ${names.join()}`
    this.#later(slot, 'join', async () => {
      const answer = await slot.socket.request('JoinGroup', version, body)
      const { errorCode, generationId, protocolName } = answer
      if (memberId === '' && answer.memberId !== '') this.#words.clientNames.set(answer.memberId, instanceId ?? slot.name)
      if (errorCode === MEMBER_ID_REQUIRED) slot.memberId = answer.memberId
      slot.isPending = errorCode === MEMBER_ID_REQUIRED || (slot.isPending && errorCode !== 0)
      if (errorCode !== 0) return `${errorCode}`
      slot.memberId = answer.memberId
      slot.epoch = generationId
      slot.protocol = protocolName ?? ''
      slot.isLeader = answer.leader === answer.memberId
      slot.members = answer.members.map((each) => each.memberId)
      return `0, generation ${this.#words.epochOf(generationId)} ${protocolName} ${answer.protocolType} as ${this.#words.nameOf(answer.memberId)}`
    })
    return said
  }

  #sync(slot: Slot): string {
    if (slot.request !== null || slot.memberId === '') return `${slot.name} has nothing to sync`
    const generationId = slot.epoch + (this.#random.below(8) === 0 ? 1 : 0)
    const protocolName = this.#random.below(10) === 0 ? 'other' : slot.protocol
    const topic = this.#topics[0] ?? ''
    const assignments = [...slot.members].sort().map((memberId, index) => ({
      memberId,
      assignment: encodeAssignment(1, [{ topic, partitions: [index] }]),
    }))
    const { memberId, instanceId: groupInstanceId } = slot
    const body = { groupId: this.#group, generationId, memberId, groupInstanceId, protocolType: 'consumer', protocolName, assignments }
    this.#later(slot, 'sync', async () => {
      const answer = await slot.socket.request('SyncGroup', 5, body)
      const partitions = assignedPartitionsOf(answer.assignment) ?? []
      const texts = partitions.map((each) => `${each.topic}:${each.partitions.join('+')}`).sort()
      return `${answer.errorCode} ${answer.protocolType} ${answer.protocolName}, assigned ${texts.join(' ')}`
    })
    return `${slot.name} syncs generation ${this.#words.epochOf(generationId)} ${protocolName}`
  }

  #later(slot: Slot, request: 'join' | 'sync', work: () => Promise<string>): void {
    slot.request = request
    const done = (text: string) => {
      slot.request = null
      this.#answers.push(`${slot.name} ${request}: ${text}`)
    }
    work().then(done, (error: unknown) => done(String(error)))
  }

  async #heartbeat(slot: Slot): Promise<string> {
    const generationId = slot.epoch + this.#pick(0, 0, 0, 0, slot.epoch > 0 ? this.#wrong(slot) : 0)
    const memberId = this.#random.below(8) === 0 ? 'nobody' : slot.memberId
    const body = { groupId: this.#group, generationId, memberId, groupInstanceId: slot.instanceId }
    const { errorCode } = await this.#control.request('Heartbeat', 4, body)
    return `heartbeat of ${slot.name} as "${this.#words.nameOf(memberId)}" in ${this.#words.epochOf(generationId)}: ${errorCode}`
  }

  /** Who leads when a leader leaves several others behind is nobody's business: then all but one leave. */
  async #leave(slot: Slot): Promise<string> {
    if (slot.isPending || (this.#isMixed && slot.memberId === '')) return `${slot.name} has not joined`
    // The sync of a member that leaves meanwhile is never answered by Kafka.
    if (this.#slots.some(({ request }) => request === 'sync')) return `${slot.name} waits for who syncs`
    const others = this.#slots.filter((each) => each !== slot && each.memberId !== '' && !each.isPending)
    const leaving = slot.isLeader ? [slot, ...others.slice(1)] : [slot]
    const codes: string[] = []
    for (const each of leaving) {
      const isByInstance = each.instanceId !== null && this.#random.below(2) === 0
      const member = { memberId: isByInstance ? '' : each.memberId, groupInstanceId: each.instanceId, reason: null }
      const answer = await this.#control.request('LeaveGroup', 5, { groupId: this.#group, members: [member] })
      codes.push(`${each.name} ${answer.errorCode} ${answer.members.map(({ errorCode }) => errorCode).join()}`)
      forget(each)
    }
    return `leave: ${codes.join('; ')}`
  }

  #isAlone(slot: Slot): boolean {
    return !this.#slots.some((each) => each !== slot && each.speaks === slot.speaks && each.memberId !== '')
  }

  /** Nobody promises who of several leads the group when the last member of the consumer protocol has gone: there is one. */
  async #leaveOneClassic(last: Slot): Promise<string> {
    const said: string[] = []
    if (!this.#isMixed || !this.#isAlone(last)) return ''
    for (const each of this.#slots.filter(({ speaks, memberId }) => speaks === 'classic' && memberId !== '').slice(1)) {
      each.isLeader = false
      said.push(`${await this.#leave(each)}, `)
    }
    return said.join('')
  }

  // ---- the consumer protocol ------------------------------------------------------------------------------------------------

  async #enter(slot: Slot): Promise<string> {
    if (slot.request !== null) return `${slot.name} waits`
    if (this.#isMixed) takeUp(slot, 'consumer')
    // Who takes its own place again without having left is refused by Kafka, and answered here: its first answer may have been lost.
    const isNew =
      slot.memberId === '' ||
      (slot.instanceId !== null && slot.epoch !== -2) ||
      !slot.memberId.startsWith(this.#prefix) ||
      this.#random.below(3) === 0
    slot.isPending = false
    if (isNew) slot.memberId = `${this.#prefix}-${slot.name}${++slot.joins}`
    slot.instanceId = slot.name === 'c' ? this.#pick(null, 'i') : null
    slot.assigned = []
    const body = {
      rebalanceTimeoutMs: TIMEOUT_MS,
      subscribedTopicNames: this.#pick(this.#topics, this.#topics.slice(0, 1), ['missing']),
      // Which partitions `uniform` takes from whom is its own choice.
      serverAssignor: this.#pick('range', 'range', 'range', 'odd'),
      topicPartitions: [],
    }
    return this.#speak(slot, 0, body, `enters for ${body.subscribedTopicNames.length} with ${body.serverAssignor}`)
  }

  #beat(slot: Slot): Promise<string> {
    const what = this.#random.below(5)
    if (what === 0) return this.#speak(slot, slot.epoch, {}, 'says nothing')
    const topicPartitions = slot.assigned.map(({ topicId, partitions }) => ({ topicId, partitions: [...partitions] }))
    if (what === 1) {
      const subscribedTopicNames = this.#pick(this.#topics, this.#topics.slice(1))
      return this.#speak(slot, slot.epoch, { subscribedTopicNames, topicPartitions }, `subscribes to ${subscribedTopicNames.length}`)
    }
    return this.#speak(slot, slot.epoch, { topicPartitions }, 'owns what it was given')
  }

  #beatWrongly(slot: Slot): Promise<string> {
    if (slot.epoch <= 0) return Promise.resolve(`${slot.name} is not in the group`)
    const epoch = slot.epoch + this.#wrong(slot)
    return this.#speak({ ...slot, memberId: this.#pick(slot.memberId, 'nobody', '') }, epoch, {}, 'is mistaken')
  }

  /** How far off an epoch is; never below the first one, under which brokers have different names for nothing. */
  #wrong({ epoch }: Slot): number {
    return this.#pick(1, 7, this.#words.firstEpoch !== null && epoch > this.#words.firstEpoch ? -1 : 1)
  }

  async #exit(slot: Slot): Promise<string> {
    const left = await this.#leaveOneClassic(slot)
    const epoch = slot.instanceId !== null ? this.#pick(-1, -2) : this.#pick(-1, -1, -1, -2)
    const said = await this.#speak(slot, epoch, {}, 'leaves')
    if (epoch === -1) forget(slot)
    return `${left}${said}`
  }

  async #speak(slot: Slot, memberEpoch: number, more: object, what: string): Promise<string> {
    const answer = await this.#control.request('ConsumerGroupHeartbeat', 1, {
      groupId: this.#group,
      memberId: slot.memberId,
      memberEpoch,
      instanceId: slot.instanceId,
      rackId: null,
      rebalanceTimeoutMs: -1,
      subscribedTopicNames: null,
      subscribedTopicRegex: null,
      serverAssignor: null,
      topicPartitions: null,
      ...more,
    })
    if (answer.errorCode === 0) slot.epoch = answer.memberEpoch
    if (answer.assignment !== null) slot.assigned = answer.assignment.topicPartitions
    const assigned = answer.assignment === null ? 'none' : `[${this.#words.partitionsOf(answer.assignment.topicPartitions)}]`
    if (answer.errorCode === 0 && memberEpoch === 0) this.#words.firstEpoch ??= answer.memberEpoch
    const told = `${answer.errorCode}, epoch ${this.#words.epochOf(answer.memberEpoch)}, every ${answer.heartbeatIntervalMs}, assigned ${assigned}`
    return `${slot.name} as "${this.#words.nameOf(slot.memberId)}" ${slot.instanceId ?? ''} in ${this.#words.epochOf(memberEpoch)} ${what}: ${told}`
  }

  // ---- offsets and administration -------------------------------------------------------------------------------------------

  /** Whom a commit is by: the slot as it is, or somebody that it is not. */
  #claim(slot: Slot) {
    const who = this.#random.below(6)
    if (who === 0) return { memberId: '', epoch: -1, instanceId: null }
    if (who === 1) return { memberId: 'nobody', epoch: slot.epoch, instanceId: null }
    return {
      memberId: slot.memberId,
      epoch: slot.epoch + this.#pick(0, 0, 0, slot.epoch > 0 ? this.#wrong(slot) : 0),
      instanceId: slot.instanceId,
    }
  }

  async #commit(slot: Slot): Promise<string> {
    const { memberId, epoch, instanceId } = this.#claim(slot)
    const partitionIndex = this.#random.below(4)
    const committedOffset = this.#random.below(50)
    const version = this.#pick(7, 9)
    const answer = await this.#control.request('OffsetCommit', version, {
      groupId: this.#group,
      generationIdOrMemberEpoch: epoch,
      memberId,
      groupInstanceId: instanceId,
      topics: [
        {
          name: this.#topics[0] ?? '',
          partitions: [{ partitionIndex, committedOffset, committedLeaderEpoch: -1, committedMetadata: 'm' }],
        },
      ],
    })
    const code = answer.topics[0]?.partitions[0]?.errorCode
    return `commit ${version} of ${partitionIndex} at ${committedOffset} by "${this.#words.nameOf(memberId)}" ${instanceId ?? ''} in ${this.#words.epochOf(epoch)}: ${code}`
  }

  async #committed(slot: Slot): Promise<string> {
    const { memberId, epoch } = this.#claim(slot)
    const topics = this.#pick(null, [{ name: this.#topics[0] ?? '', partitionIndexes: [0, 1, 3] }])
    const claim = this.#pick({ memberId: null, memberEpoch: -1 }, { memberId, memberEpoch: epoch })
    const answer = await this.#control.request('OffsetFetch', 9, {
      groups: [{ groupId: this.#group, ...claim, topics }],
      requireStable: true,
    })
    const [group] = answer.groups
    const offsets = (group?.topics ?? []).flatMap(({ partitions }) =>
      partitions.map((each) => `${each.partitionIndex}:${each.errorCode} ${each.committedOffset} ${each.metadata}`),
    )
    const who = claim.memberId === null ? 'anybody' : `"${this.#words.nameOf(claim.memberId)}" in ${this.#words.epochOf(claim.memberEpoch)}`
    return `committed for ${who}: ${group?.errorCode}, ${offsets.sort().join('; ')}`
  }

  /** Offsets in a transaction, which is ended at once; read when the end has reached them. */
  async #commitInTransaction(slot: Slot): Promise<string> {
    const { memberId, epoch, instanceId } = this.#claim(slot)
    const committedOffset = this.#random.below(50)
    const committed = this.#random.below(3) > 0
    const owner = { transactionalId: this.#group, ...this.#producer }
    const partitions = [{ partitionIndex: 0, committedOffset, committedLeaderEpoch: -1, committedMetadata: 't' }]
    const body = {
      ...owner,
      groupId: this.#group,
      generationIdOrMemberEpoch: epoch,
      memberId,
      groupInstanceId: instanceId,
      topics: [{ name: this.#topics[0] ?? '', partitions }],
    }
    const busy = (code: number | undefined) => code === 51 || isLoading(code ?? 0)
    const stored = await lasting(
      () => this.#control.request('TxnOffsetCommit', 5, body),
      ({ topics }) => busy(topics[0]?.partitions[0]?.errorCode),
    )
    const ended = await lasting(
      () => this.#control.request('EndTxn', 5, { ...owner, committed }),
      ({ errorCode }) => busy(errorCode),
    )
    if (ended.errorCode === 0) this.#producer = { producerId: ended.producerId, producerEpoch: ended.producerEpoch }
    const asked = [{ name: this.#topics[0] ?? '', partitionIndexes: [0] }]
    const groups = [{ groupId: this.#group, memberId: null, memberEpoch: -1, topics: asked }]
    const offsetOf = (answer: Responses['OffsetFetch']) => answer.groups[0]?.topics[0]?.partitions[0]
    const fetch = () => this.#control.request('OffsetFetch', 9, { groups, requireStable: true })
    const found = offsetOf(await lasting(fetch, (answer) => offsetOf(answer)?.errorCode === 88))
    const codes = `${stored.topics[0]?.partitions[0]?.errorCode}, ${committed ? 'commit' : 'abort'} ${ended.errorCode}`
    return `in a transaction ${committedOffset} by "${this.#words.nameOf(memberId)}" ${instanceId ?? ''} in ${this.#words.epochOf(epoch)}: ${codes}, then ${found?.committedOffset}`
  }

  async #deleteOffsets(): Promise<string> {
    const topics = [{ name: this.#pick(...this.#topics), partitions: [{ partitionIndex: this.#random.below(3) }] }]
    const answer = await this.#control.request('OffsetDelete', 0, { groupId: this.#group, topics })
    const codes = answer.topics.flatMap(({ partitions }) => partitions.map(({ errorCode }) => errorCode))
    return `delete offset ${topics[0]?.partitions[0]?.partitionIndex}: ${answer.errorCode}, ${codes.join()}`
  }

  async #deleteGroup(): Promise<string> {
    const { results } = await this.#control.request('DeleteGroups', 2, { groupsNames: [this.#group] })
    if (results[0]?.errorCode === 0) this.#words.firstEpoch = null
    return `delete the group: ${results.map(({ errorCode }) => errorCode).join()}`
  }

  async #listed(): Promise<string> {
    const { groups } = await this.#control.request('ListGroups', 5, { statesFilter: [], typesFilter: [] })
    const mine = groups.filter(({ groupId }) => groupId === this.#group)
    return `listed: ${mine.map((each) => `${each.groupType} ${each.groupState} "${each.protocolType}"`).join()}`
  }

  // ---- what can be seen -----------------------------------------------------------------------------------------------------

  async shown(): Promise<string> {
    const [classic, consumer] = [
      await this.#control.request('DescribeGroups', 6, { groups: [this.#group] }),
      await this.#control.request('ConsumerGroupDescribe', 1, { groupIds: [this.#group] }),
    ]
    return `${this.#words.classicText(classic.groups[0])} | ${this.#words.consumerText(consumer.groups[0])}`
  }
}

/** In a mixed group one speaks the classic protocol, one that of KIP-848, and one now this and now that. */
function maySpeak(slot: Slot, speaks: Slot['speaks']): boolean {
  const only = { a: 'classic', b: 'consumer' }[slot.name]
  if (only !== undefined) return only === speaks
  // A static member comes back with the other protocol without a word.
  return slot.speaks === null || slot.speaks === speaks || slot.instanceId !== null
}

function takeUp(slot: Slot, speaks: 'classic' | 'consumer'): void {
  if (slot.speaks !== speaks) forget(slot)
  slot.speaks = speaks
}

function forget(slot: Slot): void {
  Object.assign(slot, { memberId: '', isLeader: false, isPending: false, speaks: null, assigned: [], members: [] })
}
