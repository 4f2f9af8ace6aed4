import type { Clock } from '../core/clock.ts'
import { MIB } from '../core/limits.ts'
import type { Logger } from '../core/logger.ts'
import type { Inflater } from '../record/inflater.ts'
import { type ConsumerDeps, ConsumerSession } from './consume/consumer-session.ts'
import { PartialSections } from './consume/partial-sections.ts'
import { RecordReader } from './consume/record-reader.ts'
import { UnsettledStream } from './consume/unsettled-stream.ts'
import type { RequestContext } from './context.ts'
import type { Nacks } from './dlq/nacks.ts'
import type {
  ConsumerOptions,
  FetchPort,
  GroupPort,
  OutgoingRecord,
  ReadRecordsRequest,
  ReadTopicRequest,
  RecordConsumer,
  RecordOutcome,
  RecordPort,
  RecordProduceOptions,
  RecordStream,
  RecordsRead,
  TopicRead,
} from './ports.ts'
import type { RecordProducer } from './produce/record-producer.ts'
import type { Partitions } from './topics/partitions.ts'

/** Memory for batches of which somebody has read a part. */
const PARTIAL_BYTES = 16 * MIB

/** Of one stream: about 2 MiB, and as much again with its client. */
const MAX_UNSETTLED = 100_000

/** The broker for doors that speak of records. */
export class Records implements RecordPort {
  readonly #producer: RecordProducer
  readonly #reader: RecordReader
  readonly #deps: ConsumerDeps

  constructor(deps: {
    partitions: Partitions
    groups: GroupPort
    inflater: Inflater
    log: Logger
    clock: Clock
    nacks: () => Nacks
    fetch: FetchPort
    producer: RecordProducer
  }) {
    const { partitions, groups, inflater, log, clock, nacks, fetch } = deps
    this.#deps = { partitions, groups, inflater, log, clock, nacks, partial: new PartialSections({ maxBytes: PARTIAL_BYTES }) }
    this.#producer = deps.producer
    this.#reader = new RecordReader({ ...this.#deps, fetch })
  }

  produce(context: RequestContext, records: readonly OutgoingRecord[], options: RecordProduceOptions): Promise<readonly RecordOutcome[]> {
    return this.#producer.produce(context, records, options)
  }

  read(context: RequestContext, request: ReadRecordsRequest): Promise<RecordsRead> {
    return this.#reader.read(context, request)
  }

  readTopic(context: RequestContext, request: ReadTopicRequest): Promise<TopicRead> {
    return this.#reader.readTopic(context, request)
  }

  openConsumer(context: RequestContext, options: ConsumerOptions): RecordConsumer {
    return new ConsumerSession(this.#deps, context, options)
  }

  openStream(context: RequestContext, options: ConsumerOptions): RecordStream {
    const consumer = this.openConsumer(context, options)
    const { clock } = this.#deps
    return new UnsettledStream({ consumer, clock, read: (request) => this.read(context, request) }, { maxUnsettled: MAX_UNSETTLED })
  }
}
