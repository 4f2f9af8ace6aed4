import { asMoonMQError, isCode, MoonMQError } from '../../core/errors.ts'
import { Serial } from '../../core/serial.ts'
import type { TopicPartition } from '../../core/types.ts'
import { INTERNAL_CONTEXT, type RequestContext } from '../context.ts'
import type { ProducerSession, SequencedBatch, SequencedOptions, SequencedTicket, TransactionOwner } from '../ports.ts'
import type { PackedBatch } from '../produce/sequenced-producer.ts'
import type { NameHolder } from '../txn/txn-entry.ts'
import type { SessionDeps } from './session-deps.ts'

/** A transaction as its session sees it. */
interface OpenTransaction {
  /** Of every partition that belongs to it, durably. */
  readonly partitions: Set<string>
  /** Offsets of this or that group belong to it. */
  readonly groups: Set<string>
  /** An end was asked for whose outcome is not known. */
  decided: boolean | null
  /** The broker has ended it by itself. */
  over: 'timeout' | 'lost' | null
}

/**
 * The session of a producer name. It owns which transaction is open on its connection; the coordinator owns everything that lasts. Order
 * of becoming durable within a transaction: its partitions, the records in them, the decision, the markers, the record of the end.
 */
export class NamedSession implements ProducerSession, NameHolder {
  readonly name: string
  readonly producerId: number
  readonly producerEpoch: number
  readonly #deps: SessionDeps
  readonly #owner: TransactionOwner
  readonly #queue = new Serial()
  usedAtMs: number
  #txn: OpenTransaction | null = null
  /** Until the first transaction of this session: the end of an earlier one may be asked for again. */
  #mayRepeat: 'coordinator' | boolean | null
  #isTaken = false
  #closed = false

  private constructor(deps: SessionDeps, owner: TransactionOwner, mayRepeat: 'coordinator' | boolean | null) {
    this.#deps = deps
    this.#owner = owner
    this.name = owner.transactionalId
    this.producerId = owner.producerId
    this.producerEpoch = owner.producerEpoch
    this.#mayRepeat = mayRepeat
    this.usedAtMs = deps.clock.nowMs()
  }

  /** Fences whoever has the name. */
  static async take(deps: SessionDeps, name: string, timeoutMs: number): Promise<NamedSession> {
    const { producerId, producerEpoch, lastCommitted } = await deps.transactions.takeName(name, timeoutMs)
    const session = new NamedSession(deps, { transactionalId: name, producerId, producerEpoch }, lastCommitted)
    deps.transactions.holdName(session.#owner, session)
    return session
  }

  /** Goes on as an earlier session did. */
  static async resume(deps: SessionDeps, owner: TransactionOwner): Promise<NamedSession> {
    const session = new NamedSession(deps, owner, 'coordinator')
    await deps.transactions.resumeName(owner, session)
    return session
  }

  get inTransaction(): boolean {
    return this.#txn !== null
  }

  over(why: 'taken' | 'timeout' | 'lost'): void {
    if (why === 'taken') this.#isTaken = true
    else if (this.#txn !== null) this.#txn.over ??= why
  }

  begin(): Promise<void> {
    return this.#queue.run(() => {
      const isEnding = this.#check()
      if (this.#txn !== null) throw state('a transaction is open already')
      if (isEnding) throw state('the transaction before this one is still being ended')
      this.#mayRepeat = null
      this.#txn = { partitions: new Set(), groups: new Set(), decided: null, over: null }
    })
  }

  end(commit: boolean): Promise<void> {
    return this.#queue.run(() => this.#end(commit))
  }

  append(context: RequestContext, batches: readonly SequencedBatch[], options: SequencedOptions): Promise<SequencedTicket> {
    return this.#queue.run(() => this.#append(context, batches, options))
  }

  commitOffsets(context: RequestContext, group: string, offsets: readonly (TopicPartition & { offset: number })[]): Promise<void> {
    return this.#queue.run(() => this.#commitOffsets(context, group, offsets))
  }

  close(): Promise<void> {
    this.#closed = true
    return this.#queue.run(() => this.#close())
  }

  /** Whether an end is under way. Throws PRODUCER_FENCED. */
  #check(): boolean {
    this.usedAtMs = this.#deps.clock.nowMs()
    if (this.#isTaken) throw new MoonMQError('PRODUCER_FENCED')
    if (this.#closed) throw new MoonMQError('ABORTED')
    return this.#deps.transactions.checkName(this.#owner, this)
  }

  /** Throws unless the transaction takes more. */
  #checkOpen(txn: OpenTransaction): void {
    if (txn.over === 'timeout') throw new MoonMQError('TRANSACTION_TIMED_OUT')
    if (txn.over === 'lost') throw state('the transaction was aborted, because the log of the coordinator failed')
    if (txn.decided !== null) throw state('the transaction is being ended')
  }

  // ---- the end --------------------------------------------------------------------------------------------------------------

  async #end(commit: boolean): Promise<void> {
    this.#check()
    const txn = this.#txn
    if (txn === null) return await this.#repeat(commit)
    if (txn.over === 'timeout') {
      this.#txn = null
      throw new MoonMQError('TRANSACTION_TIMED_OUT')
    }
    if (txn.decided !== null && txn.decided !== commit) throw state(`the transaction is being ${txn.decided ? 'committed' : 'aborted'}`)
    // Nothing was stored, so there is nothing to end.
    if (txn.partitions.size === 0 && txn.groups.size === 0 && txn.over === null) {
      this.#txn = null
      return
    }
    txn.decided = commit
    try {
      await this.#deps.transactions.endWhole(this.#owner, commit)
      this.#txn = null
    } catch (error) {
      const refusal = fencedByName(error)
      // It ended the other way, or by itself, before this was asked for.
      if (refusal.code === 'INVALID_TXN_STATE') {
        this.#txn = null
        if (this.#hasTimedOut(txn)) throw new MoonMQError('TRANSACTION_TIMED_OUT', {}, refusal)
      }
      throw refusal
    }
  }

  #hasTimedOut(txn: OpenTransaction): boolean {
    return txn.over === 'timeout'
  }

  /** The end of a transaction of an earlier session, whose answer was lost. */
  async #repeat(commit: boolean): Promise<void> {
    const before = this.#mayRepeat
    if (before === commit) return
    if (before !== 'coordinator') throw state('no transaction is open')
    await this.#deps.transactions.endWhole(this.#owner, commit).catch((error: unknown) => {
      throw fencedByName(error)
    })
  }

  async #close(): Promise<void> {
    const { transactions, log } = this.#deps
    const txn = this.#txn
    this.#txn = null
    const isOpen = txn !== null && txn.over === null && txn.decided === null && txn.partitions.size + txn.groups.size > 0
    if (isOpen && !this.#isTaken) {
      try {
        await transactions.end(INTERNAL_CONTEXT, this.#owner, false, false)
      } catch (error) {
        // Its timeout, or the next session of the name, aborts it.
        log.debug('transaction.not_aborted', `the transaction of "${this.name}" stays open for now: ${asMoonMQError(error).message}`)
      }
    }
    transactions.releaseName(this.#owner, this)
  }

  // ---- what belongs to it ---------------------------------------------------------------------------------------------------

  async #append(context: RequestContext, batches: readonly SequencedBatch[], options: SequencedOptions): Promise<SequencedTicket> {
    this.#check()
    const { sequenced, transactions } = this.#deps
    const txn = this.#txn
    if (txn !== null) this.#checkOpen(txn)
    const packed = await sequenced.pack(context, batches, options)
    if (txn !== null) await this.#join(context, txn, packed)
    const owner = this.#owner
    const admit = (at: TopicPartition) => {
      transactions.checkName(owner, this)
      return txn === null ? undefined : transactions.admit({ ...owner, ...at, support: 'verify' })
    }
    return await sequenced.append(context, { ...owner, transactional: txn !== null, admit }, packed, options)
  }

  /** Partitions become part of the transaction, durably, before records of it are in them. */
  async #join(context: RequestContext, txn: OpenTransaction, packed: readonly PackedBatch[]): Promise<void> {
    const fresh: TopicPartition[] = []
    for (const { source, error } of packed) {
      if (error === null && !txn.partitions.has(idOf(source))) fresh.push({ topic: source.topic, partition: source.partition })
    }
    if (fresh.length === 0) return
    await this.#enlist(txn, () => this.#deps.transactions.addPartitions(context, this.#owner, fresh))
    for (const partition of fresh) txn.partitions.add(idOf(partition))
  }

  async #commitOffsets(context: RequestContext, group: string, offsets: readonly (TopicPartition & { offset: number })[]): Promise<void> {
    this.#check()
    const txn = this.#txn
    if (txn === null) throw state('no transaction is open')
    this.#checkOpen(txn)
    const { topics, transactions } = this.#deps
    const known = offsets.filter(({ topic, partition }) => topics.find(topic)?.partitions[partition] !== undefined)
    if (known.length === 0) return
    if (!txn.groups.has(group)) {
      await this.#enlist(txn, () => transactions.addOffsets(context, this.#owner, group))
      txn.groups.add(group)
    }
    const values = known.map(({ topic, partition, offset }) => ({ topic, partition, value: { offset, leaderEpoch: -1, metadata: '' } }))
    const request = { group, generation: -1, memberId: '', instanceId: null, offsets: values, durable: true }
    const outcomes = await transactions.commitOffsets(context, this.#owner, request, 'verify')
    for (const error of outcomes) if (error !== null && !isCode(error, 'TOPIC_MISSING')) throw this.#why(txn, fencedByName(error))
  }

  /** What was added to a transaction that ended meanwhile has begun another one, which must not stay. */
  async #enlist(txn: OpenTransaction, add: () => Promise<void>): Promise<void> {
    try {
      await add()
    } catch (error) {
      throw this.#why(txn, fencedByName(error))
    }
    if (txn.over === null && !this.#isTaken) return
    try {
      await this.#deps.transactions.end(INTERNAL_CONTEXT, this.#owner, false, false)
    } catch (error) {
      this.#deps.log.debug('transaction.not_aborted', `a transaction of "${this.name}" stays open for now: ${asMoonMQError(error).message}`)
    }
    if (this.#isTaken) throw new MoonMQError('PRODUCER_FENCED')
    this.#checkOpen(txn)
  }

  #why(txn: OpenTransaction, error: MoonMQError): MoonMQError {
    return txn.over === 'timeout' ? new MoonMQError('TRANSACTION_TIMED_OUT', {}, error) : error
  }
}

function idOf({ topic, partition }: TopicPartition): string {
  return `${topic}-${partition}`
}

function state(reason: string): MoonMQError {
  return new MoonMQError('INVALID_TXN_STATE', { reason })
}

/** A name that was forgotten, or has another id by now, is another session's. */
function fencedByName(error: unknown): MoonMQError {
  const refusal = asMoonMQError(error)
  return refusal.code === 'PRODUCER_ID_MAPPING' ? new MoonMQError('PRODUCER_FENCED', {}, refusal) : refusal
}
