import assert from 'node:assert/strict'
import type { MemoryDisk } from '../../src/io/memory-disk.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { CODEC, type Codecs } from '../../src/record/compression.ts'
import { buildEndTxnMarker } from '../../src/record/control.ts'
import type { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { checkSequence } from '../../src/storage/producer-state.ts'
import type { LogConfig, LogRead } from '../../src/storage/types.ts'
import { abortedOf, expectRefusal, type PartitionModel } from './partition-model.ts'
import type { Simulation } from './simulation.ts'

export interface WorldOptions {
  /** Lives of the process before the last one, which only looks and stops in order. */
  readonly lives: number
  /** Events of one life are drawn up to this many. */
  readonly events: number
  readonly hasFaults: boolean
  readonly hasDeletions: boolean
  readonly hasTruncations: boolean
}

/** One process over the partition: the manager and the log it opened. */
export interface Process {
  readonly manager: LogManager
  readonly log: PartitionLog
  readonly model: PartitionModel
  isClosing: boolean
}

/** Where the actors are: what they share, and who is told of what they did. */
export interface Stage {
  readonly sim: Simulation
  readonly options: WorldOptions
  readonly config: LogConfig
  /** For the judge, who does not wait. */
  readonly codecs: Codecs
  readonly disk: MemoryDisk
  readonly epoch: number
  readonly counts: { starts: number; appends: number; acknowledged: number; reads: number; cuts: number; reopened: number }
  touched(): void
  truncated(process: Process, end: number): void
  checkRead(model: PartitionModel, read: LogRead, offset: number): number
}

/** Producers with an identity; the last one writes transactions only. */
const PRODUCERS = 4

/**
 * Those who use a partition at the same time: producers, readers, the upkeep that a broker does, and a disk that fails. Each does one
 * thing after another, and between any two of them the scheduler may let all others go first.
 */
export class PartitionActors {
  readonly #world: Stage
  readonly #process: Process
  #count = 0

  constructor(world: Stage, process: Process) {
    this.#world = world
    this.#process = process
  }

  spawn(): void {
    const { random } = this.#world.sim
    for (let count = 1 + random.below(3); count > 0; count--) this.#repeat('producer', 30, () => this.#produce())
    for (let count = random.below(3); count > 0; count--) this.#repeat('reader', 20, () => this.#read())
    if (random.below(2) === 0) this.#repeat('upkeep', 8, () => this.#upkeep())
    if (this.#world.options.hasFaults && random.below(3) === 0) this.#repeat('fault', 2, () => this.#breakSomething())
    if (this.#world.options.hasTruncations && random.below(4) === 0) this.#repeat('truncation', 2, () => this.#truncate())
  }

  #repeat(name: string, most: number, act: () => Promise<void>): void {
    const { sim } = this.#world
    const times = 1 + sim.random.below(most)
    sim.spawn(async () => {
      for (let count = 0; count < times; count++) {
        await sim.pause(name)
        await act()
      }
    })
  }

  // ---- producers ----------------------------------------------------------------------------------------------------------

  async #produce(): Promise<void> {
    const { random } = this.#world.sim
    for (let count = 1 + random.below(3); count > 0; count--) {
      const end = this.#append()
      if (end === null) return
      if (random.below(3) > 0) continue
      const acknowledged = this.#acknowledge(end)
      if (random.below(2) === 0) await acknowledged
      else this.#world.sim.spawn(() => acknowledged)
    }
  }

  async #acknowledge(end: number): Promise<void> {
    const { log, model } = this.#process
    try {
      await (this.#world.config.flushMessages === 1 ? log.whenDurable(end) : log.whenSynced(end))
    } catch (error) {
      expectRefusal(error)
      return
    }
    this.#world.counts.acknowledged++
    model.acknowledge(end)
  }

  /** The offset after the batch, or null when it was refused. */
  #append(): number | null {
    const { log, model } = this.#process
    const batch = this.#makeBatch()
    const header = readBatchHeader(batch)
    if (log.state === 'online' && model.truncatingTo === null && header.baseSequence >= 0) {
      assert.equal(checkSequence(log.producer(header.producerId), header), null)
    }
    let appended: ReturnType<typeof log.append>
    try {
      appended = log.append(batch, header, { leaderEpoch: this.#world.epoch })
    } catch (error) {
      expectRefusal(error)
      return null
    }
    assert.equal(model.truncatingTo, null, 'an append was taken while the end of the log is being changed')
    this.#world.touched()
    this.#world.counts.appends++
    const stored = model.add(batch)
    assert.deepEqual([appended.baseOffset, appended.lastOffset], [stored.header.baseOffset, stored.lastOffset])
    return appended.lastOffset + 1
  }

  #makeBatch(): Buffer {
    const { model } = this.#process
    const { random, scheduler } = this.#world.sim
    const producerId = random.below(2 * PRODUCERS)
    const isTransactional = producerId === PRODUCERS - 1 || (producerId < PRODUCERS && model.openTransaction(producerId) !== undefined)
    if (isTransactional && random.below(2) === 0) {
      const producerEpoch = model.lastOf(producerId)?.epoch ?? 0
      const marker = { commit: random.below(2) === 0, producerId, producerEpoch, coordinatorEpoch: 0, timestampMs: scheduler.nowMs() }
      return buildEndTxnMarker(marker)
    }
    const records = Array.from({ length: 1 + random.below(3) }, () => ({
      key: random.below(2) === 0 ? null : Buffer.from(`k${random.below(5)}`),
      value: Buffer.from(`${this.#count++} ${'x'.repeat(random.below(120))}`),
      timestampMs: scheduler.nowMs() + random.below(50) - 25,
    }))
    const codec = random.below(6) === 0 ? CODEC.snappy : CODEC.none
    const compress = (which: number, bytes: Buffer) => this.#world.codecs.deflate(which, bytes)
    if (producerId >= PRODUCERS) return buildBatch(records, { codec, compress })
    const last = model.lastOf(producerId)
    const producerEpoch = last?.epoch ?? 0
    const baseSequence = last?.batch ? last.batch.header.baseSequence + last.batch.header.lastOffsetDelta + 1 : 0
    return buildBatch(records, { codec, compress, producerId, producerEpoch, baseSequence, transactional: isTransactional })
  }

  // ---- readers ------------------------------------------------------------------------------------------------------------

  async #read(): Promise<void> {
    this.#world.counts.reads++
    try {
      const dice = this.#world.sim.random.below(8)
      if (dice === 0) await this.#lookUpTime()
      else if (dice === 1) this.#lookUpAborted()
      else await this.#readBatches()
    } catch (error) {
      // The log start moved on, or the log was cut, while the read was on its way.
      expectRefusal(error, 'OFFSET_OUT_OF_RANGE')
    }
  }

  async #readBatches(): Promise<void> {
    const { log, model } = this.#process
    const { random } = this.#world.sim
    const limitOffset = random.below(2) === 0 ? log.highWatermark : log.lastStableOffset
    if (limitOffset <= log.logStartOffset || model.truncatingTo !== null) return
    const offset = log.logStartOffset + random.below(limitOffset - log.logStartOffset)
    const { batches } = model
    const read = await log.read({ offset, maxBytes: random.below(1500), minOneBatch: true, limitOffset })
    // Bytes that were lent must stay as they are until they are given back.
    for (let count = random.below(3); count > 0; count--) await this.#world.sim.pause('reader holds')
    try {
      if (model.truncatingTo !== null || model.batches !== batches) return
      // A limit within a batch gives nothing: batches are whole.
      const holder = model.batches.find((batch) => batch.lastOffset >= offset)
      if (read.sizeBytes === 0 && holder !== undefined && holder.lastOffset >= limitOffset) return
      assert.ok(this.#world.checkRead(model, read, offset) <= limitOffset)
    } finally {
      read.release()
    }
  }

  async #lookUpTime(): Promise<void> {
    const { log, model } = this.#process
    const { random, scheduler } = this.#world.sim
    const { highWatermark, logStartOffset } = log
    const { batches } = model
    const timestampMs = scheduler.nowMs() + random.below(100) - 80
    const found = await log.offsetForTimestamp(timestampMs, highWatermark)
    if (log.logStartOffset !== logStartOffset || model.batches !== batches || model.truncatingTo !== null) return
    assert.equal(found?.offset ?? null, model.offsetForTimestamp(timestampMs, logStartOffset, highWatermark))
  }

  #lookUpAborted(): void {
    const { log, model } = this.#process
    if (log.state !== 'online' || model.truncatingTo !== null || log.logEndOffset === log.logStartOffset) return
    const { random } = this.#world.sim
    const from = log.logStartOffset + random.below(log.logEndOffset - log.logStartOffset)
    const to = from + 1 + random.below(log.logEndOffset - from)
    assert.deepEqual(abortedOf(log, from, to), model.aborted(from, to))
  }

  // ---- upkeep -------------------------------------------------------------------------------------------------------------

  async #upkeep(): Promise<void> {
    const { log, manager, model } = this.#process
    const { random } = this.#world.sim
    const dice = random.below(4)
    if (dice === 0 && log.state === 'online' && model.truncatingTo === null) {
      const offset = random.below(log.highWatermark + 1)
      model.wantedStart = Math.max(model.wantedStart, offset)
      log.advanceLogStart(offset)
      this.#world.touched()
    } else if (dice === 1) log.reconfigure({ ...log.config, segmentBytes: 300 + random.below(2500) })
    else await this.#checkpoint(manager)
  }

  async #checkpoint(manager: Process['manager']): Promise<void> {
    const { log, model } = this.#process
    const start = log.logStartOffset
    const { batches } = model
    try {
      await manager.checkpoint()
    } catch (error) {
      if (!this.#world.options.hasFaults) throw error
      return
    }
    if (!this.#process.isClosing && model.batches === batches) model.savedStart = Math.max(model.savedStart, start)
  }

  async #truncate(): Promise<void> {
    const { log, model } = this.#process
    if (log.state !== 'online' || model.truncatingTo !== null || log.logEndOffset === 0) return
    const offset = log.logStartOffset + this.#world.sim.random.below(log.logEndOffset - log.logStartOffset + 1)
    const end = model.endOfTruncation(offset)
    model.truncatingTo = end
    model.acknowledged = Math.min(model.acknowledged, end)
    model.savedStart = Math.min(model.savedStart, end)
    this.#world.touched()
    try {
      await log.truncateTo(offset)
    } catch (error) {
      if (!this.#world.options.hasFaults) expectRefusal(error)
      return
    }
    // A log that failed and was opened again meanwhile may have ended before.
    if (!this.#world.options.hasFaults) assert.equal(log.logEndOffset, end)
    assert.ok(log.logEndOffset <= end)
    this.#world.truncated(this.#process, log.logEndOffset)
    model.truncatingTo = null
  }

  /** What the disk does wrong next. A device error takes the log offline; a short write is followed by recovery while others go on. */
  async #breakSomething(): Promise<void> {
    const { disk, sim } = this.#world
    const nth = 1 + sim.random.below(6)
    const dice = sim.random.below(8)
    if (dice === 0) disk.fail({ operation: 'datasync', path: /\.log$/, nth, effect: { kind: 'failedSync' } })
    else if (dice === 1)
      disk.fail({ operation: 'write', path: /\.(log|index|timeindex)$/, nth, effect: { kind: 'shortWrite', keepBytes: 9 } })
    else if (dice === 2)
      disk.fail({ operation: 'write', path: /\.log$/, nth, effect: { kind: 'shortWrite', keepBytes: 70, code: 'EFBIG' } })
    else if (dice === 5) disk.fail({ operation: 'datasync', path: /journal$/, nth, effect: { kind: 'failedSync' } })
    else if (dice === 6) {
      const code = ['ENOSPC', 'EFBIG'][sim.random.below(2)] as string
      disk.fail({ operation: 'write', path: /journal$/, nth, effect: { kind: 'shortWrite', keepBytes: sim.random.below(6000), code } })
    } else if (dice === 7) disk.fail({ operation: 'removeFile', path: /journal$/, effect: { kind: 'error', code: 'EACCES' } })
    else if (dice === 3) disk.fail({ operation: 'rename', path: '.tmp', nth, effect: { kind: 'error', code: 'EIO' } })
    else disk.fail({ operation: 'open', path: /\.(log|index)$/, nth, effect: { kind: 'error', code: 'EMFILE' } })
  }
}
