import type { Clock } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { NO_OFFSET, type TopicPartition } from '../../core/types.ts'
import { readBatchHeader, setProducer } from '../../record/batch.ts'
import { nextSequence } from '../../storage/producer-state.ts'
import type { RequestContext } from '../context.ts'
import type { TopicPort } from '../ports.ts'
import type { SequencedBatch, SequencedOptions, SequencedOutcome, SequencedTicket } from '../producer-ports.ts'
import type { Partitions, ServedPartition } from '../topics/partitions.ts'
import type { ProducerIdentity } from '../txn-ports.ts'
import { type BatchPacker, newRecord, packedSize } from './batch-packer.ts'
import type { ProduceService } from './produce-service.ts'

export interface SequencedDeps {
  readonly partitions: Partitions
  readonly topics: TopicPort
  readonly produce: ProduceService
  readonly packer: BatchPacker
  readonly clock: Clock
}

/** For whom batches are appended. */
export interface SequencedOwner extends ProducerIdentity {
  readonly transactional: boolean
  /** Asked in the turn of each append: undefined lets it pass, a promise is waited for and asked again. Throws what refuses it. */
  admit(partition: TopicPartition): Promise<void> | undefined
}

/** A batch as it is before its producer and sequence are known, or why there is none. */
export interface PackedBatch {
  readonly source: SequencedBatch
  readonly bytes: Buffer | null
  readonly error: MoonMQError | null
}

/** Makes one batch of the records of each partition, and appends them with the numbers of an idempotent producer (DESIGN D10). */
export class SequencedProducer {
  readonly #deps: SequencedDeps

  constructor(deps: SequencedDeps) {
    this.#deps = deps
  }

  /** Everything that can be known before the append. With `atomic` throws what a batch is refused with. */
  async pack(context: RequestContext, batches: readonly SequencedBatch[], options: SequencedOptions): Promise<PackedBatch[]> {
    const packed: PackedBatch[] = []
    for (const source of batches) {
      try {
        packed.push({ source, bytes: await this.#pack(context, source, options.codec), error: null })
      } catch (error) {
        if (options.atomic === true) throw error
        packed.push({ source, bytes: null, error: asMoonMQError(error) })
      }
    }
    return packed
  }

  async #pack(context: RequestContext, source: SequencedBatch, codec: number): Promise<Buffer> {
    const { packer, clock } = this.#deps
    const { settings } = this.#served(context, source).topic
    if (settings.isCompacted && source.records.some(({ key }) => key === null)) {
      throw new MoonMQError('INVALID_RECORD', { reason: 'a record of a compacted topic needs a key' })
    }
    const compression = settings.compression ?? { codec, level: undefined }
    const loading = packer.ready(compression.codec)
    if (loading !== undefined) await loading
    const nowMs = clock.nowMs()
    let bytes = 0
    for (const record of source.records) bytes += packedSize(record)
    const records = source.records.map((record) => newRecord(record, nowMs))
    const packing = packer.pack(records, bytes, compression)
    const batch = packing instanceof Promise ? await packing : packing
    const limit = settings.log.maxMessageBytes
    if (batch.length > limit) throw new MoonMQError('RECORD_TOO_LARGE', { size: batch.length, limit })
    return batch
  }

  #served(context: RequestContext, { topic, partition }: SequencedBatch): ServedPartition {
    if (this.#deps.topics.get(topic).internal && context.protocol !== 'internal') throw new MoonMQError('TOPIC_FORBIDDEN', { topic })
    return this.#deps.partitions.partition(topic, partition)
  }

  /** Resolves when every batch is in its place or refused. */
  async append(
    context: RequestContext,
    owner: SequencedOwner,
    packed: readonly PackedBatch[],
    options: SequencedOptions,
  ): Promise<SequencedTicket> {
    const appended: (() => Promise<SequencedOutcome>)[] = []
    for (const { source, bytes, error } of packed) {
      if (bytes === null) appended.push(() => Promise.resolve(refused(error)))
      else appended.push(await this.#appendOne(context, owner, source, bytes, options))
    }
    return { settled: Promise.all(appended.map((settle) => settle())) }
  }

  async #appendOne(
    context: RequestContext,
    owner: SequencedOwner,
    source: SequencedBatch,
    bytes: Buffer,
    options: SequencedOptions,
  ): Promise<() => Promise<SequencedOutcome>> {
    const { topic, partition } = source
    const { producerId, producerEpoch, transactional } = owner
    let baseSequence = source.baseSequence ?? -1
    let isTaken = false
    const ticket = await this.#deps.produce.appendSequenced(
      context,
      {
        topic,
        partition,
        producerId,
        admit: () => owner.admit({ topic, partition }),
        seal: (known) => {
          baseSequence = source.baseSequence ?? nextSequence(known, producerEpoch)
          const header = setProducer(bytes, readBatchHeader(bytes), { producerId, producerEpoch, baseSequence, transactional })
          return { batch: bytes, header }
        },
        taken: () => {
          isTaken = true
        },
      },
      options,
    )
    return async () => {
      const outcome = (await ticket.settled())[0]
      if (outcome === undefined) return refused(new MoonMQError('INTERNAL', { reason: 'an append without an outcome' }))
      return { error: outcome.error, baseSequence: isTaken ? baseSequence : -1, baseOffset: outcome.baseOffset }
    }
  }
}

function refused(error: MoonMQError | null): SequencedOutcome {
  return { error, baseSequence: -1, baseOffset: NO_OFFSET }
}
