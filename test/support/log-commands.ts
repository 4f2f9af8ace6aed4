import assert from 'node:assert/strict'
import fc from 'fast-check'
import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { NO_FAILPOINT } from '../../src/core/failpoint.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { CODEC, type Codecs } from '../../src/record/compression.ts'
import { RecordCursor } from '../../src/record/record.ts'
import { Cleaner } from '../../src/storage/compaction/cleaner.ts'
import { JOURNAL_BLOCK_BYTES } from '../../src/storage/journal-format.ts'
import type { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { Retention } from '../../src/storage/retention-pass.ts'
import type { LogConfig } from '../../src/storage/types.ts'
import { LOG_CONFIG } from './log-config.ts'
import { LogModel, type ModelRecord } from './log-model.ts'
import { DATA_FOLDER, openManager, TOPIC_ID } from './storage.ts'

const machine = new SystemClock()
/** Turns of the loop without anything to do, after which only the next timer can help. */
const STUCK_TURNS = 20
/** More than compaction keeps of a key. */
const KEY_BYTES = 48

/** The log under test: a manager on a disk in memory, with one partition, on a clock that moves only when nothing else can happen. */
export class LogUnderTest {
  readonly clock = new VirtualClock()
  readonly codecs: Codecs
  readonly #random: SeededRandom
  disk = new MemoryDisk({ clock: this.clock })
  #manager: LogManager | null = null
  #log: PartitionLog | null = null
  #boot = 0
  #epoch = 0

  constructor(codecs: Codecs, seed: number) {
    this.codecs = codecs
    this.#random = new SeededRandom(seed)
  }

  get log(): PartitionLog {
    assert.ok(this.#log !== null)
    return this.#log
  }

  get epoch(): number {
    return this.#epoch
  }

  async start(config: LogConfig): Promise<void> {
    const manager = {
      // Two lives in three use the journal for one log alone, and its areas are small, so that every step of it comes often.
      groupCommit: { journalFrom: this.#random.below(3) === 0 ? 8 : 1 },
      journalAreaBytes: (4 + this.#random.below(4)) * JOURNAL_BLOCK_BYTES,
    }
    const options = { clock: this.clock, boot: `boot-${this.#boot}`, manager }
    this.#manager = await this.drive(openManager(this.disk, options))
    if (!this.#manager.wasClean) this.#epoch++
    const request = { topic: 't', partition: 0, topicId: TOPIC_ID, config, maxEpoch: this.#epoch }
    this.#log = await this.drive(this.#manager.open(request))
  }

  async stop(how: 'stop' | 'kill' | 'power'): Promise<void> {
    const manager = this.#manager
    this.#manager = null
    this.#log = null
    if (how === 'stop') await this.drive(manager?.close() ?? Promise.resolve())
    if (how === 'power') {
      this.#boot++
      this.disk = this.disk.powerCut(this.#random)
    } else this.disk = this.disk.processKilled()
  }

  checkpoint(): Promise<void> {
    return this.drive(this.manager.checkpoint())
  }

  get manager(): LogManager {
    assert.ok(this.#manager !== null)
    return this.#manager
  }

  /** One pass of retention over everything. */
  async retain(): Promise<void> {
    const { clock, disk, manager } = this
    const deps = { disk, clock, log: SILENT, metrics: NO_METRICS, failpoint: NO_FAILPOINT, logs: manager }
    const retention = await Retention.open(deps, { dataFolder: DATA_FOLDER, intervalMs: () => 0 })
    await retention.pass(new AbortController().signal)
  }

  /** Compaction of everything that needs it. */
  async compact(keys: number): Promise<void> {
    const { clock, manager } = this
    const cleaner = new Cleaner({ logs: manager, clock, log: SILENT, metrics: NO_METRICS }, () => ({
      isEnabled: true,
      keyBudgetBytes: keys * KEY_BYTES,
      maxBytesPerSecond: Number.POSITIVE_INFINITY,
    }))
    await cleaner.run(new AbortController().signal)
  }

  /** The result of `work`, with what was deferred run and timers fired as it needs them. */
  async drive<T>(work: Promise<T>): Promise<T> {
    let isDone = false
    const finished = () => {
      isDone = true
    }
    work.then(finished, finished)
    for (let idle = 0; !isDone; ) {
      await new Promise<void>((resolve) => machine.defer(resolve))
      if (this.clock.runDeferred()) idle = 0
      else if (++idle > STUCK_TURNS) {
        assert.ok(this.clock.fireNext(), 'it waits for something that never comes')
        idle = 0
      }
    }
    return work
  }

  /** Begins `work` and lets so many turns of the loop pass, for a crash in the middle of it. */
  async begin(work: Promise<unknown>, turns: number): Promise<void> {
    // It meets the end of its process, or is over before.
    work.catch(() => {})
    for (let turn = 0; turn < turns; turn++) {
      await new Promise<void>((resolve) => machine.defer(resolve))
      this.clock.runDeferred()
    }
  }

  /** Every record from the log's start to `end`, as a consumer sees them. */
  async readAll(end: number): Promise<ModelRecord[]> {
    const { log } = this
    const found: ModelRecord[] = []
    let next = log.logStartOffset
    while (next < end) {
      const request = { offset: next, maxBytes: 500, minOneBatch: true, limitOffset: end }
      const read = await this.drive(Promise.resolve(log.read(request)))
      for (const bytes of read.buffers) this.#decode(Buffer.from(bytes), log.logStartOffset, found)
      assert.ok(read.nextOffset > next, `nothing was read at ${next}, below ${end}`)
      next = read.nextOffset
      read.release()
    }
    return found
  }

  #decode(bytes: Buffer, from: number, into: ModelRecord[]): void {
    for (let at = 0; at < bytes.length; ) {
      const header = readBatchHeader(bytes, at, bytes.length)
      const section = this.codecs.inflateRecords(bytes, at, header)
      const cursor = new RecordCursor(section, header)
      while (cursor.next()) {
        const { offset, timestampMs, keyStart, keySize, valueStart, valueSize } = cursor
        const key = section.toString('latin1', keyStart, keyStart + keySize)
        const value = valueSize < 0 ? null : section.toString('latin1', valueStart, valueStart + valueSize)
        if (offset >= from) into.push({ offset, key, value, timestampMs })
      }
      at += header.sizeBytes
    }
  }
}

type Command = fc.AsyncCommand<LogModel, LogUnderTest, true>

/** What every command ends with: the log holds what the model says. */
async function expectSame(model: LogModel, real: LogUnderTest): Promise<void> {
  const { log } = real
  assert.equal(log.logStartOffset, model.start)
  assert.equal(log.logEndOffset, model.end)
  assert.ok(log.highWatermark >= model.acknowledged)
  // Records that wait to be written become visible while others are read.
  const { highWatermark } = log
  model.expectRecords(await real.readAll(highWatermark), highWatermark)
}

function command(text: string, run: (model: LogModel, real: LogUnderTest) => Promise<void>): Command {
  return { check: async () => true, run, toString: () => text }
}

interface NewRecord {
  readonly key: string
  readonly size: number
}

/** One batch. A size of 0 deletes the key. `isAwaited`: the command waits until it is durable. */
function append(records: readonly NewRecord[], codec: number, isAwaited: boolean): Command {
  const text = `append(${records.map(({ key, size }) => `${key}:${size}`).join(' ')}, codec ${codec}${isAwaited ? '' : ', not awaited'})`
  return command(text, async (model, real) => {
    const timestampMs = real.clock.nowMs()
    const added = records.map(({ key, size }, index) => {
      const offset = model.end + index
      return { offset, key, value: size === 0 ? null : `${offset}:`.padEnd(size, 'v'), timestampMs }
    })
    const compress = (id: number, bytes: Buffer) => real.codecs.deflate(id, bytes)
    const batch = buildBatch(
      added.map((record) => ({
        key: Buffer.from(record.key),
        value: record.value === null ? null : Buffer.from(record.value),
        timestampMs,
      })),
      codec === CODEC.none ? {} : { codec, compress },
    )
    const appended = real.log.append(batch, readBatchHeader(batch), { leaderEpoch: real.epoch })
    assert.equal(appended.baseOffset, model.end)
    model.append(added)
    if (!isAwaited) return
    await real.drive(real.log.whenDurable(appended.lastOffset + 1))
    model.acknowledged = model.end
    model.isLossy ||= model.config.flushMessages !== 1
    await expectSame(model, real)
  })
}

/** DeleteRecords: the start moves at most to the high watermark. */
function deleteRecords(share: number): Command {
  return command(`deleteRecords(${share} %)`, async (model, real) => {
    const offset = Math.floor((real.log.highWatermark * share) / 100)
    real.log.advanceLogStart(offset)
    model.start = Math.max(model.start, offset)
    await real.checkpoint()
    await expectSame(model, real)
  })
}

function retain(): Command {
  return command('retain()', async (model, real) => {
    await real.drive(real.log.whenSynced(real.log.logEndOffset))
    model.acknowledged = model.end
    const segments = real.log.segments.map(({ baseOffset, nextOffset, sizeBytes }) => ({ baseOffset, nextOffset, sizeBytes }))
    const found = await real.readAll(real.log.highWatermark)
    const { least, most } = model.retained(segments, found, real.clock.nowMs())
    await real.drive(real.retain())
    const start = real.log.logStartOffset
    assert.ok(start >= least && start <= most, `retention left the start at ${start}, by the settings it is ${least} to ${most}`)
    model.start = start
    await expectSame(model, real)
  })
}

/** Compacts all that was appended before, with memory for so many keys at a time. */
function compact(keys: number): Command {
  return command(`compact(${keys} keys)`, async (model, real) => {
    await real.drive(real.log.whenSynced(real.log.logEndOffset))
    model.acknowledged = model.end
    await real.log.rollIdle()
    await real.drive(real.log.idle())
    await real.checkpoint()
    const startedMs = real.clock.nowMs()
    await real.drive(real.compact(keys))
    if (model.config.isCompacted) {
      const { cleanedOffset } = real.log.compaction.note
      model.compacted(cleanedOffset, startedMs, real.clock.nowMs())
      const { highWatermark } = real.log
      if (model.config.minCompactionLagMs === 0) model.expectCompact(await real.readAll(highWatermark), cleanedOffset)
    }
    await expectSame(model, real)
  })
}

function wait(ms: number): Command {
  return command(`wait(${ms} ms)`, async (_, real) => {
    await real.clock.advance(ms)
  })
}

function restart(how: 'stop' | 'kill' | 'power'): Command {
  return command(`restart(${how})`, async (model, real) => {
    if (how === 'stop') model.acknowledged = model.end
    if (how === 'power' && model.isLossy) model.acknowledged = Math.min(model.acknowledged, real.log.syncedOffset)
    await real.stop(how)
    await real.start(model.config)
    model.reopenedAt(real.log.logEndOffset, real.log.logStartOffset)
    await expectSame(model, real)
  })
}

type Interrupted = 'retain' | 'compact' | 'deleteRecords' | 'checkpoint'

/** The process dies, or the power goes, so many turns of the loop after the work began. */
function interrupted(what: Interrupted, turns: number, how: 'kill' | 'power'): Command {
  return command(`interrupted(${what} after ${turns} turns, ${how})`, async (model, real) => {
    const { log, clock } = real
    await real.drive(log.whenSynced(log.logEndOffset))
    model.acknowledged = model.end
    model.isLossy = false
    let most = model.start
    if (what === 'retain') {
      const segments = log.segments.map(({ baseOffset, nextOffset, sizeBytes }) => ({ baseOffset, nextOffset, sizeBytes }))
      most = model.retained(segments, await real.readAll(log.highWatermark), clock.nowMs()).most
      await real.begin(real.retain(), turns)
    } else if (what === 'compact') {
      await log.rollIdle()
      await real.drive(log.idle())
      await real.checkpoint()
      const toOffset = log.segments.at(-1)?.baseOffset ?? 0
      const startedMs = clock.nowMs()
      await real.begin(real.compact(1_000), turns)
      if (model.config.isCompacted) model.compacted(toOffset, startedMs, clock.nowMs())
    } else {
      if (what === 'deleteRecords') {
        most = Math.max(model.start, Math.floor(log.highWatermark / 2))
        log.advanceLogStart(most)
      }
      await real.begin(real.manager.checkpoint(), turns)
    }
    await real.stop(how)
    await real.start(model.config)
    const start = real.log.logStartOffset
    assert.ok(start >= model.start && start <= most, `the log starts at ${start}, it may at ${model.start} to ${most}`)
    model.start = start
    model.reopenedAt(real.log.logEndOffset, start)
    await expectSame(model, real)
  })
}

function configure(change: Partial<LogConfig>): Command {
  return command(`configure(${JSON.stringify(change)})`, async (model, real) => {
    model.config = { ...model.config, ...change }
    real.log.reconfigure(model.config)
    await expectSame(model, real)
  })
}

/** A look-up by time finds the first record that is there at or after it. */
function findTime(share: number): Command {
  return command(`findTime(${share} %)`, async (model, real) => {
    const { log } = real
    const { highWatermark } = log
    const all = await real.readAll(highWatermark)
    const first = all[0]?.timestampMs ?? 0
    const timestampMs = first + Math.floor(((real.clock.nowMs() - first) * share) / 100)
    const expected = all.find((record) => record.timestampMs >= timestampMs)?.offset ?? null
    const found = await real.drive(log.offsetForTimestamp(timestampMs, highWatermark))
    assert.equal(found?.offset ?? null, expected, `the first record at or after ${timestampMs}`)
    await expectSame(model, real)
  })
}

const KEYS = ['a', 'b', 'c', 'd', 'e']
const record = fc.record({ key: fc.constantFrom(...KEYS), size: fc.constantFrom(0, 10, 60, 300) })
const change: fc.Arbitrary<Partial<LogConfig>> = fc.oneof(
  fc.record({ segmentBytes: fc.integer({ min: 200, max: 2_000 }) }),
  fc.record({ retentionMs: fc.constantFrom(-1, 1_000, 60_000) }),
  fc.record({ retentionBytes: fc.constantFrom(-1, 0, 1_000, 4_000) }),
  fc.record({ isDeleted: fc.boolean() }),
  fc.record({ isCompacted: fc.boolean() }),
  fc.record({ deleteRetentionMs: fc.constantFrom(0, 1_000) }),
  fc.record({ flushMessages: fc.constantFrom(1, 3) }),
  fc.record({ indexIntervalBytes: fc.constantFrom(0, 100, 4096) }),
  fc.record({ minCompactionLagMs: fc.constantFrom(0, 1_000) }),
)

export const LOG_COMMANDS: readonly fc.Arbitrary<Command>[] = [
  fc
    .tuple(fc.array(record, { minLength: 1, maxLength: 4 }), fc.constantFrom(...Object.values(CODEC)), fc.integer({ min: 0, max: 3 }))
    .map(([records, codec, chance]) => append(records, codec, chance > 0)),
  fc.nat(100).map(deleteRecords),
  fc.constant(null).map(retain),
  fc.constantFrom(2, 1_000).map(compact),
  fc.constantFrom(10, 700, 2_000, 90_000).map(wait),
  fc.constantFrom('stop' as const, 'kill' as const, 'power' as const).map(restart),
  fc
    .tuple(
      fc.constantFrom<Interrupted[]>('retain', 'compact', 'deleteRecords', 'checkpoint'),
      fc.nat(60),
      fc.constantFrom('kill' as const, 'power' as const),
    )
    .map(([what, turns, how]) => interrupted(what, turns, how)),
  change.map(configure),
  fc.nat(100).map(findTime),
]

export function newLogModel(): LogModel {
  return new LogModel({
    ...LOG_CONFIG,
    segmentBytes: 600,
    indexIntervalBytes: 100,
    flushMs: 1_000,
    fileDeleteDelayMs: 100,
    minCleanableDirtyRatio: 0,
  })
}
