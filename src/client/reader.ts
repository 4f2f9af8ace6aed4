import type { Clock } from '../core/clock.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import { MAX_FETCH_RECORDS } from '../wire/limits.ts'
import { describe } from './admin.ts'
import type { Link } from './link.ts'
import { invalid } from './options.ts'
import { type Round, TopicCursor } from './topic-cursor.ts'
import type { ClientRecord, PartitionDescription, Reader, ReaderOptions, TopicDescription } from './types.ts'

/** How long the broker waits for records when there are none. */
const FOLLOW_WAIT_MS = 5_000
/** How often a reader of all partitions looks whether the topic has grown. */
const GROWTH_MS = 30_000

export interface ReaderDeps {
  readonly link: Link
  readonly clock: Clock
  /** What the topic is when reading begins. */
  readonly find: () => Promise<TopicDescription>
}

/** Reads without a group. One that follows has its connection for itself: a READ that waits holds up whatever else is on it. */
export class TopicReader implements Reader {
  readonly #link: Link
  readonly #clock: Clock
  readonly #find: () => Promise<TopicDescription>
  readonly #options: ReaderOptions
  readonly #onClose: () => Promise<void>
  #closing: Promise<void> | null = null
  #started = false

  constructor(deps: ReaderDeps, options: ReaderOptions, onClose: () => Promise<void>) {
    this.#link = deps.link
    this.#clock = deps.clock
    this.#find = deps.find
    this.#options = options
    this.#onClose = onClose
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ClientRecord> {
    if (this.#started) throw invalid('a reader is read once')
    this.#started = true
    try {
      yield* this.#run()
    } catch (error) {
      // Closing it is how its owner ends the loop from elsewhere.
      if (!(isCode(error, 'CLOSED') && this.#link.signal.aborted)) throw error
    } finally {
      await this.close()
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#onClose()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async *#run(): AsyncGenerator<ClientRecord> {
    const { topic, from = 'earliest', positions, follow = false, isolation = 'read_uncommitted', maxBytes = MIB, signal } = this.#options
    const cursor = new TopicCursor(this.#link, { topic, isolation, maxBytes, maxRecords: MAX_FETCH_RECORDS, signal })
    const found = await this.#find()
    const ends = new Map<number, number>()
    for (const each of this.#chosen(found)) {
      const offset = positions?.get(each.partition)
      cursor.begin(each.partition, offset === undefined ? from : { offset })
      ends.set(each.partition, isolation === 'read_committed' ? each.lastStableOffset : each.highWatermark)
    }
    if (follow) yield* this.#follow(cursor)
    else yield* this.#toEnd(cursor, ends)
  }

  #chosen(found: TopicDescription): readonly PartitionDescription[] {
    const { partitions } = this.#options
    if (partitions === undefined) return found.partitions
    return partitions.map((partition) => {
      const each = found.partitions[partition]
      if (each === undefined) throw new MoonMQError('PARTITION_MISSING', { topic: found.name, partition })
      return each
    })
  }

  async *#toEnd(cursor: TopicCursor, ends: ReadonlyMap<number, number>): AsyncGenerator<ClientRecord> {
    // Nothing is left where a reader stands at the end. Past it, or in a partition that is offline and has none, the read says why.
    for (const [partition, end] of ends) if ((cursor.position(partition) ?? (end === 0 ? 0 : null)) === end) cursor.drop(partition)
    let next = cursor.partitions.length > 0 ? ahead(cursor.read(0)) : null
    while (next !== null) {
      const { records } = await next
      for (const [partition, end] of ends) if ((cursor.position(partition) ?? -1) >= end) cursor.drop(partition)
      next = cursor.partitions.length > 0 ? ahead(cursor.read(0)) : null
      for (const record of records) if (record.offset < (ends.get(record.partition) ?? 0)) yield record
    }
  }

  async *#follow(cursor: TopicCursor): AsyncGenerator<ClientRecord> {
    let checkedMs = this.#clock.monotonicMs()
    let next = ahead(cursor.read(FOLLOW_WAIT_MS))
    for (;;) {
      const { records } = await next
      if (this.#options.partitions === undefined && this.#clock.monotonicMs() - checkedMs >= GROWTH_MS) {
        await this.#grow(cursor)
        checkedMs = this.#clock.monotonicMs()
      }
      next = ahead(cursor.read(FOLLOW_WAIT_MS))
      yield* records
    }
  }

  async #grow(cursor: TopicCursor): Promise<void> {
    const { topic, signal } = this.#options
    for (const { partition } of (await describe(this.#link, topic, signal)).partitions) {
      if (!cursor.has(partition)) cursor.begin(partition, 'earliest')
    }
  }
}

/** Read while what is there is looked at. A failure is told when its turn comes, or to nobody when the loop ends before. */
function ahead(reading: Promise<Round>): Promise<Round> {
  reading.catch(() => undefined)
  return reading
}
