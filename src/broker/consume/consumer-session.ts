import type { Clock } from '../../core/clock.ts'
import { isCode, MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import { Serial } from '../../core/serial.ts'
import type { IsolationLevel } from '../../core/types.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { Log } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type { Nack, Nacked, Nacks } from '../dlq/nacks.ts'
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
  RecordLimits,
} from '../ports.ts'
import type { Partitions, ServedPartition } from '../topics/partitions.ts'
import { copiedOut, type DecodeDeps, type Decoded, decodeRecords } from './decode.ts'
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
  /** Where the latest rounds began, since it was last moved back. */
  starts: number[]
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
  readonly #limits: RecordLimits
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
  /** What the last delivery commit was refused with; empty when it was stored. */
  #commitFailure = ''
  /** Records that wait for their next try are among what is read. */
  #hasTiers = false

  constructor(deps: ConsumerDeps, context: RequestContext, options: ConsumerOptions) {
    this.#deps = deps
    this.#context = context
    this.group = options.group
    this.isolation = options.isolation
    this.#membership = options.membership ?? (() => null)
    this.#limits = options
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

  position(topic: string, partition: number): { readonly offset: number } | undefined {
    return this.#positions.get(topic)?.[partition]
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
    const membership = this.#membership()
    const granted = membership?.group === this.group ? membership.beginRound() : null
    this.#setPosition(this.#deps.partitions.partition(topic, partition), offset, granted)
    granted?.end()
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

  wakeAt(timeMs: number): void {
    this.#watch.at(timeMs)
  }

  async nack(topic: string, partition: number, offset: number, reason: string, places?: NackPlaces): Promise<HeldNack> {
    const member = this.#claim()
    const position = this.#givenPosition(topic, partition)
    if (position === undefined || offset < position.first || offset >= position.givenEnd) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `offset ${offset} of ${topic}-${partition} was not given to this connection` })
    }
    position.holds++
    position.moves++
    try {
      const request = { group: this.group, topic, partition, offset, reason, isolation: this.isolation, member }
      const nack =
        places === undefined ? () => this.#rewinding(position, request) : () => this.#nack({ ...request, ...places, isAnswered: true })
      const nacked = await this.#commits.run(nack)
      let isHeld = true
      const settle = () => {
        if (!isHeld) return
        isHeld = false
        this.#letGo(position)
      }
      return { ...nacked, settle }
    } catch (error) {
      this.#letGo(position)
      throw error
    }
  }

  /** What was given of an earlier topic of that name, or before the partition was somebody else's for a while, nobody may refuse any more. */
  #givenPosition(topic: string, partition: number): Position | undefined {
    const served = this.#deps.partitions.topic(topic)?.partitions[partition]
    const position = served === undefined ? undefined : this.#positionOf(served)
    const membership = this.#membership()
    if (position === undefined || position.grant === null || membership?.group !== this.group) return position
    const granted = membership.beginRound()
    try {
      // One that is not its any more is refused by the group, unless it is still being given.
      const grant = this.#grantsOf(granted, topic).get(partition) ?? position.grant
      return grant === position.grant ? position : undefined
    } finally {
      granted.end()
    }
  }

  /** A tier that nobody named is read with the grants of its topic. */
  #grantsOf(granted: MemberRound, topic: string): GrantedPartitions {
    return granted.partitionsOf(this.#topics.has(topic) ? topic : sourceOf(topic))
  }

  #nack(nack: Nack): Promise<Nacked> {
    return this.#deps.nacks().nack(this.#context, nack)
  }

  /**
   * For a client whose position says what it was given. What is to come again below the record, because it failed before, stays to come: only
   * from the record itself does the group go on behind it. The position is held, so nothing but this moves it.
   */
  async #rewinding(position: Position, request: Omit<Nack, 'again' | 'done' | 'isAnswered'>): Promise<Nacked> {
    const { offset } = request
    const low = position.offset
    const done = low < offset ? low : offset + 1
    try {
      // What was given and not refused may still be refused: its failures are counted on.
      const nacked = await this.#nack({ ...request, again: Math.min(offset, low), done, isAnswered: false })
      if (nacked.kind === 'again') rewind(position, offset)
      else if (low === offset) position.offset = done
      return nacked
    } catch (error) {
      // A record that is there was refused all the same: whoever reads on is given it again.
      if (!isCode(error, 'RECORD_MISSING') && !isCode(error, 'OFFSET_OUT_OF_RANGE')) rewind(position, offset)
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

  poll(...args: Parameters<RecordConsumer['poll']>): Promise<ConsumerRound> {
    return this.#polls.run(() => this.#poll(...args))
  }

  async #poll(...args: Parameters<RecordConsumer['poll']>): Promise<ConsumerRound> {
    const granted = this.#membership()?.beginRound() ?? null
    try {
      return await this.#pollGranted(granted, ...args)
    } catch (error) {
      granted?.end()
      throw error
    }
  }

  async #pollGranted(
    granted: MemberRound | null,
    ...[maxRecords, maxBytes, onGiven]: Parameters<RecordConsumer['poll']>
  ): Promise<ConsumerRound> {
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
    onGiven?.(state.records)
    let released = false
    return {
      records: state.records,
      isMoved: state.taken.length > overtaken.length,
      commit: (roundsBehind = 1) => this.#commits.run(() => this.#commit(state.taken, roundsBehind)),
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
      if (this.#topics.has(topic.name)) continue
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
    const grant = granted === null ? null : (this.#grantsOf(granted, name).get(served.partition) ?? null)
    let positions = this.#positions.get(name)
    if (positions === undefined) {
      positions = []
      this.#positions.set(name, positions)
    }
    const given = { first: offset, givenEnd: offset, moves: 0, holds: 0, starts: [] }
    positions[served.partition] = { topicId: id, grant, offset, reportedOffset: -1, ...given }
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
    const release = () => read.release()
    state.releases.push(release)
    const decoded = await decodeRecords(this.#deps, {
      topic: served.topic.name,
      partition: served.partition,
      buffers: read.buffers,
      fromOffset: from.offset,
      isolation: this.isolation,
      aborted: this.isolation === 'read_committed' && read.sizeBytes > 0 ? log.abortedTransactions(read.baseOffset, read.nextOffset) : [],
      maxRecords: from.maxRecords,
      maxBytes: room,
      limits: this.#limits,
      mustGive: state.records.length === 0,
      withEnvelopes: this.#withEnvelopes,
    })
    if (decoded.records.length === 0 || copiedOut(decoded, read.sizeBytes)) {
      state.releases.pop()
      release()
    }
    return decoded
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

  async #commit(taken: readonly Taken[], roundsBehind: number): Promise<void> {
    const offsets: CommitOffsets['offsets'] = taken
      .filter(({ position, moves }) => position.moves === moves)
      .map(({ served, position, from, nextOffset }) => ({
        topic: served.topic.name,
        partition: served.partition,
        value: { offset: nextOffset, leaderEpoch: served.log?.leaderEpoch ?? -1, metadata: '' },
        answeredBelow: answeredBelow(position, from, roundsBehind),
      }))
    if (offsets.length === 0) return
    const request = { group: this.group, ...NO_MEMBER, instanceId: null, offsets, durable: false }
    try {
      const outcomes = await this.#deps.groups.commit(this.#context, request)
      const failed = outcomes.findIndex((error) => error !== null)
      if (failed < 0) this.#commitFailure = ''
      else this.#commitFailed(outcomes[failed], offsets[failed]?.topic ?? '')
    } catch (error) {
      this.#commitFailed(error, offsets[0]?.topic ?? '')
    }
  }

  /** Told once, until it goes well again or for another reason: what refuses one commit refuses all that follow. */
  #commitFailed(error: unknown, topic: string): void {
    const reason = error instanceof Error ? error.message : String(error)
    if (reason === this.#commitFailure) return
    this.#commitFailure = reason
    this.#deps.log.warn('consumer.commit_failed', `the position of group "${this.group}" in ${topic} was not stored: ${reason}`, {
      group: this.group,
      topic,
    })
  }
}

/** The position goes back to the record where it is behind it. */
function rewind(position: Position, offset: number): void {
  position.offset = Math.min(position.offset, offset)
  position.starts = []
}

/** Remembers that a round began at `from`. Below what is given back nothing is with the client any more. */
function answeredBelow({ starts }: Position, from: number, roundsBehind: number): number {
  starts.push(from)
  return starts.length > roundsBehind ? (starts.shift() as number) : 0
}

function isOf(record: DeliveredRecord, { topic, partition }: ServedPartition): boolean {
  return record.partition === partition && record.topic === topic.name
}
