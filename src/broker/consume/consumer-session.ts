import { MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import { Serial } from '../../core/serial.ts'
import type { IsolationLevel } from '../../core/types.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { Log } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type {
  CommitOffsets,
  ConsumerOptions,
  ConsumerRound,
  DeliveredRecord,
  GroupMembership,
  GroupPort,
  MemberRound,
  RecordConsumer,
} from '../ports.ts'
import type { Partitions, ServedPartition } from '../topics/partitions.ts'
import { type DecodeDeps, type Decoded, decodeRecords } from './decode.ts'

/** Bytes read from a log at once: enough for many records, little enough to be thrown away when a poll wants few. */
const LEAST_READ_BYTES = 16 * 1024
const MOST_READ_BYTES = 1024 * 1024

interface Position {
  readonly topicId: Uuid
  /** The grant to the member under which it was found; null outside of membership. */
  readonly grant: number | null
  offset: number
  /** A record too large for the client was reported in the log already. */
  reportedOffset: number
}

/** What a round took from one partition. */
interface Taken {
  readonly served: ServedPartition
  readonly position: Position
  /** Where the round found the position. A seek meanwhile wins over the round. */
  readonly from: number
  readonly nextOffset: number
}

export interface ConsumerDeps extends DecodeDeps {
  readonly partitions: Partitions
  readonly groups: GroupPort
  readonly log: Logger
}

/** A round under way: everything that it read, so that it can be given back. */
interface RoundState {
  readonly records: DeliveredRecord[]
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
  readonly #topics = new Set<string>()
  readonly #positions = new Map<string, Position[]>()
  readonly #polls = new Serial()
  /** Which partition the next round begins with, so that a small budget reaches all of them in turn. */
  #turn = 0
  readonly #membership: () => GroupMembership | null

  constructor(deps: ConsumerDeps, context: RequestContext, options: ConsumerOptions) {
    this.#deps = deps
    this.#context = context
    this.group = options.group
    this.isolation = options.isolation
    this.#membership = options.membership ?? (() => null)
    this.#maxPartBytes = options.maxPartBytes ?? Number.POSITIVE_INFINITY
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

  seek(topic: string, partition: number, offset: number): void {
    const position = this.#positions.get(topic)?.[partition]
    if (position !== undefined) position.offset = offset
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
    for (const { position, from, nextOffset } of state.taken) if (position.offset === from) position.offset = nextOffset
    let released = false
    return {
      records: state.records,
      commit: () => this.#commit(state.taken),
      giveBack: () => {
        for (const { position, from, nextOffset } of state.taken) if (position.offset === nextOffset) position.offset = from
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
    }
    return readable
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
    const offsets = new Map(committed.map((each) => [`${each.topic}-${each.partition}`, each.value?.offset ?? 0]))
    for (const list of unknown.values()) {
      for (const served of list) {
        const { name, id } = served.topic
        const grant = granted?.partitionsOf(name).get(served.partition) ?? null
        let positions = this.#positions.get(name)
        if (positions === undefined) {
          positions = []
          this.#positions.set(name, positions)
        }
        positions[served.partition] = { topicId: id, grant, offset: offsets.get(`${name}-${served.partition}`) ?? 0, reportedOffset: -1 }
      }
    }
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
    if (log === undefined || position === undefined) return
    const from = position.offset
    let offset = Math.max(from, log.logStartOffset)
    const limitOffset = this.isolation === 'read_committed' ? log.lastStableOffset : log.highWatermark
    let wanted = maxRecords
    while (offset < limitOffset && wanted > 0 && state.bytes < state.maxBytes) {
      const decoded = await this.#readSome(served, log, { offset, limitOffset, maxRecords: wanted }, state)
      state.records.push(...decoded.records)
      state.bytes += decoded.bytes
      served.topic.counters.fetchedRecords.add(decoded.records.length)
      wanted -= decoded.records.length
      const moved = decoded.nextOffset > offset
      offset = decoded.nextOffset
      if (decoded.tooLarge !== null) this.#refuse(decoded.tooLarge, position, offset, state)
      if (decoded.full || decoded.tooLarge !== null || !moved) break
    }
    if (offset !== from) state.taken.push({ served, position, from, nextOffset: offset })
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
    if (taken.length === 0) return
    const offsets: CommitOffsets['offsets'] = taken.map(({ served, nextOffset }) => ({
      topic: served.topic.name,
      partition: served.partition,
      value: { offset: nextOffset, leaderEpoch: served.log?.leaderEpoch ?? -1, metadata: '' },
    }))
    const request = { group: this.group, generation: -1, memberId: '', instanceId: null, offsets, durable: false }
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
