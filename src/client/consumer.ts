import type { Clock } from '../core/clock.ts'
import { asMoonMQError, isCode, type MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import { MAX_FETCH_RECORDS } from '../wire/limits.ts'
import type { Link } from './link.ts'
import { invalid } from './options.ts'
import { ahead } from './reader.ts'
import { type Round, TopicCursor } from './topic-cursor.ts'
import type { ClientRecord, Consumer, ConsumerOptions } from './types.ts'

const DEFAULT_RECORDS = 500
const DEFAULT_IDLE_MS = 100
const GROWTH_MS = 30_000
/** Positions in one request. */
const MAX_POSITIONS = 10_000

interface Links {
  /** For READ, which may wait. */
  readonly reading: Link
  /** For commits, which must not wait behind it. */
  readonly commits: Link
}

/**
 * Reads as a group from its committed offsets, outside of membership. A record counts as done when the loop asks for the next one; what
 * is done is committed in the background, one request at a time with the newest positions, and once more at the end.
 */
export class GroupConsumer implements Consumer {
  readonly #links: Links
  readonly #clock: Clock
  readonly #options: ConsumerOptions
  readonly #onClose: () => void
  readonly #cursors = new Map<string, TopicCursor>()
  /** Positions that are done and not sent, by topic and partition. */
  #dirty = new Map<string, Map<number, number>>()
  #committing: Promise<void> | null = null
  #failure: MoonMQError | null = null
  #started = false
  #closing: Promise<void> | null = null

  constructor(deps: { links: Links; clock: Clock }, options: ConsumerOptions, onClose: () => void) {
    if (options.topics.length === 0) throw invalid('a consumer needs a topic')
    this.#links = deps.links
    this.#clock = deps.clock
    this.#options = options
    this.#onClose = onClose
    for (const topic of options.topics) {
      this.#cursors.set(
        topic,
        new TopicCursor(deps.links.reading, {
          topic,
          isolation: options.isolation ?? 'read_uncommitted',
          maxBytes: MIB,
          maxRecords: Math.min(options.maxRecords ?? DEFAULT_RECORDS, MAX_FETCH_RECORDS),
          signal: options.signal,
        }),
      )
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ClientRecord> {
    if (this.#started) throw invalid('a consumer is read once')
    this.#started = true
    try {
      yield* this.#run()
    } catch (error) {
      if (!(isCode(error, 'CLOSED') && this.#links.reading.signal.aborted)) throw error
    } finally {
      await this.close()
    }
  }

  async commit(record: ClientRecord): Promise<void> {
    const { group, signal } = this.#options
    const { topic, partition, offset } = record
    const message = { group, offsets: [{ topic, partition, offset: offset + 1 }] }
    await this.#links.commits.retrying(() => this.#links.commits.request('STORE_POSITIONS', message, 'OK', { signal }), signal)
  }

  /** Commits what is done, then ends. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    await this.#links.reading.close()
    try {
      while (this.#committing !== null) await this.#committing
      if (this.#failure !== null) throw this.#failure
    } finally {
      await this.#links.commits.close()
      this.#onClose()
    }
  }

  async *#run(): AsyncGenerator<ClientRecord> {
    const commitAfter = (this.#options.commit ?? 'after') === 'after'
    await this.#findPositions()
    let checkedMs = this.#clock.monotonicMs()
    let next = ahead(this.#poll())
    for (;;) {
      const { records, moved } = await next
      if (!moved && this.#options.endWhenIdle === true) return
      if (this.#clock.monotonicMs() - checkedMs >= GROWTH_MS) {
        await this.#findPositions()
        checkedMs = this.#clock.monotonicMs()
      }
      next = ahead(this.#poll())
      for (const record of records) {
        yield record
        if (commitAfter) this.#done(record)
        if (this.#failure !== null) throw this.#failure
      }
    }
  }

  /** One look at every topic; when there is nothing, the last of them waits. */
  async #poll(): Promise<Round> {
    const cursors = [...this.#cursors.values()].filter((cursor) => cursor.partitions.length > 0)
    const last = cursors.pop()
    const rounds: Round[] = []
    for (const cursor of cursors) rounds.push(await cursor.read(0))
    const idleMs = this.#options.idleMs ?? DEFAULT_IDLE_MS
    if (last === undefined) {
      await this.#links.reading.pause(idleMs, this.#options.signal)
      return { records: [], moved: false }
    }
    rounds.push(await last.read(rounds.some((round) => round.moved) ? 0 : idleMs))
    return { records: rounds.flatMap((round) => round.records), moved: rounds.some((round) => round.moved) }
  }

  /** Where the group is in partitions that are new here. */
  async #findPositions(): Promise<void> {
    const { group, topics, signal } = this.#options
    const link = this.#links.commits
    const found = await link.retrying(() => link.request('GET_POSITIONS', { group, topics }, 'POSITIONS', { signal }), signal)
    for (const { topic, offsets } of found.topics) {
      const cursor = this.#cursors.get(topic)
      for (const [partition, offset] of offsets.entries()) {
        if (cursor === undefined || cursor.has(partition)) continue
        if (offset < 0) cursor.begin(partition, 'earliest')
        else cursor.resume(partition, offset)
      }
    }
  }

  #done(record: ClientRecord): void {
    let positions = this.#dirty.get(record.topic)
    if (positions === undefined) {
      positions = new Map()
      this.#dirty.set(record.topic, positions)
    }
    positions.set(record.partition, record.offset + 1)
    this.#committing ??= this.#commitDirty()
  }

  /** Runs until there is nothing to commit. Never rejects: the loop and `close` tell the failure. */
  async #commitDirty(): Promise<void> {
    const { group } = this.#options
    const link = this.#links.commits
    try {
      while (this.#dirty.size > 0) {
        const dirty = this.#dirty
        this.#dirty = new Map()
        const offsets = [...dirty].flatMap(([topic, positions]) =>
          [...positions].map(([partition, offset]) => ({ topic, partition, offset })),
        )
        for (let at = 0; at < offsets.length; at += MAX_POSITIONS) {
          const message = { group, offsets: offsets.slice(at, at + MAX_POSITIONS) }
          await link.retrying(() => link.request('STORE_POSITIONS', message, 'OK'))
        }
      }
    } catch (error) {
      this.#failure ??= asMoonMQError(error)
    } finally {
      this.#committing = null
    }
  }
}
