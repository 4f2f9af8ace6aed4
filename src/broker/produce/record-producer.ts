import type { Clock } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { BATCH_HEADER_BYTES } from '../../core/limits.ts'
import { NO_OFFSET } from '../../core/types.ts'
import type { Compression } from '../../record/batch-jobs.ts'
import type { NewRecord } from '../../record/builder.ts'
import type { RequestContext } from '../context.ts'
import type { OutgoingRecord, ProduceTicket, RecordOutcome, RecordProduceOptions, TopicPort } from '../ports.ts'
import type { Partitions, ServedPartition } from '../topics/partitions.ts'
import { type BatchPacker, newRecord, packedSize } from './batch-packer.ts'
import type { ProduceService } from './produce-service.ts'
import { checkTimes } from './validate-batch.ts'

export interface RecordProducerDeps {
  readonly partitions: Partitions
  readonly topics: TopicPort
  readonly produce: ProduceService
  readonly packer: BatchPacker
  readonly clock: Clock
}

export interface RecordProducerOptions {
  /** Bytes of records that wait to become a batch, of all clients together. Beyond it records are refused with RATE_LIMITED. */
  readonly maxQueuedBytes: number
  /** Bytes of records put into one batch, before compression; a topic's max.message.bytes may be less. */
  readonly maxBatchBytes: number
}

/** A call of `produce`: collects the outcomes of its records. */
class Call {
  readonly #outcomes: RecordOutcome[]
  readonly #resolve: (outcomes: readonly RecordOutcome[]) => void
  readonly #stopsAtRefusal: boolean
  #open: number
  #failure: { readonly index: number; readonly error: MoonMQError } | null = null

  constructor(count: number, { stopAtRefusal = false }: RecordProduceOptions, resolve: (outcomes: readonly RecordOutcome[]) => void) {
    this.#outcomes = new Array<RecordOutcome>(count)
    this.#resolve = resolve
    this.#stopsAtRefusal = stopAtRefusal
    this.#open = count
  }

  settle(index: number, outcome: RecordOutcome): void {
    this.#outcomes[index] = outcome
    const { error } = outcome
    if (error !== null && this.#stopsAtRefusal && (this.#failure === null || index < this.#failure.index)) this.#failure = { index, error }
    if (--this.#open === 0) this.#resolve(this.#outcomes)
  }

  /** Why the record is not to be written any more, or null: one before it failed. */
  stopped(index: number): MoonMQError | null {
    return this.#failure !== null && this.#failure.index < index ? this.#failure.error : null
  }
}

/** A record in the queue of its partition. */
interface Queued {
  readonly record: NewRecord
  readonly sizeBytes: number
  readonly context: RequestContext
  readonly options: RecordProduceOptions
  readonly call: Call
  readonly index: number
}

interface PartitionQueue {
  readonly served: ServedPartition
  records: Queued[]
  bytes: number
  /** A flush is due at the end of this macrotask. */
  scheduled: boolean
  /** Appends whose durability is waited for: meanwhile records gather, since the next sync is theirs in any case. */
  inflight: number
  /** A codec is being loaded, or there is no room for the next append: order holds the queue. */
  held: boolean
}

/**
 * Makes batches of single records: what arrives for one partition within a macrotask, and while its last batch is on its way to the
 * disk, becomes one batch in the order of arrival. Single records of many connections so share batches as they share syncs.
 */
export class RecordProducer {
  readonly #partitions: Partitions
  readonly #topics: TopicPort
  readonly #produce: ProduceService
  readonly #packer: BatchPacker
  readonly #clock: Clock
  readonly #options: RecordProducerOptions
  readonly #queues = new Map<ServedPartition, PartitionQueue>()
  #queuedBytes = 0

  constructor(deps: RecordProducerDeps, options: RecordProducerOptions) {
    this.#partitions = deps.partitions
    this.#topics = deps.topics
    this.#produce = deps.produce
    this.#packer = deps.packer
    this.#clock = deps.clock
    this.#options = options
  }

  produce(context: RequestContext, records: readonly OutgoingRecord[], options: RecordProduceOptions): Promise<readonly RecordOutcome[]> {
    if (records.length === 0) return Promise.resolve([])
    return new Promise((resolve) => {
      const call = new Call(records.length, options, resolve)
      for (const [index, record] of records.entries()) {
        const refusal = call.stopped(index)
        if (refusal !== null) call.settle(index, { error: refusal, partition: -1, offset: NO_OFFSET })
        else this.#accept(context, record, options, call, index)
      }
    })
  }

  /** Queues the record, or settles it. */
  #accept(context: RequestContext, record: OutgoingRecord, options: RecordProduceOptions, call: Call, index: number): void {
    let partition = record.partition ?? -1
    try {
      const topic = this.#topics.get(record.topic)
      if (topic.internal && context.protocol !== 'internal') throw new MoonMQError('TOPIC_FORBIDDEN', { topic: record.topic })
      if (record.partition === null) partition = this.#topics.partitionFor(topic, record.key)
      const served = this.#partitions.partition(record.topic, partition)
      const sizeBytes = packedSize(record)
      if (this.#queuedBytes + sizeBytes > this.#options.maxQueuedBytes) {
        throw new MoonMQError('RATE_LIMITED', { reason: 'too many records wait to be written; try again' })
      }
      if (served.topic.settings.isCompacted && record.key === null) {
        throw new MoonMQError('INVALID_RECORD', { reason: 'a record of a compacted topic needs a key' })
      }
      const nowMs = this.#clock.nowMs()
      if (record.timestampMs !== undefined) checkTimes(record.timestampMs, record.timestampMs, served.topic.settings, nowMs)
      const queue = this.#queueOf(served)
      const queued = { record: newRecord(record, nowMs), sizeBytes, context, options, call, index }
      if (options.stopAtRefusal === true) this.#checkSize(queue, queued)
      queue.records.push(queued)
      this.#queuedBytes += sizeBytes
      queue.bytes += sizeBytes
      this.#schedule(queue)
    } catch (error) {
      call.settle(index, { error: asMoonMQError(error), partition, offset: NO_OFFSET })
    }
  }

  /**
   * Throws RECORD_TOO_LARGE for a record that the log would refuse even by itself: told before the rest of its call is in the queues of
   * other partitions, which do not wait for each other. A codec that is not loaded yet leaves the answer to the append.
   */
  #checkSize(queue: PartitionQueue, queued: Queued): void {
    const limit = queue.served.topic.settings.log.maxMessageBytes
    if (BATCH_HEADER_BYTES + queued.sizeBytes <= limit) return
    const compression = compressionFor(queue, [queued])
    // Whether it can be loaded shows at the append, which asks again.
    const loading = this.#packer.ready(compression.codec)?.catch(() => {})
    if (loading !== undefined) return
    const size = this.#packer.packNow([queued.record], compression).length
    if (size > limit) throw new MoonMQError('RECORD_TOO_LARGE', { size, limit })
  }

  #queueOf(served: ServedPartition): PartitionQueue {
    let queue = this.#queues.get(served)
    if (queue === undefined) {
      queue = { served, records: [], bytes: 0, scheduled: false, inflight: 0, held: false }
      this.#queues.set(served, queue)
    }
    return queue
  }

  #schedule(queue: PartitionQueue): void {
    if (queue.scheduled) return
    queue.scheduled = true
    this.#clock.defer(() => {
      queue.scheduled = false
      // Who waits for no sync does not wait for that of others, and a full batch gains nothing by waiting.
      const full = queue.bytes >= this.#options.maxBatchBytes
      if (queue.inflight === 0 || full || queue.records.some((each) => each.options.acks === 'none')) this.#flush(queue)
    })
  }

  #flush(queue: PartitionQueue): void {
    while (queue.records.length > 0 && !queue.held) {
      this.#dropStopped(queue)
      if (queue.records.length === 0) break
      const batch = this.#nextBatch(queue)
      const { codec } = compressionFor(queue, batch)
      let loading: Promise<void> | undefined
      try {
        loading = this.#packer.ready(codec)
      } catch (error) {
        failAll(batch, queue.served.partition, error)
        continue
      }
      if (loading === undefined) this.#write(queue, batch)
      else this.#writeWhenLoaded(queue, batch, loading)
    }
    this.#dropIdle(queue)
  }

  /** Settles records in front of the queue behind a record of their call that failed. */
  #dropStopped(queue: PartitionQueue): void {
    const { records } = queue
    const { partition } = queue.served
    let count = 0
    for (; count < records.length; count++) {
      const { call, index, sizeBytes } = records[count] as Queued
      const error = call.stopped(index)
      if (error === null) break
      this.#queuedBytes -= sizeBytes
      queue.bytes -= sizeBytes
      call.settle(index, { error, partition, offset: NO_OFFSET })
    }
    if (count > 0) records.splice(0, count)
  }

  #writeWhenLoaded(queue: PartitionQueue, batch: readonly Queued[], loading: Promise<void>): void {
    queue.held = true
    loading.then(
      () => {
        queue.held = false
        this.#write(queue, batch)
        this.#flush(queue)
      },
      (error: unknown) => {
        queue.held = false
        failAll(batch, queue.served.partition, error)
        this.#flush(queue)
      },
    )
  }

  /** Takes the longest run of records with the same codec and acks that fits one batch. */
  #nextBatch(queue: PartitionQueue): readonly Queued[] {
    const { records } = queue
    const first = records[0] as Queued
    const limit = Math.min(this.#options.maxBatchBytes, queue.served.topic.settings.log.maxMessageBytes)
    let bytes = BATCH_HEADER_BYTES + first.sizeBytes
    let count = 1
    for (; count < records.length; count++) {
      const next = records[count] as Queued
      const same =
        next.options.codec === first.options.codec &&
        next.options.acks === first.options.acks &&
        next.context.protocol === first.context.protocol
      if (!same || bytes + next.sizeBytes > limit || next.call.stopped(next.index) !== null) break
      bytes += next.sizeBytes
    }
    this.#queuedBytes -= bytes - BATCH_HEADER_BYTES
    queue.bytes -= bytes - BATCH_HEADER_BYTES
    if (count === records.length) {
      queue.records = []
      return records
    }
    return records.splice(0, count)
  }

  #write(queue: PartitionQueue, batch: readonly Queued[]): void {
    try {
      const packed = this.#pack(queue, batch)
      if (packed instanceof Promise) this.#appendPacked(queue, batch, packed)
      else this.#append(queue, batch, packed)
    } catch (error) {
      failAll(batch, queue.served.partition, error)
    }
  }

  #pack(queue: PartitionQueue, batch: readonly Queued[]): Buffer | Promise<Buffer> {
    const records = batch.map((each) => each.record)
    const bytes = batch.reduce((sum, each) => sum + each.sizeBytes, 0)
    return this.#packer.pack(records, bytes, compressionFor(queue, batch))
  }

  #appendPacked(queue: PartitionQueue, batch: readonly Queued[], packing: Promise<Buffer>): void {
    queue.held = true
    packing.then(
      (bytes) => {
        queue.held = false
        try {
          this.#append(queue, batch, bytes)
        } catch (error) {
          failAll(batch, queue.served.partition, error)
        }
        this.#flush(queue)
      },
      (error: unknown) => {
        queue.held = false
        failAll(batch, queue.served.partition, error)
        this.#flush(queue)
      },
    )
  }

  #append(queue: PartitionQueue, batch: readonly Queued[], bytes: Buffer): void {
    const { partition, topic } = queue.served
    const { options, context } = batch[0] as Queued
    const ticket = this.#produce.appendBuilt(context, { topic: topic.name, partition, batch: bytes }, options)
    if (ticket instanceof Promise) this.#hold(queue, batch, ticket)
    else this.#await(queue, batch, ticket)
  }

  #hold(queue: PartitionQueue, batch: readonly Queued[], ticket: Promise<ProduceTicket>): void {
    queue.held = true
    const go = (next: () => void) => {
      queue.held = false
      next()
      this.#flush(queue)
    }
    ticket.then(
      (appended) => go(() => this.#await(queue, batch, appended)),
      (error: unknown) => go(() => failAll(batch, queue.served.partition, error)),
    )
  }

  #await(queue: PartitionQueue, batch: readonly Queued[], ticket: ProduceTicket): void {
    const { partition } = queue.served
    const settling = ticket.settled()
    if (!(settling instanceof Promise)) {
      settleAll(batch, partition, settling)
      return
    }
    queue.inflight++
    settling.then(
      (outcomes) => this.#landed(queue, () => settleAll(batch, partition, outcomes)),
      (error: unknown) => this.#landed(queue, () => failAll(batch, partition, error)),
    )
  }

  #landed(queue: PartitionQueue, settle: () => void): void {
    queue.inflight--
    settle()
    // What gathered meanwhile goes at once; what the answers bring next gathers again.
    if (queue.inflight === 0) this.#flush(queue)
  }

  #dropIdle(queue: PartitionQueue): void {
    if (queue.records.length === 0 && queue.inflight === 0 && !queue.held && !queue.scheduled) this.#queues.delete(queue.served)
  }
}

/** The topic's codec, or that of the records. */
function compressionFor(queue: PartitionQueue, batch: readonly Queued[]): Compression {
  return queue.served.topic.settings.compression ?? { codec: (batch[0] as Queued).options.codec, level: undefined }
}

function settleAll(
  batch: readonly Queued[],
  partition: number,
  outcomes: readonly { error: MoonMQError | null; baseOffset: number }[],
): void {
  const outcome = outcomes[0]
  if (outcome === undefined || outcome.error !== null) {
    failAll(batch, partition, outcome?.error ?? new MoonMQError('INTERNAL', { reason: 'an append without an outcome' }))
    return
  }
  for (const [place, each] of batch.entries()) each.call.settle(each.index, { error: null, partition, offset: outcome.baseOffset + place })
}

function failAll(batch: readonly Queued[], partition: number, error: unknown): void {
  const failure = asMoonMQError(error)
  for (const each of batch) each.call.settle(each.index, { error: failure, partition, offset: NO_OFFSET })
}
