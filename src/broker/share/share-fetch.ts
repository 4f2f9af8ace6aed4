import type { Clock } from '../../core/clock.ts'
import type { Counter } from '../../core/counters.ts'
import { deferred } from '../../core/deferred.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { IsolationLevel } from '../../core/types.ts'
import type { Log, LogRead, ReadRequest } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type { SharedPartition, ShareFetchRequest } from '../share-ports.ts'
import type { Partitions } from '../topics/partitions.ts'
import { bytesOf, visibleBatches } from './read-batches.ts'
import type { ShareEntry } from './share-entry.ts'
import { partitionName, type SessionPartition, type ShareSession } from './share-sessions.ts'
import type { ShareStates } from './share-states.ts'
import type { ShareGroupSettings, ShareRules } from './share-types.ts'

export interface ShareFetchDeps {
  readonly partitions: Partitions
  readonly states: ShareStates
  readonly clock: Clock
  readonly topicName: (id: string) => string | undefined
  readonly rulesOf: (group: string, topic: string) => ShareRules
  readonly settingsOf: (group: string) => ShareGroupSettings
  /** Stores what has changed and does what follows from it. */
  readonly settle: (entry: ShareEntry) => void
  readonly delivered: Counter
}

type Limits = Pick<ShareFetchRequest, 'maxBytes' | 'maxRecords' | 'batchSize' | 'isStrict'>
type Wanted = Pick<ShareFetchRequest, 'minBytes' | 'maxBytes'>

/** A partition of the session that can be read. */
interface Source {
  readonly asked: SessionPartition
  readonly topic: string
  readonly entry: ShareEntry
  readonly log: Log
}

export interface FoundRecords {
  readonly partitions: readonly SharedPartition[]
  release(): void
}

/** A partition without records. */
export function sharedPartition({ topicId, partition }: SessionPartition, error: MoonMQError | null): SharedPartition {
  return { topicId, partition, error, ackError: null, acquired: [], records: [], sizeBytes: 0 }
}

/** Reads on which nothing was found are tried again while gaps are passed over, at most so often. */
const MAX_GAP_READS = 100
/** Of one request, before others get their turn. */
const PARTITIONS_PER_TURN = 500

/** Gives records of the partitions of a session to its member, waiting until there are some. */
export class ShareFetcher {
  readonly #deps: ShareFetchDeps
  readonly #bells = new Set<Bell>()
  #closed = false

  constructor(deps: ShareFetchDeps) {
    this.#deps = deps
  }

  async fetch(context: RequestContext, session: ShareSession, request: ShareFetchRequest): Promise<FoundRecords> {
    const deadlineMs = this.#deps.clock.monotonicMs() + request.maxWaitMs
    const sources: Source[] = []
    const failed: SharedPartition[] = []
    let step = 0
    for (const asked of session.partitions.values()) {
      if (++step % PARTITIONS_PER_TURN === 0) await this.#nextTurn()
      try {
        sources.push(await this.#open(context, session.group, asked))
      } catch (error) {
        failed.push(sharedPartition(asked, asMoonMQError(error)))
      }
    }
    const found = new Found(failed)
    if (request.maxRecords <= 0 || request.maxBytes <= 0) return found
    const bell = new Bell(this.#deps.clock, context.signal)
    try {
      for (;;) {
        bell.reset()
        const leftMs = deadlineMs - this.#deps.clock.monotonicMs()
        const isLast = leftMs <= 0 || request.minBytes <= 0 || found.partitions.length > 0 || context.signal.aborted || this.#closed
        if (isLast || (await this.#hasEnough(session, sources, request))) await this.#pass(context, session, sources, request, found)
        if (isLast || found.partitions.length > 0) return found
        // Most find something at once; who does not, listens first and then looks once more.
        if (!bell.isAttached) bell.attach(this.#deps.partitions, sources)
        else await this.#wait(bell, leftMs)
      }
    } catch (error) {
      found.release()
      throw error
    } finally {
      bell.close()
    }
  }

  /**
   * Whether as many bytes wait behind what the group has had as the client wants at least. Like Kafka it takes what others hold in between for
   * free. Of a partition that cannot be read the pass tells why.
   */
  async #hasEnough(session: ShareSession, sources: readonly Source[], { minBytes, maxBytes }: Wanted): Promise<boolean> {
    const wanted = Math.min(minBytes, maxBytes)
    if (wanted <= 1) return true
    const { isolation } = this.#deps.settingsOf(session.group)
    let bytes = 0
    let step = 0
    for (const { topic, entry, log } of sources) {
      if (++step % PARTITIONS_PER_TURN === 0) await this.#nextTurn()
      if (entry.isGone || log.state === 'closed') return true
      if (entry.isReading) continue
      entry.machine.trim(log.logStartOffset)
      const offset = entry.machine.nextFetchOffset(this.#deps.rulesOf(session.group, topic))
      const limitOffset = isolation === 'read_committed' ? log.lastStableOffset : log.highWatermark
      if (offset === undefined || offset >= limitOffset) continue
      try {
        const read = await readFor(entry, log, { offset, maxBytes: wanted - bytes, minOneBatch: true, limitOffset })
        bytes += read.sizeBytes
        const isCut = read.nextOffset < limitOffset
        read.release()
        if (bytes >= wanted || isCut) return true
      } catch {
        return true
      }
    }
    return false
  }

  #nextTurn(): Promise<void> {
    return new Promise((resolve) => this.#deps.clock.defer(resolve))
  }

  async #wait(bell: Bell, waitMs: number): Promise<void> {
    this.#bells.add(bell)
    try {
      await bell.rings(waitMs)
    } finally {
      this.#bells.delete(bell)
    }
  }

  /** Throws what keeps the group from reading the partition. */
  async #open(context: RequestContext, group: string, asked: SessionPartition): Promise<Source> {
    const { topicId, partition } = asked
    const topic = this.#deps.topicName(topicId)
    if (topic === undefined) throw new MoonMQError('TOPIC_ID_UNKNOWN', { id: topicId })
    const { log } = this.#deps.partitions.forClient(context, topic, partition)
    const entry = await this.#deps.states.open({ group, topicId, partition })
    if (entry.isUnset) await this.#begin(group, entry, log)
    return { asked, topic, entry, log }
  }

  /** The group comes here for the first time: where it begins is durable before anything is given out. */
  async #begin(group: string, entry: ShareEntry, log: Log): Promise<void> {
    const { reset } = this.#deps.settingsOf(group)
    let offset = reset === 'earliest' ? log.logStartOffset : log.highWatermark
    if (typeof reset === 'object') {
      const since = this.#deps.clock.nowMs() - reset.backMs
      offset = (await log.offsetForTimestamp(since, log.highWatermark))?.offset ?? log.highWatermark
    }
    if (entry.isUnset && !entry.isGone) {
      entry.machine.begin(offset)
      this.#deps.settle(entry)
    }
    await this.#deps.states.whenDurable(entry)
  }

  /** Answers every request that waits with what there is. */
  close(): void {
    this.#closed = true
    for (const bell of this.#bells) bell.ring()
  }

  async #pass(
    context: RequestContext,
    session: ShareSession,
    sources: readonly Source[],
    request: ShareFetchRequest,
    found: Found,
  ): Promise<void> {
    let { maxBytes, maxRecords } = request
    let step = 0
    for (const source of sources) {
      if (++step % PARTITIONS_PER_TURN === 0) await this.#nextTurn()
      if (maxRecords <= 0 || (maxBytes <= 0 && found.hasRecords) || context.signal.aborted) return
      try {
        const limits = { maxBytes, maxRecords, batchSize: request.batchSize, isStrict: request.isStrict }
        const taken = await this.#take(context, session, source, limits, !found.hasRecords)
        if (taken === null) continue
        found.add(taken)
        maxBytes -= taken.shared.sizeBytes
        const count = taken.shared.acquired.reduce((sum, { first, last }) => sum + last - first + 1, 0)
        maxRecords -= count
        this.#deps.delivered.add(count)
      } catch (error) {
        found.fail(source.asked, error)
      }
    }
  }

  /** Acquires what there is of one partition; null when there is nothing. */
  async #take(context: RequestContext, session: ShareSession, source: Source, limits: Limits, minOneBatch: boolean): Promise<Taken | null> {
    const { asked, topic, entry, log } = source
    for (let reads = 0; reads < MAX_GAP_READS; reads++) {
      if (entry.isGone) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: session.group })
      if (log.state === 'closed')
        throw new MoonMQError('STORAGE_FAILED', { topic, partition: asked.partition, reason: 'its log is closed' })
      if (entry.isReading) return null
      const { isolation } = this.#deps.settingsOf(session.group)
      entry.machine.trim(log.logStartOffset)
      const offset = entry.machine.nextFetchOffset(this.#deps.rulesOf(session.group, topic))
      const limitOffset = isolation === 'read_committed' ? log.lastStableOffset : log.highWatermark
      if (offset === undefined || offset >= limitOffset) return null
      const read = await readFor(entry, log, { offset, maxBytes: limits.maxBytes, minOneBatch, limitOffset })
      if (context.signal.aborted) {
        // What its member held was given back meanwhile: nobody would give this back.
        read.release()
        return null
      }
      const shared = this.#acquire(session, source, limits, { from: offset, read, isolation })
      if (shared !== null) return { shared, release: () => read.release() }
      read.release()
      if (read.sizeBytes === 0 || entry.machine.nextFetchOffset(this.#deps.rulesOf(session.group, topic)) === offset) return null
    }
    return null
  }

  /** Null when nothing of the read can be given out. Releases the read when it throws. */
  #acquire(
    session: ShareSession,
    { asked, topic, entry, log }: Source,
    limits: Limits,
    { from, read, isolation }: { from: number; read: LogRead; isolation: IsolationLevel },
  ): SharedPartition | null {
    try {
      if (entry.isGone) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: session.group })
      if (read.sizeBytes === 0) return null
      const batches = visibleBatches(log, read, isolation)
      const nowMs = this.#deps.clock.monotonicMs()
      const request = { ...limits, member: session.memberId, from, end: read.nextOffset, batches, nowMs }
      const acquired = entry.machine.acquire(request, this.#deps.rulesOf(session.group, topic))
      this.#deps.settle(entry)
      if (acquired.length === 0) return null
      const name = partitionName(asked)
      session.held.set(name, asked)
      // Whoever gave something comes last the next time.
      if (session.partitions.delete(name)) session.partitions.set(name, asked)
      const records = bytesOf(batches, acquired)
      return { ...sharedPartition(asked, null), acquired, records, sizeBytes: records.reduce((sum, { length }) => sum + length, 0) }
    } catch (error) {
      read.release()
      throw error
    }
  }
}

interface Taken {
  readonly shared: SharedPartition
  readonly release: () => void
}

/** While a read from disk is under way others leave the partition alone: they would find the same records. */
async function readFor(entry: ShareEntry, log: Log, request: ReadRequest): Promise<LogRead> {
  const reading = log.read(request)
  if (!(reading instanceof Promise)) return reading
  entry.isReading = true
  try {
    return await reading
  } finally {
    entry.isReading = false
    entry.wake()
  }
}

class Found implements FoundRecords {
  readonly partitions: SharedPartition[]
  readonly #releases: (() => void)[] = []

  constructor(failed: readonly SharedPartition[]) {
    this.partitions = [...failed]
  }

  get hasRecords(): boolean {
    return this.#releases.length > 0
  }

  add({ shared, release }: Taken): void {
    this.partitions.push(shared)
    this.#releases.push(release)
  }

  fail(asked: SessionPartition, error: unknown): void {
    this.partitions.push(sharedPartition(asked, asMoonMQError(error)))
  }

  release(): void {
    for (const release of this.#releases.splice(0)) release()
  }
}

/** Rings when a partition may have something to give out: its log moved, records came back, or it is gone. */
class Bell {
  readonly #stops: (() => void)[] = []
  readonly #signal: AbortSignal
  readonly #clock: Clock
  #hasRung = false
  #onRing: () => void = () => {}

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
  }

  get isAttached(): boolean {
    return this.#stops.length > 0
  }

  attach(partitions: Partitions, sources: readonly Source[]): void {
    const ring = () => this.ring()
    for (const { entry, log } of sources) this.#stops.push(entry.onAvailable(ring), log.watch(ring))
    this.#stops.push(partitions.onRemoved((topic) => sources.some((source) => source.topic === topic.name) && this.ring()))
    this.#signal.addEventListener('abort', ring, { once: true })
    this.#stops.push(() => this.#signal.removeEventListener('abort', ring))
  }

  ring(): void {
    this.#hasRung = true
    this.#onRing()
  }

  /** What rang before does not count any more: everything is looked at now. */
  reset(): void {
    this.#hasRung = false
  }

  /** Resolves when it rings, or when the time is over. */
  async rings(waitMs: number): Promise<void> {
    if (this.#hasRung) return
    const done = deferred()
    const timer = this.#clock.setTimer(waitMs, () => done.resolve())
    this.#onRing = () => done.resolve()
    await done.promise
    timer.cancel()
  }

  close(): void {
    for (const stop of this.#stops) stop()
  }
}
