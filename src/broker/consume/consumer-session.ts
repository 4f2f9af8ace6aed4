import type { Clock } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import { Serial } from '../../core/serial.ts'
import type { IsolationLevel } from '../../core/types.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { Log } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type { Nacks } from '../dlq/nacks.ts'
import type {
  CommitOffsets,
  ConsumerOptions,
  ConsumerRound,
  DeliveredRecord,
  GrantedPartitions,
  GroupMembership,
  GroupPort,
  HeldNack,
  MemberRound,
  NackPlaces,
  RecordConsumer,
} from '../ports.ts'
import type { Partitions, ServedPartition } from '../topics/partitions.ts'
import { type DecodeDeps, type Decoded, decodeRecords } from './decode.ts'
import { LogWatch } from './log-watch.ts'
import { dueOf, sourceOf, tiersOf } from './tiers.ts'

/** Bytes read from a log at once: enough for many records, little enough to be thrown away when a poll wants few. */
const LEAST_READ_BYTES = 16 * 1024
const MOST_READ_BYTES = 1024 * 1024

const NO_MEMBER = { generation: -1, memberId: '' }

interface Position {
  readonly topicId: Uuid
  /** The grant to the member under which it was found; null outside of membership. */
  readonly grant: number | null
  offset: number
  /** A record too large for the client was reported in the log already. */
  reportedOffset: number
  /** Where it began: nothing before it was given to this client. */
  first: number
  /** Records below it were given to the client. */
  givenEnd: number
  /** Counts what moved the position away from the reading: a round that began before it stores nothing of this partition. */
  moves: number
  /** NACKs under way: it is not read meanwhile. */
  holds: number
}

/** What a round took from one partition. */
interface Taken {
  readonly served: ServedPartition
  readonly position: Position
  /** Where the round found the position. What moves it meanwhile wins over the round. */
  readonly from: number
  readonly moves: number
  readonly nextOffset: number
}

export interface ConsumerDeps extends DecodeDeps {
  readonly partitions: Partitions
  readonly groups: GroupPort
  readonly clock: Clock
  readonly log: Logger
  /** Made after what it moves records with. */
  readonly nacks: () => Nacks
}

/** A round under way: everything that it read, so that it can be given back. */
interface RoundState {
  records: DeliveredRecord[]
  readonly releases: (() => void)[]
  readonly taken: Taken[]
  readonly maxRecords: number
  readonly maxBytes: number
  bytes: number
  refusal: MoonMQError | null
}

/**
 * The consumer of a native connection (docs/PROTOCOL.md). Owns the positions; the group owns what is committed, from which a partition starts
 * when it is first read. Polls run one after another.
 */
export class ConsumerSession implements RecordConsumer {
  readonly group: string
  readonly isolation: IsolationLevel
  readonly #deps: ConsumerDeps
  readonly #context: RequestContext
  readonly #maxPartBytes: number
  readonly #withEnvelopes: boolean
  readonly #topics = new Set<string>()
  readonly #positions = new Map<string, Position[]>()
  readonly #polls = new Serial()
  /** What is stored for the group, one after another. */
  readonly #commits = new Serial()
  readonly #watch: LogWatch
  /** Which partition the next round begins with, so that a small budget reaches all of them in turn. */
  #turn = 0
  readonly #membership: () => GroupMembership | null
  /** Records that wait for their next try are among what is read. */
  #hasTiers = false

  constructor(deps: ConsumerDeps, context: RequestContext, options: ConsumerOptions) {
    this.#deps = deps
    this.#context = context
    this.group = options.group
    this.isolation = options.isolation
    this.#membership = options.membership ?? (() => null)
    this.#maxPartBytes = options.maxPartBytes ?? Number.POSITIVE_INFINITY
    this.#withEnvelopes = options.withEnvelopes ?? false
    this.#watch = new LogWatch(deps)
  }

  get topics(): readonly string[] {
    return [...this.#topics]
  }

  addTopic(topic: string): void {
    const served = this.#deps.partitions.topic(topic)
    if (served === undefined) throw new MoonMQError('TOPIC_MISSING', { topic })
    if (served.internal && this.#context.protocol !== 'internal') throw new MoonMQError('TOPIC_FORBIDDEN', { topic })
    this.#topics.add(topic)
  }

  position(topic: string, partition: number): number | undefined {
    return this.#positions.get(topic)?.[partition]?.offset
  }

  removeTopic(topic: string): void {
    this.#topics.delete(topic)
    for (const name of [topic, ...tiersOf(this.#deps.partitions, topic).map((tier) => tier.topic.name)]) {
      for (const position of this.#positions.get(name) ?? []) if (position !== undefined) position.moves++
      this.#positions.delete(name)
    }
    this.#watch.wake()
  }

  begin(topic: string, partition: number, offset: number): void {
    const former = this.#positions.get(topic)?.[partition]
    if (former !== undefined) former.moves++
    this.#setPosition(this.#deps.partitions.partition(topic, partition), offset, null)
  }

  async prepare(): Promise<void> {
    await this.#polls.run(async () => {
      const granted = this.#membership()?.beginRound() ?? null
      try {
        await this.#findPositions(this.#readable(granted), granted)
      } finally {
        granted?.end()
      }
    })
  }

  watch(wake: () => void): () => void {
    return this.#watch.start(wake)
  }

  async nack(topic: string, partition: number, offset: number, reason: string, places?: NackPlaces): Promise<HeldNack> {
    const member = this.#claim()
    const position = this.#positions.get(topic)?.[partition]
    if (position === undefined || offset < position.first || offset >= position.givenEnd) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `offset ${offset} of ${topic}-${partition} was not given to this connection` })
    }
    position.holds++
    position.moves++
    try {
      const request = { group: this.group, topic, partition, offset, reason, isolation: this.isolation, member }
      const { again, done } = places ?? { again: offset, done: offset + 1 }
      const nacked = await this.#commits.run(() => this.#deps.nacks().nack(this.#context, { ...request, again, done }))
      let isHeld = true
      const settle = () => {
        if (!isHeld) return
        isHeld = false
        if (places === undefined) {
          position.offset = nacked.kind === 'again' ? Math.min(position.offset, again) : Math.max(position.offset, done)
        }
        this.#letGo(position)
      }
      return { ...nacked, settle }
    } catch (error) {
      this.#letGo(position)
      throw error
    }
  }

  async store(positions: readonly { readonly topic: string; readonly partition: number; readonly offset: number }[]): Promise<void> {
    const offsets = positions.map(({ topic, partition, offset }) => {
      const leaderEpoch = this.#deps.partitions.topic(topic)?.partitions[partition]?.log?.leaderEpoch ?? -1
      return { topic, partition, value: { offset, leaderEpoch, metadata: '' } }
    })
    const request = { group: this.group, ...this.#claim(), instanceId: null, offsets, durable: true }
    const outcomes = await this.#commits.run(() => this.#deps.groups.commit(this.#context, request))
    for (const error of outcomes) if (error !== null) throw error
  }

  /** What a commit is fenced by. Throws GROUP_MEMBER_UNKNOWN. */
  #claim(): Pick<CommitOffsets, 'generation' | 'memberId'> {
    const membership = this.#membership()
    if (membership?.group !== this.group) return NO_MEMBER
    const { memberId, joinEpoch: generation, hasLapsed } = membership
    if (hasLapsed) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.group, member: memberId })
    return { memberId, generation }
  }

  #letGo(position: Position): void {
    position.holds--
    this.#watch.wake()
  }

  poll(maxRecords: number, maxBytes: number): Promise<ConsumerRound> {
    return this.#polls.run(() => this.#poll(maxRecords, maxBytes))
  }

  async #poll(maxRecords: number, maxBytes: number): Promise<ConsumerRound> {
    const granted = this.#membership()?.beginRound() ?? null
    try {
      return await this.#pollGranted(granted, maxRecords, maxBytes)
    } catch (error) {
      granted?.end()
      throw error
    }
  }

  async #pollGranted(granted: MemberRound | null, maxRecords: number, maxBytes: number): Promise<ConsumerRound> {
    const readable = this.#readable(granted)
    await this.#findPositions(readable, granted)
    const state: RoundState = { records: [], releases: [], taken: [], maxRecords, maxBytes, bytes: 0, refusal: null }
    try {
      await this.#readRound(readable, state)
    } catch (error) {
      for (const release of state.releases) release()
      throw error
    }
    if (state.records.length === 0 && state.refusal !== null) throw state.refusal
    const overtaken = state.taken.filter(({ position, moves }) => position.moves !== moves)
    if (overtaken.length > 0) state.records = state.records.filter((record) => !overtaken.some(({ served }) => isOf(record, served)))
    for (const { position, moves, nextOffset } of state.taken) {
      if (position.moves !== moves) continue
      position.offset = nextOffset
      position.givenEnd = Math.max(position.givenEnd, nextOffset)
    }
    let released = false
    return {
      records: state.records,
      isMoved: state.taken.length > overtaken.length,
      commit: () => this.#commits.run(() => this.#commit(state.taken)),
      giveBack: () => {
        for (const { position, moves, from } of state.taken) if (position.moves === moves) position.offset = from
      },
      release: () => {
        if (released) return
        released = true
        for (const release of state.releases) release()
        granted?.end()
      },
    }
  }

  /**
   * Partitions of the set that have a log, in a stable order; of a member, those that are granted to it. A topic that is gone is skipped and
   * forgotten, and so is a position that was found under another grant: somebody else has read on from there.
   */
  #readable(granted: MemberRound | null): ServedPartition[] {
    const readable: ServedPartition[] = []
    this.#hasTiers = false
    for (const name of this.#topics) {
      const topic = this.#deps.partitions.topic(name)
      if (topic === undefined) {
        this.#positions.delete(name)
        continue
      }
      const grants = granted?.partitionsOf(name)
      const positions = this.#positions.get(name)
      for (const served of topic.partitions) {
        const { partition } = served
        const position = positions?.[partition]
        if (grants !== undefined && position !== undefined && position.grant !== (grants.get(partition) ?? null))
          delete positions?.[partition]
        if (served.log !== undefined && grants?.has(partition) !== false) readable.push(served)
      }
      this.#addTiers(name, grants, readable)
    }
    this.#watch.follow(readable)
    return readable
  }

  /** A member reads the tiers of the partitions that it was granted. */
  #addTiers(name: string, grants: GrantedPartitions | undefined, readable: ServedPartition[]): void {
    for (const { topic } of tiersOf(this.#deps.partitions, name)) {
      this.#hasTiers = true
      const positions = this.#positions.get(topic.name)
      for (const served of topic.partitions) {
        const position = positions?.[served.partition]
        if (grants !== undefined && position !== undefined && position.grant !== (grants.get(served.partition) ?? null))
          delete positions?.[served.partition]
        if (served.log !== undefined && grants?.has(served.partition) !== false) readable.push(served)
      }
    }
  }

  #positionOf(served: ServedPartition): Position | undefined {
    const position = this.#positions.get(served.topic.name)?.[served.partition]
    // A topic that was made again starts from nothing.
    return position?.topicId === served.topic.id ? position : undefined
  }

  /** Asks the group where to begin with partitions that are new here: a topic was added, made again or has grown. */
  async #findPositions(readable: readonly ServedPartition[], granted: MemberRound | null): Promise<void> {
    const unknown = new Map<string, ServedPartition[]>()
    for (const served of readable) {
      if (this.#positionOf(served) !== undefined) continue
      const list = unknown.get(served.topic.name)
      if (list === undefined) unknown.set(served.topic.name, [served])
      else list.push(served)
    }
    if (unknown.size === 0) return
    const topics = [...unknown].map(([topic, list]) => ({ topic, partitions: list.map((each) => each.partition) }))
    const committed = await this.#deps.groups.committed(this.#context, { group: this.group, topics })
    const offsets = new Map(committed.map((each) => [`${each.topic}-${each.partition}`, Math.max(0, each.value?.offset ?? 0)]))
    for (const list of unknown.values()) {
      for (const served of list) {
        this.#setPosition(served, offsets.get(`${served.topic.name}-${served.partition}`) ?? 0, granted)
      }
    }
  }

  #setPosition(served: ServedPartition, offset: number, granted: MemberRound | null): void {
    const { name, id } = served.topic
    const grant = granted?.partitionsOf(this.#hasTiers ? sourceOf(name) : name).get(served.partition) ?? null
    let positions = this.#positions.get(name)
    if (positions === undefined) {
      positions = []
      this.#positions.set(name, positions)
    }
    positions[served.partition] = { topicId: id, grant, offset, reportedOffset: -1, first: offset, givenEnd: offset, moves: 0, holds: 0 }
  }

  async #readRound(readable: readonly ServedPartition[], state: RoundState): Promise<void> {
    const count = readable.length
    if (count === 0 || state.maxRecords <= 0) return
    const share = Math.max(1, Math.ceil(state.maxRecords / count))
    const start = this.#turn++ % count
    for (let step = 0; step < count; step++) {
      const left = state.maxRecords - state.records.length
      if (left <= 0 || state.bytes >= state.maxBytes) return
      await this.#readPartition(readable[(start + step) % count] as ServedPartition, Math.min(share, left), state)
    }
  }

  async #readPartition(served: ServedPartition, maxRecords: number, state: RoundState): Promise<void> {
    const { log } = served
    const position = this.#positionOf(served)
    if (log === undefined || position === undefined || position.holds > 0) return
    const { offset: from, moves } = position
    const due = this.#hasTiers ? dueOf(this.#deps.partitions, served, this.group, this.#deps.clock.nowMs()) : null
    let offset = Math.max(from, log.logStartOffset)
    const limitOffset = this.isolation === 'read_committed' ? log.lastStableOffset : log.highWatermark
    let wanted = maxRecords
    while (offset < limitOffset && wanted > 0 && state.bytes < state.maxBytes) {
      const decoded = await this.#readSome(served, log, { offset, limitOffset, maxRecords: wanted }, state)
      const records = due === null ? decoded.records : due.take(decoded)
      state.records.push(...records)
      state.bytes += decoded.bytes
      served.topic.counters.fetchedRecords.add(records.length)
      wanted -= records.length
      const moved = decoded.nextOffset > offset
      offset = decoded.nextOffset
      if (due !== null && due.nextMs !== null) {
        this.#watch.at(due.nextMs)
        break
      }
      if (decoded.tooLarge !== null) this.#refuse(decoded.tooLarge, position, offset, state)
      if (decoded.full || decoded.tooLarge !== null || !moved) break
    }
    if (offset !== from) state.taken.push({ served, position, from, moves, nextOffset: offset })
  }

  async #readSome(
    served: ServedPartition,
    log: Log,
    from: { offset: number; limitOffset: number; maxRecords: number },
    state: RoundState,
  ): Promise<Decoded> {
    const room = state.maxBytes - state.bytes
    const reading = log.read({
      offset: from.offset,
      maxBytes: Math.min(MOST_READ_BYTES, Math.max(LEAST_READ_BYTES, Math.min(room, from.maxRecords * 1024))),
      minOneBatch: true,
      limitOffset: from.limitOffset,
    })
    const read = reading instanceof Promise ? await reading : reading
    state.releases.push(() => read.release())
    return decodeRecords(this.#deps, {
      topic: served.topic.name,
      partition: served.partition,
      buffers: read.buffers,
      fromOffset: from.offset,
      isolation: this.isolation,
      aborted: this.isolation === 'read_committed' && read.sizeBytes > 0 ? log.abortedTransactions(read.baseOffset, read.nextOffset) : [],
      maxRecords: from.maxRecords,
      maxBytes: room,
      maxPartBytes: this.#maxPartBytes,
      withEnvelopes: this.#withEnvelopes,
    })
  }

  /** The client is told when there is nothing else to give it; the log is told once, so that a stuck partition shows. */
  #refuse(error: MoonMQError, position: Position, offset: number, state: RoundState): void {
    state.refusal ??= error
    if (position.reportedOffset === offset) return
    position.reportedOffset = offset
    this.#deps.log.warn('consumer.record_too_large', `a native consumer of group "${this.group}" cannot go on: ${error.message}`, {
      group: this.group,
    })
  }

  async #commit(taken: readonly Taken[]): Promise<void> {
    const offsets: CommitOffsets['offsets'] = taken
      .filter(({ position, moves }) => position.moves === moves)
      .map(({ served, nextOffset }) => ({
        topic: served.topic.name,
        partition: served.partition,
        value: { offset: nextOffset, leaderEpoch: served.log?.leaderEpoch ?? -1, metadata: '' },
      }))
    if (offsets.length === 0) return
    const request = { group: this.group, ...NO_MEMBER, instanceId: null, offsets, durable: false }
    try {
      const outcomes = await this.#deps.groups.commit(this.#context, request)
      for (const [index, error] of outcomes.entries()) if (error !== null) this.#commitFailed(error, offsets[index]?.topic ?? '')
    } catch (error) {
      this.#commitFailed(error, offsets[0]?.topic ?? '')
    }
  }

  #commitFailed(error: unknown, topic: string): void {
    const reason = error instanceof Error ? error.message : String(error)
    this.#deps.log.warn('consumer.commit_failed', `the position of group "${this.group}" in ${topic} was not stored: ${reason}`, {
      group: this.group,
      topic,
    })
  }
}

function isOf(record: DeliveredRecord, { topic, partition }: ServedPartition): boolean {
  return record.partition === partition && record.topic === topic.name
}
