import type { MoonMQError } from '../core/errors.ts'
import type { IsolationLevel } from '../core/types.ts'
import { fromWire } from '../wire/errors.ts'
import type { Message } from '../wire/messages.ts'
import { ISOLATION_READ_COMMITTED, START_EARLIEST, START_LATEST, START_OFFSET, START_TIME } from '../wire/opcodes.ts'
import { type Link, passes } from './link.ts'
import { invalid } from './options.ts'
import type { ClientRecord, StartPosition } from './types.ts'

/** Where the next READ of a partition begins. */
export interface Place {
  readonly start: number
  readonly value: number
}

export interface CursorOptions {
  readonly topic: string
  readonly isolation: IsolationLevel
  readonly maxRecords: number
  readonly maxBytes: number
  readonly signal?: AbortSignal | undefined
}

/** What one request brought. `moved`: positions went on, though perhaps past nothing that is shown. */
export interface Round {
  readonly records: readonly ClientRecord[]
  readonly moved: boolean
}

const NOTHING: Round = { records: [], moved: false }
const EARLIEST: Place = { start: START_EARLIEST, value: 0 }

/** Positions in the partitions of a topic, moved on by READ. */
export class TopicCursor {
  readonly #link: Link
  readonly #options: CursorOptions
  readonly #places = new Map<number, Place>()
  /** Positions that a READ has confirmed: one of them that is out of range now was overtaken by retention. */
  readonly #confirmed = new Set<number>()

  constructor(link: Link, options: CursorOptions) {
    this.#link = link
    this.#options = options
  }

  get partitions(): readonly number[] {
    return [...this.#places.keys()]
  }

  has(partition: number): boolean {
    return this.#places.has(partition)
  }

  /** Throws INVALID_REQUEST. */
  begin(partition: number, from: StartPosition): void {
    this.#places.set(partition, placeOf(from))
  }

  /** The group has been here before: what retention took since is skipped. */
  resume(partition: number, offset: number): void {
    this.#places.set(partition, { start: START_OFFSET, value: offset })
    this.#confirmed.add(partition)
  }

  drop(partition: number): void {
    this.#places.delete(partition)
  }

  /** The next offset to read, once it is known. */
  position(partition: number): number | undefined {
    const place = this.#places.get(partition)
    return place?.start === START_OFFSET ? place.value : undefined
  }

  /** One READ of every partition, tried again while the broker restarts. Nothing is asked, and nothing comes, when every partition was dropped. */
  async read(waitMs: number): Promise<Round> {
    const { signal } = this.#options
    return this.#link.retrying(() => this.#readOnce(waitMs), signal)
  }

  async #readOnce(waitMs: number): Promise<Round> {
    const { topic, isolation, maxRecords, maxBytes, signal } = this.#options
    const asked = new Map(this.#places)
    // Dropped since, or between two tries, by a consumer that has lost its place in the group.
    if (asked.size === 0) return NOTHING
    const partitions = [...asked].map(([partition, { start, value }]) => ({ partition, start, value }))
    // A little room in turn for each: the broker fills the answer in the order of the request.
    if (partitions.length > 1) partitions.push(...partitions.splice(0, this.#turn++ % partitions.length))
    const result = await this.#link.request(
      'READ',
      {
        topic,
        isolation: isolation === 'read_committed' ? ISOLATION_READ_COMMITTED : 0,
        maxRecords,
        maxBytes,
        maxWaitMs: waitMs,
        partitions,
      },
      'READ_RESULT',
      { waitMs, signal },
    )
    const records: ClientRecord[] = []
    let moved = false
    let failure: MoonMQError | null = null
    for (const part of result.partitions) {
      const before = this.#places.get(part.partition)
      // Dropped meanwhile, or begun anew elsewhere.
      if (before === undefined || before !== asked.get(part.partition)) continue
      if (part.code !== 0) {
        failure = this.#refused(part) ?? failure
        continue
      }
      this.#confirmed.add(part.partition)
      this.#places.set(part.partition, { start: START_OFFSET, value: part.nextOffset })
      moved ||= before.start === START_OFFSET && before.value !== part.nextOffset
      for (const record of part.records) records.push({ topic, partition: part.partition, ...record })
    }
    // What passes is told only when there is nothing else: the other partitions go on.
    if (failure !== null && (records.length === 0 || !passes(failure))) throw failure
    return { records, moved: moved || records.length > 0 }
  }

  #turn = 0

  #refused(part: Message<'READ_RESULT'>['partitions'][number]): MoonMQError | null {
    const error = fromWire({ code: part.code, message: part.errorMessage ?? '', name: part.errorName })
    if (error.code !== 'OFFSET_OUT_OF_RANGE' || !this.#confirmed.has(part.partition)) return error
    const position = this.position(part.partition)
    if (position === undefined || position >= part.earliest) return error
    this.#places.set(part.partition, EARLIEST)
    return null
  }
}

export function placeOf(from: StartPosition): Place {
  if (from === 'earliest') return EARLIEST
  if (from === 'latest') return { start: START_LATEST, value: 0 }
  const [start, value] = 'offset' in from ? [START_OFFSET, from.offset] : [START_TIME, from.timestampMs]
  if (!Number.isSafeInteger(value)) throw invalid(`${value} is not a whole number`)
  return { start, value }
}
