import assert from 'node:assert/strict'
import { SILENT } from '../../src/core/logger.ts'
import { newUuid } from '../../src/core/uuid.ts'
import { FixedHost } from '../../src/io/host.ts'
import { PreloadedLoader } from '../../src/io/loader.ts'
import type { PowerCutOptions } from '../../src/io/memory-device.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { batchSizeAt, readBatchHeader } from '../../src/record/batch.ts'
import { Codecs } from '../../src/record/compression.ts'
import { ROOT_FILES } from '../../src/storage/checkpoint.ts'
import { IDENTITY_NAME } from '../../src/storage/identity.ts'
import { JOURNAL_BLOCK_BYTES } from '../../src/storage/journal-format.ts'
import { LogManager } from '../../src/storage/log-manager.ts'
import type { LogConfig, LogRead } from '../../src/storage/types.ts'
import { validateLogs } from '../../src/storage/validate.ts'
import { checkIndexes } from './index-check.ts'
import { LOG_CONFIG } from './log-config.ts'
import { PartitionActors, type Process, type Stage, type WorldOptions } from './partition-actors.ts'
import { abortedOf, PartitionModel } from './partition-model.ts'
import type { Simulation } from './simulation.ts'
import { DATA_FOLDER, filesOf } from './storage.ts'

type Ending = 'kill' | 'power' | 'stop' | 'stop-cut'

const PARTITION = { topic: 't', partition: 0 }
const FOLDER = `${DATA_FOLDER}/t-0`

/**
 * The whole life of one partition on a disk in memory: processes that start, work, are stopped, killed or lose power at any event,
 * the start itself and the stop included. After every start the log is compared with the model byte by byte; after every stop in
 * order the files are compared with a full scan.
 */
export class PartitionWorld implements Stage {
  readonly sim: Simulation
  readonly options: WorldOptions
  readonly config: LogConfig
  readonly modules: Readonly<Record<string, unknown>>
  /** For the judge, who does not wait. */
  readonly codecs: Codecs
  disk: MemoryDisk
  model: PartitionModel
  epoch = 0
  #boot = 0
  #pid = 100
  #process: Process | null = null
  /** Largest high watermark seen of the log that is open. */
  #highWatermark = 0
  #failedMark: number | null = null
  /** Ids of topics that are deleted; the record that says so is older than the deletion of their folders. */
  readonly #deleted = new Set<string>()
  /** The last stop was in order, and nothing was appended since. */
  #isClean = false
  #mustBeClean = false
  readonly counts = { starts: 0, appends: 0, acknowledged: 0, reads: 0, cuts: 0, reopened: 0 }

  constructor(sim: Simulation, options: WorldOptions, codecs: Codecs, modules: Readonly<Record<string, unknown>>) {
    this.sim = sim
    this.options = options
    this.codecs = codecs
    this.modules = modules
    const { random, scheduler } = sim
    this.disk = new MemoryDisk({ clock: scheduler, completions: scheduler })
    this.config = {
      ...LOG_CONFIG,
      segmentBytes: 300 + random.below(2500),
      segmentMs: random.below(4) === 0 ? 2_000 : LOG_CONFIG.segmentMs,
      indexIntervalBytes: random.below(3) * random.below(600),
      indexMaxBytes: random.below(4) === 0 ? 40 : LOG_CONFIG.indexMaxBytes,
      flushMessages: random.below(5) === 0 ? 3 : 1,
      flushMs: 1_000,
      timestampType: random.below(5) === 0 ? 'LogAppendTime' : 'CreateTime',
    }
    this.model = this.#newModel()
    sim.invariant = () => this.#check()
  }

  async run(): Promise<void> {
    for (let life = 0; life < this.options.lives; life++) await this.#live()
    const process = await this.#start(Number.POSITIVE_INFINITY)
    assert.ok(process !== null)
    await this.#stop(process, Number.POSITIVE_INFINITY)
  }

  // ---- a life -------------------------------------------------------------------------------------------------------------

  async #live(): Promise<void> {
    const { random } = this.sim
    // One life in four does not outlive its start.
    const isShort = random.below(4) === 0
    const process = await this.#start(isShort ? random.below(40) : Number.POSITIVE_INFINITY)
    if (process === null) return this.#crash(random.below(2) === 0 ? 'kill' : 'power')
    this.work(process)
    await this.sim.run(random.below(this.options.events))
    if (this.options.hasDeletions && random.below(4) === 0 && !(await this.#deleteTopic(process))) return
    const ending = (['kill', 'power', 'power', 'stop', 'stop-cut'] as const)[random.below(5)] as Ending
    const current = this.#process
    if (current === null || ending === 'kill' || ending === 'power') return this.#crash(ending === 'kill' ? 'kill' : 'power')
    await this.#stop(current, ending === 'stop' ? Number.POSITIVE_INFINITY : random.below(60))
  }

  work(process: Process): void {
    new PartitionActors(this, process).spawn()
  }

  /** Null when the events ran out before it was open. */
  async #start(events: number): Promise<Process | null> {
    this.counts.starts++
    const last = this.sim.steps + events
    return (await this.sim.drive(this.#open(), () => this.sim.steps >= last)) ?? null
  }

  async #open(): Promise<Process> {
    const mustBeClean = this.#mustBeClean
    this.#mustBeClean = false
    const manager = await this.#openManager()
    if (mustBeClean) assert.ok(manager.wasClean, 'a stop in order was forgotten')
    if (manager.wasClean) assert.ok(this.#isClean, 'a start took the marker of an earlier stop for its own')
    else this.epoch++
    await manager.settleFolders((_, topicId) => (topicId !== null && this.#deleted.has(topicId) ? 'deleted' : 'known'))
    return this.#openLog(manager)
  }

  #openManager(): Promise<LogManager> {
    const { scheduler, random } = this.sim
    const pid = this.#pid++
    const host = new FixedHost({ pid, bootId: `boot-${this.#boot}`, processes: new Map([[pid, '1']]) })
    const codecs = new Codecs({ loader: new PreloadedLoader({ completions: scheduler }, this.modules) })
    return LogManager.open(
      { disk: this.disk, clock: scheduler, log: SILENT, host, codecs, random },
      {
        dataFolder: DATA_FOLDER,
        checkpointIntervalMs: 5_000,
        tailBytes: random.below(3) * 1500,
        maxOpenFiles: 3 + random.below(6),
        groupCommit: {
          ...(random.below(3) === 0 ? { lingerMs: 2, maxWaiters: 3 } : {}),
          // Two lives in three use the journal for one log alone, so that every step of it meets every crash.
          journalFrom: random.below(3) === 0 ? 0 : 1,
        },
        journalAreaBytes: (4 + random.below(4)) * JOURNAL_BLOCK_BYTES,
        nextLeaderEpoch: async () => {
          await scheduler.arrive('raise the leader epoch')
          return ++this.epoch
        },
      },
    )
  }

  async #openLog(manager: LogManager): Promise<Process> {
    const { model } = this
    const log = await manager.open({ ...PARTITION, topicId: model.topicId, config: this.config, maxEpoch: this.epoch })
    const process: Process = { manager, log, model, isClosing: false }
    await this.#compare(process)
    this.#highWatermark = log.highWatermark
    this.#failedMark = null
    log.watch((event) => {
      if (event === 'state' && log.state === 'online') this.#reopened(process)
    })
    this.#process = process
    return process
  }

  async #deleteTopic(process: Process): Promise<boolean> {
    const { manager, model } = process
    const { random } = this.sim
    this.disk.clearFaults()
    this.#deleted.add(model.topicId)
    this.#process = null
    this.model = this.#newModel()
    const last = this.sim.steps + random.below(80)
    const again = (async () => {
      await manager.delete(PARTITION, model.topicId)
      assert.equal(await this.disk.stat(FOLDER), null)
      return this.#openLog(manager)
    })()
    const next = await this.sim.drive(again, () => this.sim.steps >= last)
    if (next === undefined) {
      await this.#crash(random.below(2) === 0 ? 'kill' : 'power')
      return false
    }
    this.work(next)
    await this.sim.run(random.below(this.options.events))
    return true
  }

  /** The process ends at once, or the machine with it. */
  async #crash(kind: 'kill' | 'power'): Promise<void> {
    const { random } = this.sim
    const process = this.#process
    const written = process !== null && kind === 'kill' && process.log.state === 'online' ? process.log.writtenOffset : 0
    this.#process = null
    this.sim.scheduler.trace.push(`-- ${kind}`)
    this.sim.scheduler.forget()
    if (kind === 'kill') {
      // A process that is killed takes nothing with it that it had written.
      if (process !== null && process.model.truncatingTo === null) process.model.written = written
      this.disk = this.disk.processKilled()
    } else {
      this.#boot++
      this.counts.cuts++
      this.model.written = 0
      this.disk = this.disk.powerCut(random, CUTS[random.below(CUTS.length)])
    }
  }

  /** In order, unless the events run out before it is done. */
  async #stop(process: Process, events: number): Promise<void> {
    const last = this.sim.steps + events
    let isDone = false
    process.isClosing = true
    let wasWhole = true
    const closing = process.manager.close().then(
      () => {
        isDone = true
      },
      (error: unknown) => {
        if (!this.options.hasFaults) throw error
        isDone = true
        wasWhole = false
      },
    )
    await this.sim.drive(closing, () => this.sim.steps >= last)
    this.#process = null
    // The marker may be there although nobody was told.
    if (!isDone) this.#isClean = process.log.state === 'closed' && process.log.failure === null
    if (!isDone) return this.#crash(this.sim.random.below(2) === 0 ? 'kill' : 'power')
    wasWhole &&= process.log.failure === null
    // A stop that the disk disturbed says so by leaving no marker.
    if (this.options.hasFaults) wasWhole &&= this.disk.peek(`${DATA_FOLDER}/${ROOT_FILES['clean-shutdown']}`) !== null
    if (wasWhole) await this.#checkFiles(process)
    this.#isClean = wasWhole
    this.#mustBeClean = wasWhole
    if (wasWhole) process.model.savedStart = process.log.logStartOffset
    await this.#crash(this.sim.random.below(2) === 0 ? 'kill' : 'power')
  }

  #newModel(): PartitionModel {
    return new PartitionModel(newUuid(this.sim.random), this.codecs)
  }

  /** Something was appended: the marker of the last stop speaks of another log. */
  touched(): void {
    this.#isClean = false
  }

  // ---- what must hold -----------------------------------------------------------------------------------------------------

  /** After every event. */
  #check(): void {
    if (this.#process === null) return
    const { log, model } = this.#process
    if (log.state === 'failed') {
      this.#failedMark ??= log.highWatermark
      assert.equal(log.highWatermark, this.#failedMark, 'a log that failed shows more than before')
    } else this.#failedMark = null
    if (log.state !== 'online' || model.truncatingTo !== null) return
    const { logStartOffset, lastStableOffset, highWatermark, durableOffset, syncedOffset, writtenOffset, logEndOffset } = log
    const chain = [0, logStartOffset, lastStableOffset, highWatermark, durableOffset, logEndOffset]
    for (let index = 1; index < chain.length; index++) {
      assert.ok((chain[index - 1] as number) <= (chain[index] as number), `offsets are out of order: ${chain.join(' ')}`)
    }
    // What the journal has the file may get later; until then no recovery may rely on it.
    assert.ok(log.recoveryPoint <= writtenOffset && Math.max(syncedOffset, writtenOffset) <= logEndOffset)
    if (this.config.flushMessages === 1) assert.equal(durableOffset, syncedOffset)
    assert.equal(logEndOffset, model.end)
    assert.ok(highWatermark >= this.#highWatermark, `the high watermark fell from ${this.#highWatermark} to ${highWatermark}`)
    this.#highWatermark = highWatermark
    assert.ok(model.acknowledged <= highWatermark, `${model.acknowledged} was acknowledged above the high watermark ${highWatermark}`)
    assert.equal(lastStableOffset, Math.max(logStartOffset, model.lastStableOffset(highWatermark)))
  }

  truncated(process: Process, end: number): void {
    process.model.cutTo(end)
    if (this.#process === process) this.#highWatermark = Math.min(this.#highWatermark, process.log.highWatermark)
  }

  #reopened({ log, model }: Process): void {
    this.counts.reopened++
    assert.ok(log.logEndOffset >= model.acknowledged, `${log.logEndOffset} is below the acknowledged ${model.acknowledged}`)
    model.truncatingTo = null
    model.cutTo(log.logEndOffset)
    // Without a sync for each write, what was visible may go with the failure.
    if (this.config.flushMessages !== 1) this.#highWatermark = Math.min(this.#highWatermark, log.highWatermark)
  }

  /** After a start: everything acknowledged is there, once, at its place, as it was sent; nothing else is. */
  async #compare({ log, model }: Process): Promise<void> {
    const { logStartOffset, logEndOffset } = log
    assert.ok(logEndOffset >= model.acknowledged, `the log ends at ${logEndOffset}, below the acknowledged ${model.acknowledged}`)
    assert.ok(logEndOffset >= model.written, `the log ends at ${logEndOffset}, ${model.written} was written before the process was killed`)
    assert.ok(logEndOffset <= model.end, `the log ends at ${logEndOffset}, but nothing was appended beyond ${model.end}`)
    assert.equal(log.highWatermark, logEndOffset)
    assert.ok(
      logStartOffset >= Math.min(model.savedStart, logEndOffset),
      `the log starts at ${logStartOffset}, ${model.savedStart} was saved`,
    )
    assert.ok(logStartOffset <= model.wantedStart, `the log starts at ${logStartOffset}, at most ${model.wantedStart} was asked for`)
    model.truncatingTo = null
    model.cutTo(logEndOffset)
    model.savedStart = logStartOffset
    model.written = 0
    model.acknowledged = logEndOffset
    let next = logStartOffset
    while (next < logEndOffset) {
      const read = await log.read({ offset: next, maxBytes: 2000, minOneBatch: true, limitOffset: logEndOffset })
      next = this.checkRead(model, read, next)
      read.release()
    }
    const base = log.segments[0]?.baseOffset ?? 0
    const aborted = abortedOf(log, logStartOffset, logEndOffset)
    model.settleDeleted(base, ({ producerId, firstOffset, markerOffset }) =>
      markerOffset === null
        ? log.producer(producerId)?.currentTxnFirstOffset === firstOffset
        : markerOffset < logStartOffset || aborted.includes(`${producerId} ${firstOffset}`),
    )
    for (let producerId = 0; producerId < 4; producerId++) {
      model.checkProducer(producerId, log.producer(producerId), base)
    }
    assert.deepEqual(aborted, model.aborted(logStartOffset, logEndOffset))
  }

  /** Whole batches, as they were appended, one behind the other. Returns the offset after them. */
  checkRead(model: PartitionModel, read: LogRead, offset: number): number {
    let next = -1
    for (const bytes of read.buffers) {
      for (let at = 0; at < bytes.length; ) {
        const size = batchSizeAt(bytes, at, bytes.length) as number
        const { baseOffset } = readBatchHeader(bytes, at, bytes.length)
        const expected = model.batchAt(baseOffset)
        assert.ok(expected !== undefined, `a batch at ${baseOffset} that was never there`)
        assert.ok(expected.bytes.equals(bytes.subarray(at, at + size)), `the batch at ${baseOffset} is not what was appended`)
        if (next < 0) assert.ok(baseOffset <= offset && offset <= expected.lastOffset, `${baseOffset} does not hold ${offset}`)
        else assert.equal(baseOffset, next, 'offsets have a gap')
        next = expected.lastOffset + 1
        at += size
      }
    }
    assert.ok(next >= 0, `nothing was read at ${offset}`)
    assert.equal(read.nextOffset, next)
    return next
  }

  /** After a stop in order: the files are what a scan of the logs makes of them. */
  async #checkFiles({ model }: Process): Promise<void> {
    this.disk.clearFaults()
    const files = await this.#drive(filesOf(this.disk))
    const stored = checkIndexes(files, FOLDER, this.config.indexIntervalBytes)
    const first = stored[0]?.baseOffset ?? model.end
    const expected = model.batches.filter((batch) => batch.header.baseOffset >= first)
    assert.deepEqual(
      stored.map((batch) => [batch.baseOffset, batch.lastOffset, batch.leaderEpoch]),
      expected.map((batch) => [batch.header.baseOffset, batch.lastOffset, batch.header.leaderEpoch]),
    )
    if (this.sim.random.below(4) > 0) return
    const known = { ...PARTITION, topicId: model.topicId, leaderEpoch: this.epoch }
    const report = await this.#drive(
      validateLogs({ disk: this.disk, clock: this.sim.scheduler, codecs: this.codecs }, { folder: DATA_FOLDER, known: [known] }),
    )
    const problems = report.problems.filter((each) => each.file !== IDENTITY_NAME)
    assert.deepEqual(problems, [])
    assert.deepEqual(report.repairs, [])
  }

  async #drive<T>(work: Promise<T>): Promise<T> {
    return (await this.sim.drive(work)) as T
  }
}

/** What a power cut takes; the first one anything. */
const CUTS: readonly PowerCutOptions[] = [
  {},
  {},
  { writes: 'none', names: 'none' },
  { writes: 'all', names: 'none' },
  { writes: 'none', names: 'all' },
  { names: 'all', tear: 'prefix' },
  { tear: 'sectors' },
]
