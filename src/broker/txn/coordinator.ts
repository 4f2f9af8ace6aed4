import { type Clock, type Timer, withDeadline } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { asMoonMQError, isCode, MoonMQError } from '../../core/errors.ts'
import type { Failpoint } from '../../core/failpoint.ts'
import { coordinatorPartition } from '../../core/hash.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Loader } from '../../core/loader.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import { Semaphore } from '../../core/semaphore.ts'
import type { Resource, TopicPartition } from '../../core/types.ts'
import { INTERNAL_CONTEXT, type RequestContext } from '../context.ts'
import type { CoordinatorTopic } from '../coordination/coordinator-log.ts'
import type { CommitOffsets } from '../group-ports.ts'
import { CONSUMER_OFFSETS } from '../internal-topics.ts'
import { Patterns } from '../patterns.ts'
import type { ProducerPort } from '../ports.ts'
import type { Partitions } from '../topics/partitions.ts'
import type {
  ForcedMarker,
  InitedProducer,
  InitProducer,
  ProducerIdentity,
  TransactionDescription,
  TransactionFilter,
  TransactionListing,
  TransactionOwner,
  TransactionPort,
  TransactionSupport,
} from '../txn-ports.ts'
import { describeTransaction, listTransactions, unknownTransaction } from './describe.ts'
import { Markers } from './markers.ts'
import type { PendingCommits } from './pending-commits.ts'
import { addPartitions, COMPLETE, endTransaction, initProducer, isPart, type Step } from './rules.ts'
import { isEnding, type Transaction, TWO_PHASE_TIMEOUT_MS } from './transaction.ts'
import type { NameHolder, TxnEntry } from './txn-entry.ts'
import type { TxnOptions } from './txn-options.ts'
import { TxnShard } from './txn-shard.ts'

export interface TxnDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly metrics: Metrics
  readonly failpoint: Failpoint
  readonly loader: Loader
  readonly stateTopic: CoordinatorTopic
  readonly partitions: Partitions
  readonly producers: ProducerPort
  readonly commits: PendingCommits
  /** The level of `transaction.version`. */
  readonly level: () => number
}

/** Partitions of the state topic that are read at the same time. */
const LOADERS = 4
/** Transactional ids in memory. */
const MAX_IDS = 500_000
const MAX_ID_BYTES = 32_767
/** How long a request waits for the end of the transaction before it, instead of being told to come again. */
const CONCURRENT_WAIT_MS = 1000
/** How long a native client waits for the markers of its transaction. */
const END_WAIT_MS = 30_000

export interface NamedProducer extends ProducerIdentity {
  /** How the last transaction of the name ended; null when it had none. */
  readonly lastCommitted: boolean | null
}

/** A transactional batch before it is appended. */
export interface Admission extends TransactionOwner, TopicPartition {
  readonly support: TransactionSupport
}

/**
 * Coordinates every transaction of this broker (DESIGN D10). The rules decide, the shards store and carry out; here it is decided who
 * waits for what before the answer: a change is answered when it is durable, a request that meets an end under way goes on after it.
 */
export class TransactionCoordinator implements TransactionPort, Resource {
  readonly #deps: TxnDeps
  readonly #options: TxnOptions
  readonly #shards: readonly TxnShard[]
  readonly #markers: Markers
  readonly #patterns: Patterns
  readonly #unobserve: readonly (() => void)[]
  readonly #sweeps = new Map<'kafka' | 'native', Timer>()
  #closed = false

  constructor(deps: TxnDeps, options: TxnOptions) {
    this.#deps = deps
    this.#options = options
    const { clock, random, metrics, failpoint, stateTopic, partitions, commits } = deps
    this.#patterns = new Patterns({ loader: deps.loader })
    const log = deps.log.child({ room: 'transactions' })
    const counters = {
      committed: metrics.counter('moonmq_transactions_ended_total', { result: 'committed' }),
      aborted: metrics.counter('moonmq_transactions_ended_total', { result: 'aborted' }),
      timedOut: metrics.counter('moonmq_transactions_timed_out_total'),
      expired: metrics.counter('moonmq_transactional_ids_expired_total'),
      nameExpired: metrics.counter('moonmq_producers_expired_total'),
    }
    this.#markers = new Markers({ partitions, commits, clock, random, log })
    const shardDeps = {
      clock,
      random,
      log,
      topic: stateTopic,
      markers: this.#markers,
      failpoint,
      recordVersion: () => (deps.level() >= 1 ? (1 as const) : (0 as const)),
      goesOnAfterAbort: () => deps.level() >= 2,
      counted: (event: keyof typeof counters) => counters[event].add(),
    }
    this.#shards = Array.from({ length: stateTopic.partitionCount }, (_, partition) => new TxnShard(shardDeps, partition))
    this.#unobserve = [
      metrics.observed('moonmq_transactional_ids', () => this.#count(() => true)),
      metrics.observed('moonmq_transactions_open', () => this.#count((txn) => txn.state === 'Ongoing')),
    ]
  }

  #count(where: (txn: Transaction) => boolean): number {
    let count = 0
    for (const { entries } of this.#shards) for (const { txn } of entries.values()) if (where(txn)) count++
    return count
  }

  /** Reads every partition of the state topic. Resolves when all were tried; never rejects. */
  async startLoading(): Promise<void> {
    const loaders = new Semaphore(LOADERS)
    const { idExpirationMs, expiryIntervalMs, names } = this.#options
    this.#sweep('kafka', idExpirationMs, expiryIntervalMs)
    if (names.afterMs > 0) this.#sweep('native', names.afterMs, names.checkIntervalMs)
    await Promise.all(this.#shards.map((shard) => loaders.run(() => shard.load())))
  }

  #sweep(which: 'kafka' | 'native', afterMs: number, intervalMs: number): void {
    if (this.#closed) return
    const timer = this.#deps.clock.setTimer(intervalMs, () => {
      this.#expire(which, afterMs, 0)
      this.#sweep(which, afterMs, intervalMs)
    })
    this.#sweeps.set(which, timer)
  }

  /** One shard a turn. */
  #expire(which: 'kafka' | 'native', afterMs: number, from: number): void {
    const shard = this.#shards[from]
    if (shard === undefined || this.#closed) return
    if (shard.state === 'ready') shard.expire(this.#deps.clock.nowMs() - afterMs, which)
    this.#deps.clock.defer(() => this.#expire(which, afterMs, from + 1))
  }

  // ---- who answers ----------------------------------------------------------------------------------------------------------

  /** The shard of an id whose ids are in memory. Throws COORDINATOR_LOADING, COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST. */
  #ready(id: string): TxnShard {
    if (id === '') throw new MoonMQError('INVALID_REQUEST', { reason: 'the transactional id is empty' })
    if (this.#closed) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: id })
    const shard = this.#shards[coordinatorPartition(id, this.#shards.length)] as TxnShard
    shard.checkReady(id)
    return shard
  }

  async #writable(id: string): Promise<TxnShard> {
    const shard = this.#ready(id)
    const opening = shard.whenWritable()
    if (opening === undefined) return shard
    try {
      await opening
    } catch (error) {
      throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: id }, error)
    }
    return this.#ready(id)
  }

  /** Takes the step, again where something must come first, and answers when what it stored is durable. */
  async #settle<T>(id: string, step: (txn: Transaction | undefined, freshId: number | null) => Step<T>): Promise<T> {
    const deadlineMs = this.#deps.clock.monotonicMs() + CONCURRENT_WAIT_MS
    let freshId: number | null = null
    for (;;) {
      const shard = await this.#writable(id)
      const taken = step(shard.entries.get(id)?.txn, freshId)
      if (taken.kind === 'needsId') {
        freshId = (await this.#deps.producers.newProducerId(INTERNAL_CONTEXT)).producerId
        continue
      }
      if (taken.kind === 'fence') {
        shard.entries.get(id)?.holdBy(null)
        shard.change(id, taken.next)
      }
      if (taken.kind !== 'done') {
        await this.#whenEnded(shard, id, deadlineMs)
        continue
      }
      if (taken.next !== undefined) this.#store(shard, id, taken.next)
      const entry = shard.entries.get(id)
      if (entry !== undefined) await shard.whenDurable(entry)
      return taken.answer
    }
  }

  #store(shard: TxnShard, id: string, next: Transaction): void {
    if (!shard.entries.has(id) && this.#shards.reduce((sum, { entries }) => sum + entries.size, 0) >= MAX_IDS) {
      throw new MoonMQError('RATE_LIMITED', { reason: `the broker holds ${MAX_IDS} transactional ids already` })
    }
    shard.change(id, next)
  }

  async #whenEnded(shard: TxnShard, id: string, deadlineMs: number): Promise<void> {
    const { clock } = this.#deps
    const leftMs = deadlineMs - clock.monotonicMs()
    const ended = shard.entries.get(id)?.whenEnded()
    if (ended === undefined) return
    try {
      await withDeadline(clock, Math.max(0, leftMs), ended)
    } catch (error) {
      throw isCode(error, 'REQUEST_TIMED_OUT') ? new MoonMQError('CONCURRENT_TRANSACTIONS', { id }) : error
    }
  }

  // ---- requests -------------------------------------------------------------------------------------------------------------

  async initProducer(_context: RequestContext, request: InitProducer): Promise<InitedProducer> {
    const { transactionalId, expected, keepPrepared, twoPhaseCommit } = request
    const { maxTimeoutMs, isTwoPhaseEnabled } = this.#options
    if (Buffer.byteLength(transactionalId) > MAX_ID_BYTES) {
      throw new MoonMQError('INVALID_REQUEST', { reason: 'the transactional id is too long' })
    }
    this.#ready(transactionalId)
    if ((twoPhaseCommit || keepPrepared) && !isTwoPhaseEnabled) {
      throw new MoonMQError('TRANSACTIONAL_ID_NOT_AUTHORIZED', { reason: 'two-phase commit is off: transaction.two.phase.commit.enable' })
    }
    if (!twoPhaseCommit && (request.timeoutMs <= 0 || request.timeoutMs > maxTimeoutMs)) {
      throw new MoonMQError('TRANSACTION_TIMEOUT_INVALID', { timeoutMs: request.timeoutMs, max: maxTimeoutMs })
    }
    if (keepPrepared) this.#checkTagged('InitProducerId')
    const timeoutMs = twoPhaseCommit ? TWO_PHASE_TIMEOUT_MS : request.timeoutMs
    return await this.#settle(transactionalId, (txn, freshId) => {
      const goesOnAfterAbort = this.#deps.level() >= 2
      return initProducer(txn, { timeoutMs, expected, keepPrepared, freshId, goesOnAfterAbort }, this.#deps.clock.nowMs())
    })
  }

  /** What the records of `transaction.version` 0 have no room for is refused. Throws UNSUPPORTED_VERSION. */
  #checkTagged(api: string): void {
    if (this.#deps.level() >= 1) return
    throw new MoonMQError('UNSUPPORTED_VERSION', { api, version: 'that needs transaction.version 1', supported: 'earlier ones' })
  }

  async addPartitions(_context: RequestContext, owner: TransactionOwner, partitions: readonly TopicPartition[]): Promise<void> {
    await this.#add(owner, partitions, 0)
  }

  async #add(owner: TransactionOwner, partitions: readonly TopicPartition[], clientVersion: 0 | 2): Promise<void> {
    await this.#settle(owner.transactionalId, (txn) => addPartitions(txn, owner, partitions, clientVersion, this.#deps.clock.nowMs()))
    this.#deps.failpoint('txn.partitions-added')
  }

  addOffsets(context: RequestContext, owner: TransactionOwner, group: string): Promise<void> {
    return this.addPartitions(context, owner, [this.#offsetsOf(group)])
  }

  #offsetsOf(group: string): TopicPartition {
    return { topic: CONSUMER_OFFSETS, partition: this.#deps.commits.partitionOf(group) }
  }

  verifyPartitions(owner: TransactionOwner, partitions: readonly TopicPartition[]): readonly (MoonMQError | null)[] {
    return partitions.map((each) => {
      try {
        const part = isPart(this.#ready(owner.transactionalId).entries.get(owner.transactionalId)?.txn, owner, each)
        if (part === 'concurrent') return new MoonMQError('CONCURRENT_TRANSACTIONS', { id: owner.transactionalId })
        return part ? null : notAdded(each, 'abortable')
      } catch (error) {
        return asMoonMQError(error)
      }
    })
  }

  async commitOffsets(
    context: RequestContext,
    owner: TransactionOwner,
    request: CommitOffsets,
    support: TransactionSupport,
  ): Promise<readonly (MoonMQError | null)[]> {
    const admission = { ...owner, ...this.#offsetsOf(request.group), support }
    return await this.#deps.commits.commitPending(context, owner, request, () => this.#admit(admission))
  }

  async end(_context: RequestContext, owner: TransactionOwner, commit: boolean, bumpsEpoch: boolean): Promise<ProducerIdentity> {
    const { transactionalId, producerId, producerEpoch } = owner
    if (bumpsEpoch) this.#checkTagged('EndTxn')
    const clientVersion = bumpsEpoch ? 2 : 0
    return await this.#settle(transactionalId, (txn, freshId) =>
      endTransaction(txn, { producerId, producerEpoch, commit, clientVersion, freshId }, this.#deps.clock.nowMs()),
    )
  }

  // ---- names of native producers ---------------------------------------------------------------------------------------------

  /**
   * A name for a new session: the one that had it is told, and what it left open is aborted first. The answer says how the last
   * transaction of the name ended. To be held by the session at once. Throws CONCURRENT_TRANSACTIONS.
   */
  async takeName(name: string, timeoutMs: number): Promise<NamedProducer> {
    let lastCommitted: boolean | null = null
    const wish = {
      timeoutMs: Math.min(timeoutMs, this.#options.maxTimeoutMs),
      expected: null,
      keepPrepared: false,
      isNative: true,
      goesOnAfterAbort: false,
    }
    const { producerId, producerEpoch } = await this.#settle(name, (txn, freshId) => {
      lastCommitted = (txn === undefined ? undefined : COMPLETE.get(txn.state)) ?? null
      // Ids of the native protocol begin at 1.
      return initProducer(txn, { ...wish, freshId: freshId === 0 ? null : freshId }, this.#deps.clock.nowMs())
    })
    return { producerId, producerEpoch, lastCommitted }
  }

  /** A session goes on with the identity that an earlier one had. Its open transaction is aborted. Throws PRODUCER_FENCED. */
  async resumeName(owner: TransactionOwner, holder: NameHolder): Promise<void> {
    const entry = this.holdName(owner, holder)
    if (entry.txn.state === 'Ongoing') await this.end(INTERNAL_CONTEXT, owner, false, false)
  }

  /** Throws PRODUCER_FENCED when yet another session has come. */
  holdName(owner: TransactionOwner, holder: NameHolder): TxnEntry {
    const entry = this.#named(owner)
    entry.holdBy(holder)
    return entry
  }

  /** Throws PRODUCER_FENCED. */
  #named(owner: TransactionOwner): TxnEntry {
    const entry = this.#ready(owner.transactionalId).entries.get(owner.transactionalId)
    const isOwner = entry?.txn.producerId === owner.producerId && entry.txn.producerEpoch === owner.producerEpoch
    if (entry === undefined || !isOwner) throw new MoonMQError('PRODUCER_FENCED')
    return entry
  }

  /** In this turn: whether the session still speaks for its name. Answers whether an end is under way. Throws PRODUCER_FENCED. */
  checkName(owner: TransactionOwner, holder: NameHolder): boolean {
    const entry = this.#named(owner)
    // The names were read again meanwhile.
    if (entry.holder === null) entry.holdBy(holder)
    else if (entry.holder !== holder) throw new MoonMQError('PRODUCER_FENCED')
    return isEnding(entry.txn)
  }

  releaseName({ transactionalId }: TransactionOwner, holder: NameHolder): void {
    this.#shards[coordinatorPartition(transactionalId, this.#shards.length)]?.entries.get(transactionalId)?.releasedBy(holder)
  }

  /**
   * Decides and waits until every marker is durable. What is decided stays decided: asked again with the same choice it is answered the
   * same. Throws INVALID_TXN_STATE, and CONCURRENT_TRANSACTIONS when the markers take too long.
   */
  async endWhole(owner: TransactionOwner, commit: boolean): Promise<void> {
    const { transactionalId: id } = owner
    await this.end(INTERNAL_CONTEXT, owner, commit, false)
    const shard = this.#ready(id)
    const entry = shard.entries.get(id)
    if (entry === undefined) return
    if (isEnding(entry.txn)) await this.#whenEnded(shard, id, this.#deps.clock.monotonicMs() + END_WAIT_MS)
    await shard.whenDurable(entry)
  }

  // ---- appends --------------------------------------------------------------------------------------------------------------

  /**
   * Whether a transactional batch may be appended in this turn: its partition is, durably, part of the producer's open transaction.
   * Undefined lets it pass; a promise is to be waited for, and then this asked again. Throws as a produce request is refused.
   */
  admit(admission: Admission): Promise<void> | undefined {
    try {
      return this.#admit(admission)?.catch((error: unknown) => {
        throw refusedAppend(error, admission)
      })
    } catch (error) {
      throw refusedAppend(error, admission)
    }
  }

  #admit(admission: Admission): Promise<void> | undefined {
    const { transactionalId: id, support } = admission
    const shard = this.#ready(id)
    const entry = shard.entries.get(id)
    const part = isPart(entry?.txn, admission, admission)
    // Nothing is appended before it is known, whatever happens, which partitions the end must reach.
    if (part === true) return entry === undefined ? undefined : shard.whenDurable(entry)
    if (part === false && support !== 'add') throw notAdded(admission, support)
    if (part === false) {
      this.#checkTagged('Produce or TxnOffsetCommit')
      return this.#add(admission, [admission], 2)
    }
    return this.#whenEnded(shard, id, this.#deps.clock.monotonicMs() + CONCURRENT_WAIT_MS)
  }

  // ---- administration -------------------------------------------------------------------------------------------------------

  async describe(_context: RequestContext, transactionalIds: readonly string[]): Promise<readonly TransactionDescription[]> {
    return await inTurns(this.#deps.clock, transactionalIds, (id) => {
      try {
        const entry = this.#ready(id).entries.get(id)
        if (entry === undefined) throw new MoonMQError('TRANSACTIONAL_ID_MISSING', { id })
        return describeTransaction(id, entry.txn)
      } catch (error) {
        return unknownTransaction(id, asMoonMQError(error))
      }
    })
  }

  async list(_context: RequestContext, filter: TransactionFilter): Promise<readonly TransactionListing[]> {
    if (this.#shards.some(({ state }) => state === 'idle' || state === 'loading'))
      throw new MoonMQError('COORDINATOR_LOADING', { group: '*' })
    const isAny = filter.pattern === null || filter.pattern === ''
    if (!isAny) await this.#patterns.ready()
    const matches = isAny ? () => true : this.#patterns.compile(filter.pattern ?? '')
    const entries = this.#shards.flatMap((shard) => [...shard.entries.values()])
    return listTransactions(entries, filter, matches, this.#deps.clock.nowMs())
  }

  async writeMarker(_context: RequestContext, marker: ForcedMarker): Promise<readonly (MoonMQError | null)[]> {
    const { producerId, producerEpoch, committed: commit, coordinatorEpoch } = marker
    const timestampMs = this.#deps.clock.nowMs()
    return await inTurns(this.#deps.clock, marker.partitions, async (to) => {
      try {
        this.#checkForced(to, marker)
        await this.#markers.write(to, { commit, producerId, producerEpoch, coordinatorEpoch, timestampMs })
        return null
      } catch (error) {
        return asMoonMQError(error)
      }
    })
  }

  /** An epoch or a coordinator that is over ends nothing. Throws INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, TOPIC_MISSING. */
  #checkForced({ topic, partition }: TopicPartition, { producerId, producerEpoch: epoch, coordinatorEpoch }: ForcedMarker): void {
    const known = this.#deps.partitions.partition(topic, partition).log?.producer(producerId)
    if (known === undefined) return
    if (epoch < known.producerEpoch) throw new MoonMQError('INVALID_PRODUCER_EPOCH', { epoch, producerId, current: known.producerEpoch })
    if (coordinatorEpoch < known.coordinatorEpoch) {
      throw new MoonMQError('TRANSACTION_COORDINATOR_FENCED', { epoch: coordinatorEpoch, current: known.coordinatorEpoch })
    }
  }

  async coordinator(_transactionalId: string): Promise<number> {
    return this.#options.nodeId
  }

  /** Requests that wait are answered; nothing is stored any more. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const timer of this.#sweeps.values()) timer.cancel()
    for (const stop of this.#unobserve) stop()
    await Promise.all(this.#shards.map((shard) => shard.close()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function notAdded({ topic, partition }: TopicPartition, support: TransactionSupport): MoonMQError {
  if (support === 'abortable') return new MoonMQError('TRANSACTION_ABORTABLE', { topic, partition })
  return new MoonMQError('INVALID_TXN_STATE', { reason: `${topic}-${partition} was not added to the transaction` })
}

/** As Kafka tells a producer: an epoch that is over by its own name, and what passes by a name that every client tries again after. */
function refusedAppend(error: unknown, { producerId, producerEpoch, support }: Admission): MoonMQError {
  const refusal = asMoonMQError(error)
  if (refusal.code === 'PRODUCER_FENCED') {
    return new MoonMQError('INVALID_PRODUCER_EPOCH', { epoch: producerEpoch, producerId, current: 'a later one' }, refusal)
  }
  const isPassing =
    refusal.code === 'COORDINATOR_LOADING' ||
    refusal.code === 'COORDINATOR_NOT_AVAILABLE' ||
    (refusal.code === 'CONCURRENT_TRANSACTIONS' && support !== 'add')
  return isPassing ? new MoonMQError('TRANSACTION_NOT_VERIFIED', { reason: refusal.message }, refusal) : refusal
}
