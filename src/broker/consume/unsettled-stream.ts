import type { Clock } from '../../core/clock.ts'
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
import { OffsetRanges } from './offset-ranges.ts'

/** Records of one partition that are with the client. */
interface Unsettled {
  readonly topic: string
  readonly partition: number
  readonly open: OffsetRanges
  /** Under which they were given. Once the consumer has another one nobody answers for them any more. */
  readonly position: { readonly offset: number }
}

interface Place {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

export interface StreamDeps {
  readonly consumer: RecordConsumer
  readonly read: (request: ReadRecordsRequest) => Promise<RecordsRead>
  readonly clock: Clock
}

export interface StreamOptions {
  /** Ranges of records without an answer beyond which nothing new is given. */
  readonly maxUnsettled: number
}

/** A record whose refusal could not be stored is given again after this long. */
const RETRY_MS = 1000

/** Owns what is with the client of a stream. Calls of `done` and `failed` come one after another; `next` may run beside them. */
export class UnsettledStream implements RecordStream {
  readonly consumer: RecordConsumer
  readonly #deps: StreamDeps
  readonly #options: StreamOptions
  readonly #unsettled = new Map<string, Unsettled>()
  /** Failed, and to be given again from that time on; each once. */
  readonly #again = new Map<string, Place & { readonly dueMs: number }>()

  constructor(deps: StreamDeps, options: StreamOptions) {
    this.#deps = deps
    this.#options = options
    this.consumer = deps.consumer
  }

  async next(maxRecords: number, maxBytes: number): Promise<StreamRound> {
    const again = this.#takeDue()
    if (again !== undefined) return this.#redeliver(again)
    if (this.#isFull()) return { records: [], isMore: false, release: () => {} }
    const round = await this.consumer.poll(maxRecords, maxBytes, this.#given)
    return { records: round.records, isMore: round.isMoved, release: () => round.release() }
  }

  #takeDue(): Place | undefined {
    if (this.#again.size === 0) return undefined
    const nowMs = this.#deps.clock.nowMs()
    let nextMs = Number.POSITIVE_INFINITY
    for (const [key, place] of this.#again) {
      if (place.dueMs <= nowMs) {
        this.#again.delete(key)
        return place
      }
      nextMs = Math.min(nextMs, place.dueMs)
    }
    this.consumer.wakeAt(nextMs)
    return undefined
  }

  #isFull(): boolean {
    let ranges = 0
    for (const { open } of this.#unsettled.values()) ranges += open.ranges
    return ranges > this.#options.maxUnsettled
  }

  readonly #given = (records: readonly DeliveredRecord[]): void => {
    let found: Unsettled | undefined
    for (const { topic, partition, offset } of records) {
      if (found?.partition !== partition || found.topic !== topic) found = this.#find(topic, partition) ?? this.#begun(topic, partition)
      found?.open.add(offset)
    }
  }

  #begun(topic: string, partition: number): Unsettled | undefined {
    const position = this.consumer.position(topic, partition)
    if (position === undefined) return undefined
    const begun = { topic, partition, open: new OffsetRanges(), position }
    this.#unsettled.set(`${topic}-${partition}`, begun)
    return begun
  }

  async #redeliver({ topic, partition, offset }: Place): Promise<StreamRound> {
    const isThere = () => this.#find(topic, partition)?.open.has(offset) === true
    if (!isThere()) return NOTHING
    try {
      const { isolation } = this.consumer
      const read = await this.#deps.read({ topic, partition, offset, isolation, maxRecords: 1, maxBytes: MIB, maxWaitMs: 0 })
      const [record] = read.records
      if (record?.offset === offset && isThere()) return { records: [record], isMore: true, release: () => read.release() }
      read.release()
    } catch (error) {
      // Retention was faster, or the topic is gone.
      if (!isCode(error, 'OFFSET_OUT_OF_RANGE') && !isCode(error, 'TOPIC_MISSING')) throw error
    }
    this.#find(topic, partition)?.open.delete(offset)
    return NOTHING
  }

  async done(ranges: readonly SettledRange[]): Promise<void> {
    const touched = new Set<Unsettled>()
    for (const { topic, partition, first, last } of ranges) {
      const found = this.#find(topic, partition)
      if (found === undefined || last < first) continue
      touched.add(found)
      found.open.delete(first, last)
    }
    const positions = [...touched].map(({ topic, partition, open, position }) => ({
      topic,
      partition,
      offset: open.first ?? position.offset,
    }))
    if (positions.length > 0) await this.consumer.store(positions)
  }

  async failed(topic: string, partition: number, offset: number, reason: string): Promise<Pick<HeldNack, 'kind' | 'attempts' | 'topic'>> {
    const found = this.#find(topic, partition)
    if (found === undefined || !found.open.has(offset)) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `offset ${offset} of ${topic}-${partition} is not with this connection` })
    }
    const { open, position } = found
    const places = { again: open.first ?? offset, done: open.firstBut(offset) ?? position.offset }
    try {
      const nacked = await this.consumer.nack(topic, partition, offset, reason, places)
      if (nacked.kind === 'again') this.#giveAgain({ topic, partition, offset }, 0)
      else open.delete(offset)
      nacked.settle()
      return nacked
    } catch (error) {
      // The client has given it up: unless somebody else has it now, it comes again.
      if (!isCode(error, 'GROUP_MEMBER_UNKNOWN') && !isCode(error, 'ILLEGAL_GENERATION')) {
        this.#giveAgain({ topic, partition, offset }, this.#deps.clock.nowMs() + RETRY_MS)
      }
      throw error
    }
  }

  #giveAgain(place: Place, dueMs: number): void {
    this.#again.set(`${place.topic}-${place.partition}@${place.offset}`, { ...place, dueMs })
  }

  removeTopic(topic: string): void {
    this.consumer.removeTopic(topic)
    for (const [key, found] of this.#unsettled) if (found.topic === topic) this.#unsettled.delete(key)
    for (const [key, place] of this.#again) if (place.topic === topic) this.#again.delete(key)
  }

  /** A partition that is not read by this client any more, or anew, leaves nothing to answer for. */
  #find(topic: string, partition: number): Unsettled | undefined {
    const key = `${topic}-${partition}`
    const found = this.#unsettled.get(key)
    if (found === undefined || found.position === this.consumer.position(topic, partition)) return found
    this.#unsettled.delete(key)
    return undefined
  }
}

const NOTHING: StreamRound = { records: [], isMore: true, release: () => {} }
