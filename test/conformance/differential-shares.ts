import { SeededRandom } from '../../src/core/random.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { type Actor, lasting } from './lockstep.ts'

const SLOTS = ['a', 'b'] as const
const GROUP_RESOURCE = 32
const PARTITIONS = 2
const FETCHES = 6
/** Kafka reads the state of a share partition after it was asked for records of it, and gives one partition's at a time. */
const LEAST_FETCHES = 3
const FETCH_WAIT_MS = 200
const [ACCEPT, RELEASE, REJECT] = [1, 2, 3]

interface Slot {
  readonly name: string
  readonly socket: RawKafka
  memberId: string
  joins: number
  epoch: number
  session: number
  assigned: readonly { readonly topicId: string; readonly partitions: readonly number[] }[]
  /** Offsets that it was given, by partition. */
  readonly held: Map<number, number[]>
}

/** A share group on one broker: its members come, are given records, and accept, release, reject and give back, by the seed. */
export class ShareActor implements Actor {
  readonly #control: RawKafka
  readonly #slots: readonly Slot[]
  readonly #random: SeededRandom
  readonly #prefix: string
  readonly #group: string
  readonly #topic: string
  readonly #steps: readonly (() => Promise<string>)[]
  #topicId = ''
  #serial = 0

  private constructor(control: RawKafka, sockets: readonly RawKafka[], seed: number, prefix: string) {
    this.#control = control
    this.#random = new SeededRandom(seed)
    this.#prefix = prefix
    this.#group = `${prefix}-group`
    this.#topic = `${prefix}-t`
    this.#slots = SLOTS.map((name, index) => ({
      name,
      socket: sockets[index] as RawKafka,
      memberId: '',
      joins: 0,
      epoch: 0,
      session: 0,
      assigned: [],
      held: new Map(),
    }))
    const times = (count: number, act: (slot: Slot) => Promise<string>) => Array.from({ length: count }, () => () => act(this.#slot()))
    this.#steps = [
      ...times(3, () => this.#produce()),
      ...times(3, (slot) => this.#enter(slot)),
      ...times(3, (slot) => this.#beat(slot)),
      ...times(6, (slot) => this.#fetch(slot)),
      ...times(6, (slot) => this.#acknowledge(slot)),
      ...times(2, (slot) => this.#acknowledgeWrongly(slot)),
      ...times(1, (slot) => this.#endSession(slot)),
      ...times(1, (slot) => this.#leave(slot)),
      ...times(2, () => this.#offsets()),
      ...times(1, () => this.#alterOffsets()),
    ]
  }

  /** Everything it makes is called after `prefix`. */
  static async open(address: string, seed: number, prefix = `share${seed}`): Promise<ShareActor> {
    const sockets = await Promise.all(SLOTS.map((name) => RawKafka.greeted(address, name)))
    const actor = new ShareActor(await RawKafka.connect(address, 'control'), sockets, seed, prefix)
    await actor.#ready()
    return actor
  }

  [Symbol.dispose](): void {
    this.#control[Symbol.dispose]()
    for (const { socket } of this.#slots) socket[Symbol.dispose]()
  }

  async #ready(): Promise<void> {
    const topics = [{ name: this.#topic, numPartitions: PARTITIONS, replicationFactor: 1, assignments: [], configs: [] }]
    await this.#control.request('CreateTopics', 5, { topics, timeoutMs: 20_000 })
    const asked = { topics: [{ name: this.#topic, topicId: undefined }], allowAutoTopicCreation: false }
    const found = await lasting(
      () => this.#control.request('Metadata', 12, asked),
      (answer) => answer.topics.some(({ errorCode, partitions }) => errorCode !== 0 || partitions.some((each) => each.errorCode !== 0)),
    )
    this.#topicId = found.topics[0]?.topicId ?? ''
    await this.#set('share.auto.offset.reset', 'earliest')
    await lasting(
      () => this.#control.request('FindCoordinator', 4, { keyType: 0, coordinatorKeys: [this.#group] }),
      ({ coordinators }) => coordinators.some(({ errorCode }) => errorCode !== 0),
    )
    // A member that is given every partition: group, topic and the topic of share states are known then.
    const probe = this.#slots[0] as Slot
    probe.memberId = `${this.#prefix}-probe`
    const subscribe = async (memberEpoch: number, subscribedTopicNames: readonly string[] | null) => {
      const answer = await this.#heartbeat(probe, memberEpoch, subscribedTopicNames)
      if (answer.errorCode === 0) probe.epoch = answer.memberEpoch
      return answer.assignment?.topicPartitions[0]?.partitions.length ?? 0
    }
    let isJoined = false
    await lasting(
      async () => {
        const length = await subscribe(isJoined ? probe.epoch : 0, isJoined ? null : [this.#topic])
        isJoined = probe.epoch > 0
        return length
      },
      (length) => length < PARTITIONS,
    )
    await subscribe(-1, null)
    Object.assign(probe, { memberId: '', epoch: 0 })
  }

  async #set(name: string, value: string): Promise<void> {
    const resources = [{ resourceType: GROUP_RESOURCE, resourceName: this.#group, configs: [{ name, configOperation: 0, value }] }]
    await this.#control.request('IncrementalAlterConfigs', 1, { resources, validateOnly: false })
  }

  /** One is given records and says nothing of them until its locks are over: what the next is given, and what comes of saying it then. */
  async lockIsOver(lockMs: number): Promise<string[]> {
    const [first, second] = this.#slots as [Slot, Slot]
    await this.#set('share.record.lock.duration.ms', `${lockMs}`)
    for (const slot of [first, second]) await this.#enter(slot)
    await this.#control.produce(this.#topic, 0, [{ value: 'one' }, { value: 'two' }])
    const given = await lasting(
      () => this.#fetch(first),
      (said) => !said.includes('@'),
    )
    const again = await lasting(
      () => this.#fetch(second),
      (said) => !said.includes('@'),
    )
    const batch = { firstOffset: 0, lastOffset: 1, acknowledgeTypes: [ACCEPT] }
    const late = await this.#tell(first, first.session, 0, batch)
    return [given, again, `late: ${late}`, `in time: ${await this.#tell(second, second.session, 0, batch)}`]
  }

  step(): Promise<string> {
    return (this.#steps[this.#random.below(this.#steps.length)] as () => Promise<string>)()
  }

  waiting(): string {
    return ''
  }

  answered(): string[] {
    return []
  }

  #slot(): Slot {
    return this.#slots[this.#random.below(SLOTS.length)] as Slot
  }

  #pick<T>(...values: readonly T[]): T {
    return values[this.#random.below(values.length)] as T
  }

  #nameOf(memberId: string): string {
    return memberId.startsWith(this.#prefix) ? memberId.slice(this.#prefix.length + 1) : memberId
  }

  async #produce(): Promise<string> {
    const partition = this.#random.below(PARTITIONS)
    const records = Array.from({ length: 1 + this.#random.below(4) }, () => ({ value: `v${this.#serial++}` }))
    const { errorCode, baseOffset } = await this.#control.produce(this.#topic, partition, records)
    return `${records.length} records to ${partition}: ${errorCode} at ${baseOffset}`
  }

  // ---- members --------------------------------------------------------------------------------------------------------------

  #heartbeat({ memberId, socket }: Pick<Slot, 'memberId' | 'socket'>, memberEpoch: number, subscribedTopicNames: readonly string[] | null) {
    return socket.request('ShareGroupHeartbeat', 1, { groupId: this.#group, memberId, memberEpoch, rackId: null, subscribedTopicNames })
  }

  async #enter(slot: Slot): Promise<string> {
    if (slot.epoch > 0) return `${slot.name} is in`
    slot.memberId = `${this.#prefix}-${slot.name}${++slot.joins}`
    slot.session = 0
    slot.held.clear()
    return `enters: ${await this.#speak(slot, 0, [this.#topic])}`
  }

  async #beat(slot: Slot): Promise<string> {
    if (slot.epoch === 0) return `${slot.name} is not in`
    const what = this.#random.below(8)
    if (what === 0) return `unknown: ${(await this.#heartbeat({ ...slot, memberId: 'nobody' }, 3, null)).errorCode}`
    if (what === 1) return `ahead: ${(await this.#heartbeat(slot, slot.epoch + 9, null)).errorCode}`
    return await this.#speak(slot, slot.epoch, null)
  }

  async #speak(slot: Slot, memberEpoch: number, topics: readonly string[] | null): Promise<string> {
    const answer = await this.#heartbeat(slot, memberEpoch, topics)
    if (answer.errorCode === 0) slot.epoch = Math.max(0, answer.memberEpoch)
    if (answer.assignment !== null) slot.assigned = answer.assignment.topicPartitions
    return `${slot.name}: ${answer.errorCode}`
  }

  async #leave(slot: Slot): Promise<string> {
    if (slot.epoch === 0) return `${slot.name} is not in`
    if (slot.session > 0) await this.#endSession(slot)
    const said = await this.#speak(slot, -1, null)
    slot.epoch = 0
    return `leaves: ${said}`
  }

  // ---- records --------------------------------------------------------------------------------------------------------------

  async #fetch(slot: Slot): Promise<string> {
    if (slot.epoch === 0) return `${slot.name} is not in`
    // What is assigned changes with a heartbeat at one time or another: each asks for everything.
    const partitions = Array.from({ length: PARTITIONS }, (_, partitionIndex) => ({ partitionIndex, acknowledgementBatches: [] }))
    const given: string[] = []
    const codes = new Set<string>()
    for (let attempt = 1, before = 0; attempt <= FETCHES; attempt++, before = given.length) {
      const answer = await slot.socket.request('ShareFetch', 2, {
        groupId: this.#group,
        memberId: slot.memberId,
        shareSessionEpoch: slot.session,
        maxWaitMs: FETCH_WAIT_MS,
        minBytes: 1,
        maxBytes: 1_000_000,
        maxRecords: 500,
        batchSize: 500,
        shareAcquireMode: 0,
        isRenewAck: false,
        topics: slot.session === 0 ? [{ topicId: this.#topicId, partitions }] : [],
        forgottenTopicsData: [],
      })
      codes.add(`${answer.errorCode}`)
      if (answer.errorCode !== 0) break
      slot.session++
      for (const { partitionIndex, errorCode, acquiredRecords } of answer.responses.flatMap((topic) => topic.partitions)) {
        if (errorCode !== 0) codes.add(`${partitionIndex}:${errorCode}`)
        for (const { firstOffset, lastOffset, deliveryCount } of acquiredRecords) {
          for (let offset = firstOffset; offset <= lastOffset; offset++) {
            slot.held.set(partitionIndex, [...(slot.held.get(partitionIndex) ?? []), offset])
            given.push(`${partitionIndex}@${offset} for the ${deliveryCount}.`)
          }
        }
      }
      if (attempt >= LEAST_FETCHES && given.length === before) break
    }
    return `${slot.name} is given, ${[...codes].sort().join()}: ${given.sort().join(' ')}`
  }

  async #acknowledge(slot: Slot): Promise<string> {
    const partition = this.#random.below(PARTITIONS)
    const held = (slot.held.get(partition) ?? []).sort((left, right) => left - right)
    if (held.length === 0 || slot.session === 0) return `${slot.name} has nothing of ${partition}`
    const type = this.#pick(ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT)
    const firstOffset = held[0] ?? 0
    // Neighbours alone: in between somebody else may have something.
    let count = 1
    while (count < held.length && held[count] === firstOffset + count && this.#random.below(3) > 0) count++
    const lastOffset = firstOffset + count - 1
    slot.held.set(partition, held.slice(count))
    return `${slot.name} says ${type} of ${partition}@${firstOffset}-${lastOffset}: ${await this.#tell(slot, slot.session, partition, { firstOffset, lastOffset, acknowledgeTypes: [type] })}`
  }

  async #acknowledgeWrongly(slot: Slot): Promise<string> {
    if (slot.session === 0) return `${slot.name} has no session`
    const what = this.#random.below(3)
    if (what === 0) {
      const batch = { firstOffset: 0, lastOffset: 0, acknowledgeTypes: [ACCEPT] }
      return `${slot.name} in the session epoch 77: ${await this.#tell(slot, slot.session + 77, 0, batch)}`
    }
    // Nobody was given this one, or there are two words too many. A word that is none refuses the partition in Kafka, here the request.
    const firstOffset = 1_000_000
    const acknowledgeTypes = what === 1 ? [ACCEPT, ACCEPT, ACCEPT] : [ACCEPT]
    return `${slot.name} says ${acknowledgeTypes} of what it has not: ${await this.#tell(slot, slot.session, 0, { firstOffset, lastOffset: firstOffset, acknowledgeTypes })}`
  }

  async #tell(
    slot: Slot,
    shareSessionEpoch: number,
    partitionIndex: number,
    batch: { firstOffset: number; lastOffset: number; acknowledgeTypes: number[] },
  ): Promise<string> {
    const topics = [{ topicId: this.#topicId, partitions: [{ partitionIndex, acknowledgementBatches: [batch] }] }]
    const body = { groupId: this.#group, memberId: slot.memberId, shareSessionEpoch, isRenewAck: false, topics }
    const answer = await slot.socket.request('ShareAcknowledge', 2, body)
    if (answer.errorCode === 0) slot.session++
    const codes = answer.responses.flatMap(({ partitions }) => partitions.map(({ errorCode }) => errorCode))
    return `${answer.errorCode}, ${codes.join()}`
  }

  /** What it holds goes back. */
  async #endSession(slot: Slot): Promise<string> {
    if (slot.session === 0) return `${slot.name} has no session`
    const body = { groupId: this.#group, memberId: slot.memberId, shareSessionEpoch: -1, isRenewAck: false, topics: [] }
    const { errorCode } = await slot.socket.request('ShareAcknowledge', 2, body)
    slot.session = 0
    slot.held.clear()
    return `${slot.name} ends its session: ${errorCode}`
  }

  // ---- administration -------------------------------------------------------------------------------------------------------

  /** Not where they are: Kafka tells what it has stored, which moves on with the acknowledgement after. */
  async #offsets(): Promise<string> {
    const partitions = [0, 1]
    const groups = [{ groupId: this.#group, topics: [{ topicName: this.#topic, partitions }] }]
    const { groups: told } = await this.#control.request('DescribeShareGroupOffsets', 1, { groups })
    const offsets = (told[0]?.topics ?? []).flatMap((topic) => topic.partitions.map((each) => `${each.partitionIndex}: ${each.errorCode}`))
    return `offsets: ${told[0]?.errorCode}, ${offsets.sort().join('; ')}`
  }

  async #alterOffsets(): Promise<string> {
    const topics = [{ topicName: this.#topic, partitions: [{ partitionIndex: 0, startOffset: this.#random.below(3) }] }]
    const answer = await this.#control.request('AlterShareGroupOffsets', 0, { groupId: this.#group, topics })
    const codes = answer.responses.flatMap(({ partitions }) => partitions.map(({ errorCode }) => errorCode))
    return `offset of 0 to ${topics[0]?.partitions[0]?.startOffset}: ${answer.errorCode}, ${codes.join()}`
  }

  async shown(): Promise<string> {
    const { groups } = await this.#control.request('ShareGroupDescribe', 1, { groupIds: [this.#group] })
    const [group] = groups
    if (group === undefined || group.errorCode !== 0) return `share ${group?.errorCode}`
    const members = group.members.map(({ memberId, assignment }) => {
      // How many: which of them is the assignor's own choice.
      const partitions = assignment.topicPartitions.flatMap((each) => each.partitions)
      return `${this.#nameOf(memberId)} ${partitions.length}`
    })
    return `share ${group.groupState} ${group.assignorName} {${members.sort().join('; ')}}`
  }
}
