import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../../../../src/core/random.ts'
import { ATTRIBUTE } from '../../../../src/record/batch.ts'
import type { PartitionLog } from '../../../../src/storage/partition-log.ts'
import { validateLogs } from '../../../../src/storage/validate.ts'
import {
  CODECS,
  COMPACTED,
  compact,
  endTransaction,
  type KeyedRecord,
  MovableClock,
  put,
  readBatches,
  roll,
} from '../../../support/compaction.ts'
import { byLane, seedOr } from '../../../support/lane.ts'
import { DATA_FOLDER, openHarness, TOPIC_ID } from '../../../support/storage.ts'

const SEEDS = byLane({ quick: 5, ci: 40, full: 400 })
const RETENTION_MS = 10_000

interface ModelRecord {
  readonly offset: number
  readonly key: string
  readonly value: string | null
  readonly timestampMs: number
  /** Undefined: it belongs to no transaction. */
  readonly transaction: Transaction | undefined
}

interface Transaction {
  readonly producerId: number
  state: 'open' | 'committed' | 'aborted'
}

/** What was written, as a plain list; what must be read from it is told by a Map. */
class Model {
  readonly records: ModelRecord[] = []
  readonly byOffset = new Map<number, ModelRecord>()
  readonly open = new Map<number, Transaction>()
  readonly sequences = new Map<number, number>()

  add(record: ModelRecord): void {
    this.records.push(record)
    this.byOffset.set(record.offset, record)
  }

  /** The last record of each key that a reader of committed records sees, below `end`. */
  latest(end: number): Map<string, ModelRecord> {
    const latest = new Map<string, ModelRecord>()
    for (const record of this.records) {
      if (record.offset < end && (record.transaction?.state ?? 'committed') === 'committed') latest.set(record.key, record)
    }
    return latest
  }
}

class Life {
  readonly random: SeededRandom
  readonly clock = new MovableClock()
  readonly model = new Model()
  log!: PartitionLog
  /** Offset of a tombstone → when it was first below what was compacted. */
  readonly cleanedAtMs = new Map<number, number>()

  constructor(seed: number) {
    this.random = new SeededRandom(seed)
  }

  write(): void {
    const { random, model, log } = this
    const kind = random.below(10)
    const producerId = kind < 4 ? -1 : kind < 6 ? 100 + random.below(2) : 1 + random.below(3)
    const isTransactional = producerId > 0 && producerId < 100
    let transaction = model.open.get(producerId)
    if (isTransactional && transaction === undefined) {
      transaction = { producerId, state: 'open' }
      model.open.set(producerId, transaction)
    }
    const records: KeyedRecord[] = Array.from({ length: 1 + random.below(6) }, () => ({
      key: `key ${random.below(12)}`,
      value: random.below(5) === 0 ? null : '.'.repeat(random.below(60)) + random.below(1000),
      timestampMs: this.clock.wallMs - random.below(100_000),
    }))
    const baseSequence = producerId < 0 ? -1 : (model.sequences.get(producerId) ?? 0)
    if (producerId >= 0) model.sequences.set(producerId, baseSequence + records.length)
    const offset = put(log, records, {
      codec: random.below(5),
      compress: (id, bytes) => CODECS.deflate(id, bytes),
      ...(producerId < 0 ? {} : { producerId, producerEpoch: 0, baseSequence, transactional: isTransactional }),
    })
    for (const [index, { key, value, timestampMs = 0 }] of records.entries()) {
      model.add({ offset: offset + index, key: key as string, value, timestampMs, transaction })
    }
  }

  end(): void {
    const [producerId] = [...this.model.open.keys()].slice(this.random.below(3))
    if (producerId === undefined) return
    const transaction = this.model.open.get(producerId) as Transaction
    const isCommit = this.random.below(2) === 0
    endTransaction(this.log, producerId, isCommit)
    transaction.state = isCommit ? 'committed' : 'aborted'
    this.model.open.delete(producerId)
  }

  async check(): Promise<void> {
    const { log, model } = this
    const end = log.compaction.note.cleanedOffset
    const batches = await readBatches(log, 0, 1 + this.random.below(3000))
    const read = new Map<number, { key: string | null; value: string | null; timestampMs: number }>()
    for (const batch of batches) {
      if ((batch.attributes & ATTRIBUTE.control) !== 0) continue
      for (const record of batch.records) if (record.key !== '-filler-') read.set(record.offset, record)
    }
    this.#checkRecords(read, end)
    this.#checkSequences(batches)
    const hidden = log.abortedTransactions(0, log.logEndOffset)
    for (const record of model.records) {
      if (record.transaction?.state !== 'aborted' || !read.has(record.offset)) continue
      const { producerId } = record.transaction
      assert.ok(
        hidden.some((each) => each.producerId === producerId && each.firstOffset <= record.offset),
        `aborted ${record.offset} is hidden`,
      )
    }
  }

  #checkRecords(read: ReadonlyMap<number, { key: string | null; value: string | null; timestampMs: number }>, end: number): void {
    const { model } = this
    for (const [offset, record] of read) {
      const written = model.byOffset.get(offset)
      assert.deepEqual(
        [record.key, record.value, record.timestampMs],
        [written?.key, written?.value, written?.timestampMs],
        `offset ${offset}`,
      )
    }
    const latest = model.latest(end)
    for (const record of model.records) {
      const isRead = read.has(record.offset)
      if (record.offset >= end) assert.ok(isRead, `${record.offset} is not compacted yet`)
      else if (latest.get(record.key) !== record) assert.ok(!isRead, `${record.offset} is out of date, or aborted`)
      else if (record.value !== null) assert.ok(isRead, `${record.offset} is the latest of ${record.key}`)
      else this.#checkTombstone(record.offset, isRead)
    }
  }

  /** It stays for its time from the pass that met it first. */
  #checkTombstone(offset: number, isRead: boolean): void {
    const cleanedMs = this.cleanedAtMs.get(offset)
    if (cleanedMs === undefined) this.cleanedAtMs.set(offset, this.clock.wallMs)
    const ageMs = this.clock.wallMs - (cleanedMs ?? this.clock.wallMs)
    assert.equal(isRead, ageMs < RETENTION_MS, `the tombstone at ${offset}, ${ageMs} ms after it was met`)
  }

  #checkSequences(batches: readonly { producerId: number; baseSequence: number; baseOffset: number; lastOffset: number }[]): void {
    for (const [producerId, next] of this.model.sequences) {
      const last = batches.filter((batch) => batch.producerId === producerId && batch.baseSequence >= 0).at(-1)
      assert.equal(last === undefined ? -1 : last.baseSequence + last.lastOffset - last.baseOffset + 1, next, `producer ${producerId}`)
    }
  }
}

for (let seed = 1; seed <= SEEDS; seed++) {
  test(`random keys, tombstones, transactions and codecs against a Map, seed ${seedOr(seed)}`, async () => {
    const life = new Life(seedOr(seed))
    const { random, clock } = life
    const config = { ...COMPACTED, deleteRetentionMs: RETENTION_MS, segmentBytes: 600 + random.below(2000) }
    let harness = await openHarness({ clock, config, manager: { nextLeaderEpoch: async () => 1 } })
    life.log = harness.log
    for (let round = 0; round < 6; round++) {
      for (let step = 0; step < 40; step++) {
        if (random.below(5) === 0) life.end()
        else life.write()
      }
      await roll(life.log)
      await compact(harness.manager, { clock, keyBudgetBytes: random.below(2) === 0 ? 96 : 1024 * 1024 })
      await life.check()
      clock.wallMs += random.below(8000)
      await compact(harness.manager, { clock })
      await life.check()
      if (random.below(3) > 0) continue
      await harness.manager.close()
      const known = { topic: 't', partition: 0, topicId: TOPIC_ID, leaderEpoch: 100 }
      const { problems } = await validateLogs({ disk: harness.disk, clock, codecs: CODECS }, { folder: DATA_FOLDER, known: [known] })
      assert.deepEqual(
        problems.filter(({ file }) => file !== 'meta.properties'),
        [],
      )
      harness = await openHarness({ disk: harness.disk, clock, config })
      life.log = harness.log
      await life.check()
    }
    while (life.model.open.size > 0) life.end()
    clock.wallMs += RETENTION_MS
    await roll(life.log)
    await compact(harness.manager, { clock })
    await life.check()
    await harness.manager.close()
  })
}
