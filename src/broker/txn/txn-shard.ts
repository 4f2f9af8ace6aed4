import { asMoonMQError, isCode, MoonMQError } from '../../core/errors.ts'
import type { Failpoint } from '../../core/failpoint.ts'
import type { EndTxnMarker } from '../../record/control.ts'
import { CoordinatorShard, type CoordinatorShardDeps, type ShardLoad, type ShardState } from '../coordination/coordinator-shard.ts'
import type { Markers } from './markers.ts'
import { abandon, complete } from './rules.ts'
import { isEnding, isTwoPhase, listPartitions, type Transaction } from './transaction.ts'
import { TxnEntry } from './txn-entry.ts'
import { decodeTxnRecord, txnHeaders, txnKey, txnValue } from './txn-records.ts'

export interface TxnShardDeps extends CoordinatorShardDeps {
  readonly markers: Markers
  readonly failpoint: Failpoint
  /** Version of the record that is written. */
  readonly recordVersion: () => 0 | 1
  /** Whether a producer goes on after the broker has aborted its transaction. */
  readonly goesOnAfterAbort: () => boolean
  readonly counted: (event: 'committed' | 'aborted' | 'timedOut' | 'expired' | 'nameExpired') => void
}

/**
 * The transactional ids whose records live in one partition of `__transaction_state`. Order of becoming durable: partitions of a
 * transaction before records in them, the decision before its first marker, every marker before the record that says so. Whatever step
 * a crash cuts, loading finds the decision and writes all markers again, or finds none and the timeout aborts.
 */
export class TxnShard {
  readonly entries = new Map<string, TxnEntry>()
  readonly #deps: TxnShardDeps
  readonly #shard: CoordinatorShard
  /** Markers of entries that are held no longer are not tried again. */
  #dropped = new AbortController()

  constructor(deps: TxnShardDeps, partition: number) {
    this.#deps = deps
    this.#shard = new CoordinatorShard(deps, partition, { kind: 'transaction', load: () => this.#load(), drop: () => this.#drop() })
  }

  get state(): ShardState {
    return this.#shard.state
  }

  get partition(): number {
    return this.#shard.partition
  }

  checkReady(id: string): void {
    this.#shard.checkReady(id)
  }

  whenWritable(): Promise<void> | undefined {
    return this.#shard.whenWritable()
  }

  load(): Promise<void> {
    return this.#shard.load()
  }

  /** Undefined when everything of the entry is durable; else resolves when it is, or rejects with COORDINATOR_NOT_AVAILABLE. */
  whenDurable(entry: TxnEntry): Promise<void> | undefined {
    return this.#shard.whenDurable(entry.id, entry.endOffset)
  }

  #load(): ShardLoad {
    const found = new Map<string, Transaction>()
    return {
      record(key, value, _timestampMs, _transaction, _offset, headers) {
        const record = decodeTxnRecord(key, value, headers)
        if (record === null) return
        if (record.txn === null || record.txn.state === 'Dead') found.delete(record.transactionalId)
        else found.set(record.transactionalId, record.txn)
      },
      ended() {},
      prepare() {},
      loaded: () => {
        for (const [id, txn] of found) {
          const entry = new TxnEntry(id, txn, 0)
          this.entries.set(id, entry)
          if (txn.isNative && txn.state === 'Ongoing') this.#abandon(entry)
          else this.#follow(entry)
        }
        return this.entries.size
      },
    }
  }

  /** The connection of a native transaction went with the broker that served it. Throws COORDINATOR_NOT_AVAILABLE. */
  #abandon(entry: TxnEntry): void {
    this.#deps.log.info('transaction.abandoned', `transaction "${entry.id}" was open when its connection was lost and is aborted`, {
      transactionalId: entry.id,
    })
    this.change(entry.id, abandon(entry.txn, { goesOnAfterAbort: false }, this.#deps.clock.nowMs()))
  }

  #drop(): void {
    this.#dropped.abort()
    this.#dropped = new AbortController()
    const entries = [...this.entries.values()]
    this.entries.clear()
    for (const entry of entries) entry.dropped(new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: entry.id }))
  }

  // ---- changes --------------------------------------------------------------------------------------------------------------

  /** Stores what becomes of the id and goes on with it: a decision is carried out, an open transaction gets its timeout. */
  change(id: string, next: Transaction): TxnEntry {
    const endOffset = this.#append(id, txnValue(next, this.#deps.recordVersion()), next)
    let entry = this.entries.get(id)
    if (entry === undefined) {
      entry = new TxnEntry(id, next, endOffset)
      this.entries.set(id, entry)
    }
    if (entry.txn.producerId !== next.producerId || entry.txn.producerEpoch !== next.producerEpoch) entry.holdBy(null)
    entry.txn = next
    entry.endOffset = endOffset
    this.#follow(entry)
    return entry
  }

  #append(id: string, value: Buffer | null, txn: Transaction | null): number {
    return this.#shard.append(id, [{ key: txnKey(id), value, timestampMs: this.#deps.clock.nowMs(), headers: txnHeaders(txn) }])
  }

  /**
   * Ids without a transaction that nobody used since then: Kafka's transactional ids, or the names of native producers. A name that was
   * used without a transaction is stored again with that time. Never throws: a failed shard finds them again.
   */
  expire(usedBeforeMs: number, which: 'kafka' | 'native'): void {
    for (const entry of [...this.entries.values()]) {
      const { txn } = entry
      if (txn.isNative !== (which === 'native') || txn.state === 'Ongoing' || isEnding(txn) || txn.updatedAtMs > usedBeforeMs) continue
      const usedAtMs = Math.max(entry.usedAtMs, entry.holder?.usedAtMs ?? 0)
      try {
        if (usedAtMs > usedBeforeMs) {
          this.change(entry.id, { ...txn, updatedAtMs: usedAtMs })
          continue
        }
        this.#append(entry.id, null, null)
      } catch (error) {
        this.#deps.log.warn('transaction.not_expired', `transactional ids stay for now: ${asMoonMQError(error).message}`)
        return
      }
      this.entries.delete(entry.id)
      entry.holdBy(null)
      this.#deps.counted(which === 'native' ? 'nameExpired' : 'expired')
      this.#deps.log.info('transaction.expired', `transactional id "${entry.id}" was not used for so long that it is forgotten`)
    }
  }

  #follow(entry: TxnEntry): void {
    const { txn } = entry
    entry.disarm()
    if (isEnding(txn)) {
      void this.#end(entry, txn)
      return
    }
    entry.ended()
    if (txn.state === 'Ongoing' && !isTwoPhase(txn)) {
      entry.arm(this.#deps.clock, txn.startedAtMs + txn.timeoutMs - this.#deps.clock.nowMs(), () => this.#timedOut(entry))
    }
  }

  #timedOut(entry: TxnEntry): void {
    const { clock, log } = this.#deps
    const { txn } = entry
    if (txn.state !== 'Ongoing') return
    const leftMs = txn.startedAtMs + txn.timeoutMs - clock.nowMs()
    if (leftMs > 0) {
      entry.arm(clock, leftMs, () => this.#timedOut(entry))
      return
    }
    try {
      entry.holder?.over('timeout')
      this.change(entry.id, abandon(txn, { goesOnAfterAbort: this.#deps.goesOnAfterAbort() }, clock.nowMs()))
    } catch (error) {
      // The shard has failed; it finds the transaction again when it loads.
      log.warn('transaction.not_aborted', `transaction "${entry.id}" stays open for now: ${asMoonMQError(error).message}`)
      return
    }
    this.#deps.counted('timedOut')
    log.info('transaction.timed_out', `transaction "${entry.id}" was open for more than ${txn.timeoutMs} ms and is aborted`, {
      transactionalId: entry.id,
      producerId: txn.producerId,
    })
  }

  // ---- the end of a transaction ---------------------------------------------------------------------------------------------

  /** Carries out a decision. Never rejects: a shard that fails meanwhile finds it again when it loads. */
  async #end(entry: TxnEntry, txn: Transaction): Promise<void> {
    const { clock, failpoint, log, counted } = this.#deps
    const { signal } = this.#dropped
    try {
      await this.whenDurable(entry)
      failpoint('txn.decided')
      await this.#writeMarkers(txn, signal)
      failpoint('txn.markers-written')
      if (this.entries.get(entry.id) !== entry || entry.txn !== txn) return
      this.change(entry.id, complete(txn, clock.nowMs()))
      counted(txn.state === 'PrepareCommit' ? 'committed' : 'aborted')
      await this.whenDurable(entry)
      failpoint('txn.completed')
    } catch (error) {
      if (signal.aborted || isCode(error, 'ABORTED')) return
      this.#shard.fail(error)
      log.debug('transaction.end_delayed', `the end of transaction "${entry.id}" is carried out later: ${asMoonMQError(error).message}`)
    }
  }

  async #writeMarkers(txn: Transaction, signal: AbortSignal): Promise<void> {
    const { clock, markers, topic, failpoint } = this.#deps
    const marker: EndTxnMarker = {
      commit: txn.state === 'PrepareCommit',
      producerId: txn.producerId,
      producerEpoch: txn.producerEpoch,
      coordinatorEpoch: topic.leaderEpoch(this.partition),
      timestampMs: clock.nowMs(),
    }
    const write = async (to: { topic: string; partition: number }) => {
      await markers.writeUntilDone(to, marker, signal)
      failpoint('txn.marker-written')
    }
    await Promise.all(listPartitions(txn.partitions).map(write))
  }

  close(): Promise<void> {
    return this.#shard.close()
  }
}
