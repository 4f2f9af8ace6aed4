import { Backoff } from '../../core/backoff.ts'
import { type Clock, sleep } from '../../core/clock.ts'
import { asMoonMQError, isCode } from '../../core/errors.ts'
import { MIB } from '../../core/limits.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import type { TopicImage } from '../../metadata/types.ts'
import { INTERNAL_CONTEXT } from '../context.ts'
import type { DeadLetters } from '../dlq/dead-letters.ts'
import type { DeadLetter } from '../dlq/provenance.ts'
import type { RecordPort } from '../ports.ts'
import type { DeadWork, ShareEntry } from './share-entry.ts'
import type { DeadRange, OffsetRange } from './share-types.ts'

export interface DeadWorkDeps {
  readonly letters: DeadLetters
  readonly records: Pick<RecordPort, 'read'>
  readonly topicById: (id: string) => TopicImage | undefined
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  /** Resolves when everything that is stored of the entry is durable. */
  readonly whenDurable: (entry: ShareEntry) => Promise<void> | undefined
  /** These records are done with. */
  readonly onMoved: (entry: ShareEntry, range: OffsetRange) => void
}

/** Records that are moved together. */
const CHUNK_RECORDS = 500
const RETRY = { initialMs: 1000, maxMs: 60_000 }

/**
 * Moves the dead records of share partitions, those of one partition one after another. Order of becoming durable: that a record is on its
 * way, its dead letter, that it is done with. What cannot be moved stays on its way, however long it takes, also over a restart.
 */
export class DeadMoves {
  readonly #deps: DeadWorkDeps
  readonly #stop = new AbortController()
  readonly #running = new Set<Promise<void>>()

  constructor(deps: DeadWorkDeps) {
    this.#deps = deps
  }

  add(entry: ShareEntry, dead: readonly DeadRange[]): void {
    if (dead.length === 0) return
    for (const range of dead) entry.dead.push({ ...range, mayRepeat: range.reason === 'resumed' })
    if (entry.isMoving || this.#stop.signal.aborted) return
    entry.isMoving = true
    const running = this.#run(entry).finally(() => {
      entry.isMoving = false
      this.#running.delete(running)
    })
    this.#running.add(running)
  }

  async #run(entry: ShareEntry): Promise<void> {
    const retry = new Backoff(this.#deps.random, RETRY)
    for (;;) {
      const work = entry.dead[0]
      if (work === undefined || entry.isGone || this.#stop.signal.aborted) return
      try {
        await this.#deps.whenDurable(entry)
        await this.#move(entry, work)
        if (entry.isGone) return
        retry.reset()
        // Otherwise the group was moved meanwhile: what is first now is not what was carried away.
        if (entry.dead[0] !== work) continue
        entry.dead.shift()
        this.#deps.onMoved(entry, work)
      } catch (error) {
        if (entry.isGone) return
        // It may have come through all the same.
        if (entry.dead[0] === work) entry.dead[0] = { ...work, mayRepeat: true }
        if (!(await this.#wait(entry, work, error, retry))) return
      }
    }
  }

  /** False when the broker stops. */
  async #wait(entry: ShareEntry, work: DeadWork, error: unknown, retry: Backoff): Promise<boolean> {
    const { clock, log } = this.#deps
    const delayMs = retry.nextMs()
    const { group, partition } = entry.id
    const topic = this.#deps.topicById(entry.id.topicId)?.name ?? entry.id.topicId
    const text = `records of ${topic}-${partition} stay with group "${group}" until they can be moved to the dead-letter topic: ${asMoonMQError(error).message}`
    const fields = { group, topic, partition, first: work.first, last: work.last, retryInMs: Math.round(delayMs) }
    log[retry.attempts <= 1 ? 'warn' : 'debug']('dlq.not_moved', text, fields)
    try {
      await sleep(clock, delayMs, this.#stop.signal)
      return true
    } catch {
      return false
    }
  }

  async #move(entry: ShareEntry, work: DeadWork): Promise<void> {
    const topic = this.#deps.topicById(entry.id.topicId)
    // Without its topic there is no record, and a topic that keeps none lets its records go.
    if (topic === undefined || this.#deps.letters.deathOf({ topic: topic.name }, entry.id.group) !== 'kept') return
    let offset = work.first
    while (offset <= work.last && !entry.isGone) offset = await this.#moveChunk(entry, topic.name, offset, work)
  }

  /** Moves what one read gives; returns where to go on. */
  async #moveChunk(entry: ShareEntry, topic: string, offset: number, work: DeadWork): Promise<number> {
    const { group, partition } = entry.id
    let read: Awaited<ReturnType<RecordPort['read']>>
    try {
      read = await this.#deps.records.read(INTERNAL_CONTEXT, {
        topic,
        partition,
        offset,
        isolation: 'read_uncommitted',
        maxRecords: Math.min(CHUNK_RECORDS, work.last - offset + 1),
        maxBytes: MIB,
        maxWaitMs: 0,
      })
    } catch (error) {
      // Retention was faster: there is nothing left to keep.
      if (isCode(error, 'OFFSET_OUT_OF_RANGE')) return work.last + 1
      throw error
    }
    try {
      const letters = read.records
        .filter((record) => record.offset <= work.last && this.#deps.letters.deathOf(record, group) === 'kept')
        .map((record): DeadLetter => ({ ...record, group, attempts: work.deliveries, reason: reasonOf(work) }))
      await this.#deps.letters.move(letters, { mayRepeat: work.mayRepeat })
      return Math.max(read.nextOffset, offset + 1)
    } finally {
      read.release()
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.all(this.#running)
  }
}

function reasonOf({ reason, deliveries }: DeadWork): string {
  switch (reason) {
    case 'rejected':
      return 'a consumer rejected it'
    case 'exhausted':
      return `it was delivered ${deliveries} times and never accepted`
    case 'resumed':
      return 'it was rejected, or delivered as often as it may be'
  }
}
