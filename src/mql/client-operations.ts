import { mergeByTimestamp } from '../client/merge.ts'
import type { Client, ClientRecord, Producer, PushedRecord, Session, StartPosition } from '../client/types.ts'
import { type Clock, sleep, type Timer } from '../core/clock.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import type { Random } from '../core/random.ts'
import { newUuid } from '../core/uuid.ts'
import { OpenTransaction } from './open-transaction.ts'
import type {
  FetchLimits,
  Membership,
  NewRecord,
  Operations,
  PartitionOffsets,
  ScanBound,
  ScanRequest,
  SubscribeLimits,
} from './operations.ts'
import { recordBytes } from './select.ts'

/** Consumers of different groups that one console keeps; the one that was used longest ago makes room. */
const MAX_SESSIONS = 16
/** A third of what a member may be silent. */
const HEARTBEAT_MS = 10_000
/** How a member that subscribes asks. */
const POLL_MS = 100
const POLL_RECORDS = 500

/** Statements by means of a client. Owns it. */
export class ClientOperations implements Operations {
  readonly target: string
  readonly #client: Client
  readonly #clock: Clock
  readonly #random: Random
  /** By group: deliveries, positions and membership belong to a connection, and each has one group. */
  readonly #sessions = new Map<string, Session>()
  #last: { readonly group: string; readonly session: Session } | null = null
  #producer: Producer | null = null
  #transaction: OpenTransaction | null = null
  #membership: Membership | null = null
  #heartbeat: Timer | null = null

  constructor(deps: { readonly client: Client; readonly clock: Clock; readonly random: Random }, target: string) {
    this.#client = deps.client
    this.#clock = deps.clock
    this.#random = deps.random
    this.target = target
  }

  get membership(): Membership | null {
    return this.#membership
  }

  async close(): Promise<void> {
    this.#heartbeat?.cancel()
    // What is open is rolled back: nobody said COMMIT.
    await this.#transaction?.end(false).catch(() => undefined)
    await this.#client.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  listTopics(signal: AbortSignal) {
    return this.#client.admin.listTopics({ signal })
  }

  createTopic(name: string, partitions: number, config: Readonly<Record<string, string>>, signal: AbortSignal) {
    return this.#client.admin.createTopic(name, { partitions, config, signal })
  }

  describeTopic(name: string, signal: AbortSignal) {
    return this.#client.admin.describeTopic(name, { signal })
  }

  topicSettings(name: string, signal: AbortSignal) {
    return this.#client.admin.describeTopicConfig(name, { signal })
  }

  alterTopic(
    name: string,
    change: { readonly set: Readonly<Record<string, string>>; readonly unset: readonly string[] },
    signal: AbortSignal,
  ) {
    return this.#client.admin.alterTopicConfig(name, change, { signal })
  }

  growTopic(name: string, partitions: number, signal: AbortSignal) {
    return this.#client.admin.createPartitions(name, partitions, { signal })
  }

  dropTopic(name: string, signal: AbortSignal) {
    return this.#client.admin.deleteTopic(name, { signal })
  }

  listGroups(signal: AbortSignal) {
    return this.#client.admin.listGroups({ signal })
  }

  describeGroup(group: string, signal: AbortSignal) {
    return this.#client.admin.describeGroup(group, { signal })
  }

  dropGroup(group: string, signal: AbortSignal) {
    return this.#client.admin.deleteGroup(group, { signal })
  }

  async offsets(topic: string, group: string | null, signal: AbortSignal): Promise<readonly PartitionOffsets[]> {
    const { admin } = this.#client
    const bounds = await admin.listOffsets(topic, { signal })
    const committed = group === null ? null : ((await admin.committedOffsets(group, [topic], { signal }))[0]?.offsets ?? [])
    return bounds.map(({ forTime, ...each }) => ({ ...each, committed: committed === null ? null : (committed[each.partition] ?? -1) }))
  }

  async produce(topic: string, { key, value, headers, partition }: NewRecord, signal: AbortSignal) {
    const record = { key, value, headers, ...(partition === null ? {} : { partition }) }
    if (this.#transaction !== null) return this.#transaction.send(topic, record, signal)
    this.#producer ??= this.#client.producer()
    return this.#producer.send(topic, record, { signal })
  }

  async fetch(topic: string, group: string, { maxRecords, maxBytes }: FetchLimits, signal: AbortSignal) {
    const session = await this.#sessionOf(group)
    const records = await session.fetch(topic, group, maxRecords, { signal, maxBytes, isolation: 'read_committed' })
    this.#last = { group, session }
    return records
  }

  async *subscribe(topic: string, group: string, limits: SubscribeLimits, signal: AbortSignal): AsyncGenerator<ClientRecord> {
    // A member gets its share over its own connection; whoever pushed it would have to be a member too.
    if (this.#membership?.group === group) {
      yield* this.#poll(topic, group, limits, signal)
      return
    }
    try {
      yield* this.#pushed(topic, group, limits, signal)
    } catch (error) {
      // A broker without the extension of the protocol pushes in no way that could be answered for.
      if (!isCode(error, 'UNSUPPORTED_VERSION')) throw error
      yield* this.#poll(topic, group, limits, signal)
    }
  }

  async *#poll(topic: string, group: string, limits: SubscribeLimits, signal: AbortSignal): AsyncGenerator<ClientRecord> {
    const left = new Left(this.#clock, limits)
    do {
      const { records: maxRecords, bytes: maxBytes } = left
      const most = { maxRecords: Math.min(POLL_RECORDS, maxRecords), maxBytes: Math.min(MIB, maxBytes) }
      const records = await this.fetch(topic, group, most, signal)
      for (const record of records) left.take(record)
      yield* records
      if (records.length === 0) await sleep(this.#clock, Math.min(POLL_MS, left.waitMs), signal)
    } while (left.some)
  }

  async *#pushed(topic: string, group: string, limits: SubscribeLimits, signal: AbortSignal): AsyncGenerator<ClientRecord> {
    const consumer = this.#client.pushConsumer({ group, topics: [topic], member: false, isolation: 'read_committed', signal })
    const each = consumer[Symbol.asyncIterator]()
    const left = new Left(this.#clock, limits)
    let shown: PushedRecord | null = null
    try {
      do {
        // Asking for the next one says that the last one is done.
        shown = null
        const next = await this.#within(each.next(), left.waitMs)
        if (next === null || next.done === true) return
        shown = next.value
        left.take(shown)
        yield shown
      } while (left.some)
    } finally {
      // What comes while it closes was not shown: it is nobody's, and comes again.
      await shown?.ack()
      await consumer.close()
    }
  }

  /** What the promise gives, or null when it takes longer. */
  async #within<T>(promise: Promise<T>, timeoutMs: number): Promise<T | null> {
    const over = new AbortController()
    const late = sleep(this.#clock, timeoutMs, over.signal).then(
      () => null,
      () => null,
    )
    try {
      return await Promise.race([promise, late])
    } finally {
      over.abort()
    }
  }

  async *scan({ topic, partitions, from, to }: ScanRequest, signal: AbortSignal): AsyncGenerator<ClientRecord> {
    const { admin } = this.#client
    const known = await admin.listOffsets(topic, { signal, ...(isTime(to) ? { timestampMs: to.timestampMs } : {}) })
    const chosen = partitions ?? known.map(({ partition }) => partition)
    const ends = new Map<number, number>()
    const positions = new Map<number, number>()
    for (const partition of chosen) {
      const bounds = known[partition]
      if (bounds === undefined) throw new MoonMQError('PARTITION_MISSING', { topic, partition })
      ends.set(partition, endOf(to, bounds))
      // Every partition has offsets of its own: one that begins later is read from where it begins.
      if (typeof from === 'object' && 'offset' in from) {
        positions.set(partition, Math.min(Math.max(from.offset, bounds.earliest), bounds.lastStableOffset))
      }
    }
    const start: StartPosition = from
    const isolation = 'read_committed' as const
    const readers = this.#client.partitionReaders({ topic, partitions: chosen, from: start, positions, isolation, signal })
    yield* mergeByTimestamp(readers.map((reader, index) => below(reader, ends.get(chosen[index] ?? -1) ?? 0)))
  }

  async commit(topic: string, partition: number, offset: number, signal: AbortSignal): Promise<void> {
    const { group, session } = this.#lastFetch('COMMIT')
    if (this.#transaction === null) await session.commit(topic, partition, offset, { signal })
    else await this.#transaction.commitOffsets(group, [{ topic, partition, offset }])
  }

  async nack(topic: string, partition: number, offset: number, reason: string, signal: AbortSignal) {
    return this.#lastFetch('NACK').session.nack(topic, partition, offset, reason, { signal })
  }

  async join(group: string, topics: readonly string[], signal: AbortSignal): Promise<Membership> {
    if (this.#membership !== null) {
      if (this.#membership.group !== group) {
        throw new MoonMQError('GROUP_CONFLICT', { reason: `this session is a member of group "${this.#membership.group}": LEAVE it first` })
      }
      await this.leave(signal)
    }
    const session = await this.#sessionOf(group)
    const joined: Membership = { group, ...(await session.join(group, topics, { signal })) }
    this.#membership = joined
    this.#joinAgainLater(session, group, topics)
    return joined
  }

  async leave(signal: AbortSignal): Promise<void> {
    const { group, memberId } = this.#member()
    const session = await this.#sessionOf(group)
    this.#heartbeat?.cancel()
    this.#membership = null
    await session.leave(group, memberId, { signal })
  }

  async heartbeat(signal: AbortSignal): Promise<void> {
    const { group, memberId } = this.#member()
    const session = await this.#sessionOf(group)
    try {
      await session.heartbeat(group, memberId, { signal })
    } catch (error) {
      if (isCode(error, 'GROUP_MEMBER_UNKNOWN')) this.#membership = null
      throw error
    }
  }

  async begin(name: string | null, signal: AbortSignal): Promise<void> {
    if (this.#transaction !== null) {
      throw MoonMQError.withText('INVALID_TXN_STATE', 'a transaction is open: say COMMIT TRANSACTION or ROLLBACK first')
    }
    this.#transaction = await OpenTransaction.begin(this.#client, name ?? `moonmq-sql-${newUuid(this.#random)}`, signal)
  }

  async endTransaction(commit: boolean, signal: AbortSignal): Promise<void> {
    const transaction = this.#transaction
    if (transaction === null) throw MoonMQError.withText('INVALID_TXN_STATE', 'there is no transaction: say BEGIN first')
    this.#transaction = null
    await transaction.end(commit, signal)
  }

  /**
   * While the console is open the member stays alive, whatever the person does. Joining again is a sign of life too, and tells what the
   * member may read now. A failure shows at the next statement.
   */
  #joinAgainLater(session: Session, group: string, topics: readonly string[]): void {
    this.#heartbeat?.cancel()
    this.#heartbeat = this.#clock.setTimer(HEARTBEAT_MS, () => {
      session.join(group, topics).then(
        (joined) => {
          if (this.#membership?.memberId !== joined.memberId) return
          this.#membership = { group, ...joined }
          this.#joinAgainLater(session, group, topics)
        },
        () => {
          if (this.#membership?.group === group) this.#membership = null
        },
      )
    })
  }

  #member(): Membership {
    if (this.#membership === null) throw MoonMQError.withText('INVALID_REQUEST', 'this session is a member of no group: JOIN one first')
    return this.#membership
  }

  #lastFetch(statement: string): { readonly group: string; readonly session: Session } {
    if (this.#last?.session.open !== true) {
      throw MoonMQError.withText('INVALID_REQUEST', `${statement} is for the group that was fetched last: FETCH first`)
    }
    return this.#last
  }

  async #sessionOf(group: string): Promise<Session> {
    const known = this.#sessions.get(group)
    this.#sessions.delete(group)
    if (known?.open === true) {
      this.#sessions.set(group, known)
      return known
    }
    if (this.#membership?.group === group) this.#membership = null
    for (const [other, session] of this.#sessions) {
      if (this.#sessions.size < MAX_SESSIONS) break
      if (other === this.#membership?.group) continue
      this.#sessions.delete(other)
      await session.close()
    }
    const made = this.#client.session()
    this.#sessions.set(group, made)
    return made
  }
}

/** What is left of the limits of a SUBSCRIBE. */
class Left {
  records: number
  bytes: number
  readonly #clock: Clock
  readonly #limits: SubscribeLimits
  readonly #startMs: number
  #lastMs: number

  constructor(clock: Clock, limits: SubscribeLimits) {
    this.#clock = clock
    this.#limits = limits
    this.records = limits.maxRecords
    this.bytes = limits.maxBytes
    this.#startMs = clock.monotonicMs()
    this.#lastMs = this.#startMs
  }

  get waitMs(): number {
    const { idleMs, totalMs } = this.#limits
    return Math.max(0, Math.min(this.#lastMs + idleMs, this.#startMs + totalMs) - this.#clock.monotonicMs())
  }

  get some(): boolean {
    return this.records > 0 && this.bytes > 0 && this.waitMs > 0
  }

  take(record: ClientRecord): void {
    this.records--
    this.bytes -= recordBytes(record)
    this.#lastMs = this.#clock.monotonicMs()
  }
}

function isTime(bound: ScanBound | null): bound is { readonly timestampMs: number } {
  return typeof bound === 'object' && bound !== null && 'timestampMs' in bound
}

function endOf(
  to: ScanBound | null,
  bounds: { readonly earliest: number; readonly lastStableOffset: number; readonly forTime: number | null },
): number {
  if (to === null || to === 'latest') return bounds.lastStableOffset
  if (to === 'earliest') return bounds.earliest
  return 'offset' in to ? Math.min(to.offset, bounds.lastStableOffset) : (bounds.forTime ?? bounds.lastStableOffset)
}

async function* below(source: AsyncIterable<ClientRecord>, end: number): AsyncGenerator<ClientRecord> {
  if (end <= 0) return
  for await (const record of source) {
    if (record.offset >= end) return
    yield record
  }
}
