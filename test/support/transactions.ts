import assert from 'node:assert/strict'
import type { Broker } from '../../src/broker/broker.ts'
import type { TransactionOwner } from '../../src/broker/ports.ts'
import { isTransactional, readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { readRecords, recordsSection } from '../../src/record/record.ts'
import { readEndTransaction } from '../../src/storage/producer-state.ts'
import { contextOf } from './fake-broker.ts'

/** How a client speaks: partitions added before they are written to, or by being written to, with an epoch for each transaction. */
export type Flow = 'plain' | 'bumping'

/** A transactional producer at the ports of the broker: it keeps its identity and its sequences, and tries nothing again. */
export class TestProducer {
  readonly id: string
  readonly flow: Flow
  readonly #broker: Broker
  #owner: TransactionOwner
  readonly #sequences = new Map<string, number>()

  private constructor(broker: Broker, id: string, flow: Flow, owner: TransactionOwner) {
    this.#broker = broker
    this.id = id
    this.flow = flow
    this.#owner = owner
  }

  static async begin(broker: Broker, id: string, flow: Flow, timeoutMs = 60_000): Promise<TestProducer> {
    const request = { transactionalId: id, timeoutMs, expected: null, twoPhaseCommit: false, keepPrepared: false }
    const { producerId, producerEpoch } = await broker.transactions.initProducer(contextOf(), request)
    return new TestProducer(broker, id, flow, { transactionalId: id, producerId, producerEpoch })
  }

  get owner(): TransactionOwner {
    return this.#owner
  }

  /** Writes one record; the offset that it got. Throws what refuses it. */
  async write(topic: string, partition: number, value: string, valueBytes = 0): Promise<number> {
    const { transactions } = this.#broker
    if (this.flow === 'plain') await transactions.addPartitions(contextOf(), this.#owner, [{ topic, partition }])
    return await this.append(topic, partition, value, valueBytes)
  }

  /** The append alone. */
  async append(topic: string, partition: number, value: string, valueBytes = 0): Promise<number> {
    const { producerId, producerEpoch, transactionalId } = this.#owner
    const place = `${topic}-${partition}`
    const baseSequence = this.#sequences.get(place) ?? 0
    const record = { key: Buffer.from(value), value: Buffer.from(value.padEnd(valueBytes)), timestampMs: Date.now() }
    const batch = buildBatch([record], { producerId, producerEpoch, baseSequence, transactional: true })
    const support = this.flow === 'plain' ? 'verify' : 'add'
    const partitions = [{ topic, partition, batch }]
    const ticket = await this.#broker.produce.append(contextOf(), { acks: 'all', timeoutMs: 10_000, transactionalId, support, partitions })
    const [outcome] = await ticket.settled()
    if (outcome === undefined) throw new Error('there is no outcome')
    if (outcome.error !== null) throw outcome.error
    this.#sequences.set(place, baseSequence + 1)
    return outcome.baseOffset
  }

  /** Throws what refuses it. */
  async commitOffset(group: string, topic: string, partition: number, offset: number): Promise<void> {
    const { transactions } = this.#broker
    if (this.flow === 'plain') await transactions.addOffsets(contextOf(), this.#owner, group)
    const offsets = [{ topic, partition, value: { offset, leaderEpoch: -1, metadata: '' } }]
    const request = { group, generation: -1, memberId: '', instanceId: null, offsets, durable: true }
    const support = this.flow === 'plain' ? 'verify' : 'add'
    const [refusal] = await transactions.commitOffsets(contextOf(), this.#owner, request, support)
    if (refusal) throw refusal
  }

  async end(commit: boolean): Promise<void> {
    const bumps = this.flow === 'bumping'
    const { producerId, producerEpoch } = await this.#broker.transactions.end(contextOf(), this.#owner, commit, bumps)
    if (!bumps) return
    this.#owner = { transactionalId: this.id, producerId, producerEpoch }
    this.#sequences.clear()
  }
}

/** Waits until no transaction is being ended. */
export async function whenSettled(broker: Broker): Promise<void> {
  for (;;) {
    const ending = await broker.transactions.list(contextOf(), {
      states: ['PrepareCommit', 'PrepareAbort'],
      producerIds: [],
      minDurationMs: -1,
      pattern: null,
    })
    if (ending.length === 0) return
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The values of a partition as a reader sees them. */
export async function valuesOf(
  broker: Broker,
  topic: string,
  partition: number,
  isolation: 'read_committed' | 'read_uncommitted' = 'read_committed',
): Promise<string[]> {
  const values: string[] = []
  for (let offset = 0; ; ) {
    const read = await broker.records.read(contextOf(), {
      topic,
      partition,
      offset,
      isolation,
      maxRecords: 1000,
      maxBytes: 1024 * 1024,
      maxWaitMs: 0,
    })
    for (const { value } of read.records) values.push(value?.toString().trimEnd() ?? '')
    const { nextOffset } = read
    read.release()
    if (nextOffset === offset) return values
    offset = nextOffset
  }
}

/** The offset that a group has committed, or null. */
export async function offsetOf(broker: Broker, group: string, topic: string, partition: number): Promise<number | null> {
  const [found] = await broker.groups.committed(contextOf(), { group, topics: [{ topic, partitions: [partition] }], requireStable: true })
  assert.notEqual(found?.unstable, true, 'a transaction that is over still holds an offset back')
  return found?.value?.offset ?? null
}

/**
 * One fetch with read committed, filtered as a client does it: by the aborted transactions of the answer and the markers in it. Checks that
 * nothing at or above the last stable offset came.
 */
export async function fetchCommitted(
  broker: Broker,
  topic: string,
  partition: number,
  fetchOffset: number,
  maxBytes: number,
): Promise<Pick<CommittedRecords, 'records' | 'nextOffset'>> {
  const limits = { maxBytes, maxWaitMs: 0, minBytes: 0, isolation: 'read_committed' as const }
  const wanted = { topic, partition, fetchOffset, maxBytes, currentLeaderEpoch: -1, lastFetchedEpoch: -1 }
  const fetched = await broker.fetch.fetch(contextOf(), { ...limits, partitions: [wanted] })
  try {
    const [answer] = fetched.partitions
    assert.ok(answer !== undefined && answer.error === null, answer?.error?.message)
    const bytes = Buffer.concat(answer.read?.buffers ?? [])
    const { records, nextOffset, lastBase } = committedRecords(bytes, answer.aborted ?? [], fetchOffset)
    assert.ok(lastBase < answer.lastStableOffset, `offset ${lastBase} is not stable`)
    return { records, nextOffset }
  } finally {
    fetched.release()
  }
}

export interface CommittedRecords {
  readonly records: readonly { readonly offset: number; readonly value: string }[]
  readonly nextOffset: number
  /** First offset of the last batch, −1 when there is none. */
  readonly lastBase: number
}

/** What a client with read committed makes of an answer: hides the batches of aborted transactions up to their markers. */
export function committedRecords(
  bytes: Buffer,
  abortedTransactions: readonly { readonly producerId: number; readonly firstOffset: number }[],
  fetchOffset: number,
): CommittedRecords {
  const aborted = [...abortedTransactions].sort((left, right) => left.firstOffset - right.firstOffset)
  const hidden = new Set<number>()
  const records: { offset: number; value: string }[] = []
  let nextOffset = fetchOffset
  let lastBase = -1
  for (let position = 0; position < bytes.length; ) {
    const header = readBatchHeader(bytes, position)
    const { producerId, baseOffset, lastOffsetDelta } = header
    for (const { producerId: id, firstOffset } of aborted.splice(0)) {
      if (firstOffset <= baseOffset + lastOffsetDelta) hidden.add(id)
      else aborted.push({ producerId: id, firstOffset })
    }
    const marker = readEndTransaction(bytes, position, header)
    if (marker !== null && !marker.committed) hidden.delete(producerId)
    if (marker === null && !(isTransactional(header) && hidden.has(producerId))) {
      for (const { offset, value } of readRecords(recordsSection(bytes, position, header), header)) {
        if (offset >= fetchOffset) records.push({ offset, value: value?.toString().trimEnd() ?? '' })
      }
    }
    lastBase = baseOffset
    nextOffset = baseOffset + lastOffsetDelta + 1
    position += header.sizeBytes
  }
  return { records, nextOffset, lastBase }
}
