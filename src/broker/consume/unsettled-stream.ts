import { isCode, MoonMQError } from '../../core/errors.ts'
import { MIB } from '../../core/limits.ts'
import type {
  DeliveredRecord,
  HeldNack,
  ReadRecordsRequest,
  RecordConsumer,
  RecordStream,
  RecordsRead,
  SettledRange,
  StreamRound,
} from '../ports.ts'

/** Records of one partition that are with the client, in the order of their offsets. */
interface Unsettled {
  readonly topic: string
  readonly partition: number
  readonly offsets: Set<number>
  /** One more than the highest offset that was given: a topic that was made again begins below it. */
  end: number
}

interface Place {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

export interface StreamDeps {
  readonly consumer: RecordConsumer
  readonly read: (request: ReadRecordsRequest) => Promise<RecordsRead>
}

/** Owns what is with the client of a stream. Calls of `done` and `failed` come one after another; `next` may run beside them. */
export class UnsettledStream implements RecordStream {
  readonly consumer: RecordConsumer
  readonly #read: StreamDeps['read']
  readonly #unsettled = new Map<string, Unsettled>()
  /** Failed, and to be given again. */
  #again: Place[] = []

  constructor({ consumer, read }: StreamDeps) {
    this.consumer = consumer
    this.#read = read
  }

  async next(maxRecords: number, maxBytes: number): Promise<StreamRound> {
    const again = this.#again.shift()
    if (again !== undefined) return this.#redeliver(again)
    const round = await this.consumer.poll(maxRecords, maxBytes)
    for (const record of round.records) this.#given(record)
    return { records: round.records, isMore: round.isMoved, release: () => round.release() }
  }

  #given({ topic, partition, offset }: DeliveredRecord): void {
    const key = `${topic}-${partition}`
    let found = this.#unsettled.get(key)
    if (found === undefined || offset < found.end) {
      found = { topic, partition, offsets: new Set(), end: 0 }
      this.#unsettled.set(key, found)
    }
    found.offsets.add(offset)
    found.end = offset + 1
  }

  async #redeliver({ topic, partition, offset }: Place): Promise<StreamRound> {
    const isThere = () => this.#find(topic, partition)?.offsets.has(offset) === true
    if (!isThere()) return NOTHING
    try {
      const { isolation } = this.consumer
      const read = await this.#read({ topic, partition, offset, isolation, maxRecords: 1, maxBytes: MIB, maxWaitMs: 0 })
      const [record] = read.records
      if (record?.offset === offset && isThere()) return { records: [record], isMore: true, release: () => read.release() }
      read.release()
    } catch (error) {
      // Retention was faster, or the topic is gone.
      if (!isCode(error, 'OFFSET_OUT_OF_RANGE') && !isCode(error, 'TOPIC_MISSING')) throw error
    }
    this.#find(topic, partition)?.offsets.delete(offset)
    return NOTHING
  }

  async done(ranges: readonly SettledRange[]): Promise<void> {
    const touched = new Set<Unsettled>()
    for (const { topic, partition, first, last } of ranges) {
      const found = this.#find(topic, partition)
      if (found === undefined || last < first) continue
      touched.add(found)
      if (last - first < found.offsets.size) for (let offset = first; offset <= last; offset++) found.offsets.delete(offset)
      else for (const offset of found.offsets) if (offset >= first && offset <= last) found.offsets.delete(offset)
    }
    const positions = [...touched].flatMap((each) => {
      const offset = this.#committable(each)
      return offset === undefined ? [] : [{ topic: each.topic, partition: each.partition, offset }]
    })
    if (positions.length > 0) await this.consumer.store(positions)
  }

  async failed(topic: string, partition: number, offset: number, reason: string): Promise<Pick<HeldNack, 'kind' | 'attempts' | 'topic'>> {
    const found = this.#find(topic, partition)
    const again = found === undefined ? undefined : this.#committable(found)
    if (found === undefined || again === undefined || !found.offsets.has(offset)) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `offset ${offset} of ${topic}-${partition} is not with this connection` })
    }
    const done = this.#committable(found, offset) ?? again
    const nacked = await this.consumer.nack(topic, partition, offset, reason, { again, done })
    if (nacked.kind === 'moved') found.offsets.delete(offset)
    else this.#again.push({ topic, partition, offset })
    nacked.settle()
    return nacked
  }

  removeTopic(topic: string): void {
    this.consumer.removeTopic(topic)
    for (const [key, found] of this.#unsettled) if (found.topic === topic) this.#unsettled.delete(key)
    this.#again = this.#again.filter((each) => each.topic !== topic)
  }

  /** A partition that is not read by this client any more leaves nothing to answer for. */
  #find(topic: string, partition: number): Unsettled | undefined {
    if (this.consumer.position(topic, partition) !== undefined) return this.#unsettled.get(`${topic}-${partition}`)
    this.#unsettled.delete(`${topic}-${partition}`)
    return undefined
  }

  /** The first that is not answered for; `but`: as if this one were. */
  #committable({ topic, partition, offsets }: Unsettled, but = -1): number | undefined {
    for (const offset of offsets) if (offset !== but) return offset
    return this.consumer.position(topic, partition)
  }
}

const NOTHING: StreamRound = { records: [], isMore: true, release: () => {} }
