import type { Clock } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { asMoonMQError, isCode, MoonMQError } from '../../core/errors.ts'
import { MIB } from '../../core/limits.ts'
import type { Logger } from '../../core/logger.ts'
import type { TopicImage } from '../../metadata/types.ts'
import { provenanceOf } from '../../record/dead-letter.ts'
import type { RecordHeader } from '../../record/record.ts'
import { INTERNAL_CONTEXT } from '../context.ts'
import type { OffsetPort, OutgoingRecord, RecordPort, TopicPort } from '../ports.ts'
import type { GroupSettings } from '../settings.ts'
import type { Partitions } from '../topics/partitions.ts'
import { type DeadLetter, LETTER_ROOM_BYTES, letterHeaders, originKey } from './provenance.ts'

export interface DeadLetterDeps {
  readonly topics: TopicPort
  readonly partitions: Partitions
  readonly records: Pick<RecordPort, 'produce' | 'read'>
  readonly offsets: OffsetPort
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
  readonly groupSettings: GroupSettings
}

export interface DeadLetterOptions {
  /** What is added to the name of a topic for its dead letters: `server.dlq.suffix`. */
  readonly suffix: string
}

/** `kept`: in the dead-letter topic. `dropped`: its topic wants no copy. `stays`: it is a dead letter already, and delivered again. */
export type DeathOf = 'kept' | 'dropped' | 'stays'

/** Where records are moved to: the dead-letter topic, or a tier of the topics of those that wait for their next try. */
export interface Move {
  /** An earlier try may have come through, so those that are found among the latest of the partition are left out. */
  readonly mayRepeat: boolean
  /** Wall time before which nothing can have come through; what is older is of an earlier life of the group or the topic. */
  readonly sinceMs?: number
  /** From 1; absent: they are dead. */
  readonly tier?: number | undefined
}

interface Target {
  readonly name: string
  readonly kind: 'dead' | 'retry'
}

const TIMEOUT_MS = 30_000
const MAX_MESSAGE_BYTES = 'max.message.bytes'
const NOT_COMPRESSED = 0
const GZIP = 1
/** How far back a letter is looked for that may have been moved before. */
const LOOK_BACK_RECORDS = 10_000
const LOOK_BACK_READ_RECORDS = 1000

/**
 * Dead letters (DESIGN D11), for share groups and NACK alike: what is not delivered any more is kept in a topic of its own, with its key, value
 * and headers as they were and where it came from. Whoever moves a record does not count it as done before `move` has resolved.
 */
export class DeadLetters {
  readonly #deps: DeadLetterDeps
  readonly #options: DeadLetterOptions
  /** Topics being made, by name: others that need the same one wait for it. */
  readonly #making = new Map<string, Promise<TopicImage>>()

  constructor(deps: DeadLetterDeps, options: DeadLetterOptions) {
    this.#deps = deps
    this.#options = options
  }

  /** What becomes of a record that the group gives up; without headers, of most of the topic. */
  deathOf({ topic, headers }: { readonly topic: string; readonly headers?: readonly RecordHeader[] }, group: string): DeathOf {
    if (topic.endsWith(this.#options.suffix) || this.nameFor(topic, group) === topic) return 'stays'
    // Whichever group reads it: the topic is where the group of the letter keeps its dead.
    const origin = headers === undefined ? null : provenanceOf(headers)
    if (origin !== null && this.nameFor(origin.topic, origin.group) === topic) return 'stays'
    return this.#deps.partitions.topic(topic)?.settings.keepsDeadLetters === true ? 'kept' : 'dropped'
  }

  /** The dead-letter topic. */
  nameFor(topic: string, group: string): string {
    // The one that the group has chosen for all of its dead letters, else that of the topic.
    return this.#deps.groupSettings.text(group, 'errors.deadletterqueue.topic.name') || topic + this.#options.suffix
  }

  /**
   * Moves records of one partition. Durable when it resolves, with the name of the topic that they are in. Throws what keeps a record from
   * being moved; then it must stay where it is.
   */
  async move(letters: readonly DeadLetter[], { mayRepeat, sinceMs = 0, tier }: Move): Promise<string> {
    const [first] = letters
    if (first === undefined) return ''
    try {
      const target: Target =
        tier === undefined
          ? { name: this.nameFor(first.topic, first.group), kind: 'dead' }
          : { name: tierName(first.topic, tier), kind: 'retry' }
      const topic = await this.#topic(first.topic, target)
      const partition = first.partition % topic.partitions.length
      const missing = mayRepeat ? await this.#notYetThere(target, partition, letters, sinceMs) : letters
      await this.#append(target, partition, missing)
      const counter = target.kind === 'dead' ? 'moonmq_dlq_records_total' : 'moonmq_retry_records_total'
      this.#deps.metrics.counter(counter, { topic: first.topic }).add(missing.length)
      return target.name
    } catch (error) {
      this.#deps.metrics.counter('moonmq_dlq_failed_total', { error: asMoonMQError(error).code }).add(letters.length)
      throw error
    }
  }

  async #append(target: Target, partition: number, letters: readonly DeadLetter[]): Promise<void> {
    const { name: topic, kind } = target
    const [first] = letters
    if (first === undefined) return
    const nowMs = this.#deps.clock.nowMs()
    const records = letters.map((letter): OutgoingRecord => {
      const { key, value } = letter
      return { topic, partition, key, value, headers: letterHeaders(letter, nowMs, kind), timestampMs: nowMs }
    })
    let tooLarge = await this.#write(records, NOT_COMPRESSED)
    if (tooLarge.length > 0 && (await this.#widen(first.topic, target))) tooLarge = await this.#write(tooLarge, NOT_COMPRESSED)
    // What came compressed may only fit compressed.
    const failed = tooLarge.length === 0 ? [] : await this.#write(tooLarge, GZIP)
    if (failed.length > 0) throw new MoonMQError('RECORD_TOO_LARGE', this.#sizes(topic, failed))
  }

  /**
   * The topic of the letters was made for smaller records than its source takes by now: it gets their room. False when it has that, or is one
   * that the group has named, with a limit that somebody chose.
   */
  async #widen(source: string, { name, kind }: Target): Promise<boolean> {
    const { topics, partitions, log } = this.#deps
    if (kind === 'dead' && name !== source + this.#options.suffix) return false
    const room = this.#roomFor(source)
    if ((partitions.topic(name)?.settings.log.maxMessageBytes ?? room) >= room) return false
    const changes = [{ name: MAX_MESSAGE_BYTES, operation: 'set', value: String(room) }] as const
    await topics.alterConfig(INTERNAL_CONTEXT, { name, changes })
    log.info('dlq.topic_widened', `topic "${name}" now takes records of ${room} bytes, as "${source}" does`, { topic: source, dlq: name })
    return true
  }

  #roomFor(source: string): number {
    const served = this.#deps.partitions.topic(source)
    if (served === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: source })
    return Math.min(2 ** 31 - 1, served.settings.log.maxMessageBytes + LETTER_ROOM_BYTES)
  }

  /** Gives back those that are too large for the topic. */
  async #write(records: readonly OutgoingRecord[], codec: number): Promise<OutgoingRecord[]> {
    const outcomes = await this.#deps.records.produce(INTERNAL_CONTEXT, records, { acks: 'all', codec, timeoutMs: TIMEOUT_MS })
    const tooLarge: OutgoingRecord[] = []
    for (const [at, { error }] of outcomes.entries()) {
      if (isCode(error, 'RECORD_TOO_LARGE')) tooLarge.push(records[at] as OutgoingRecord)
      else if (error !== null) throw error
    }
    return tooLarge
  }

  #sizes(topic: string, records: readonly OutgoingRecord[]): { size: number; limit: number } {
    const sizes = records.map(({ key, value }) => (key?.length ?? 0) + (value?.length ?? 0))
    return { size: Math.max(...sizes), limit: this.#deps.partitions.topic(topic)?.settings.log.maxMessageBytes ?? 0 }
  }

  /** The letters that are not among the latest records of the partition. */
  async #notYetThere(
    { name: topic, kind }: Target,
    partition: number,
    letters: readonly DeadLetter[],
    sinceMs: number,
  ): Promise<readonly DeadLetter[]> {
    const wanted = new Map(letters.map((letter) => [originKey(letter), letter]))
    const { earliest, highWatermark } = this.#deps.offsets.bounds(INTERNAL_CONTEXT, topic, partition)
    let offset = Math.max(earliest, highWatermark - LOOK_BACK_RECORDS)
    while (offset < highWatermark && wanted.size > 0) {
      const read = await this.#deps.records.read(INTERNAL_CONTEXT, {
        topic,
        partition,
        offset,
        isolation: 'read_uncommitted',
        maxRecords: LOOK_BACK_READ_RECORDS,
        maxBytes: MIB,
        maxWaitMs: 0,
      })
      try {
        for (const { headers } of read.records) {
          const origin = provenanceOf(headers, kind)
          if (origin !== null && origin.movedAtMs >= sinceMs) wanted.delete(originKey(origin))
        }
        if (read.nextOffset <= offset) break
        offset = read.nextOffset
      } finally {
        read.release()
      }
    }
    return [...wanted.values()]
  }

  /** The topic for them, made when there is none: with as many partitions as theirs, so that a record keeps its number. */
  async #topic(source: string, { name, kind }: Target): Promise<TopicImage> {
    const known = this.#deps.topics.find(name)
    if (known !== undefined) return known
    const pending = this.#making.get(name)
    if (pending !== undefined) return pending
    const making = this.#make(source, name, kind).finally(() => this.#making.delete(name))
    this.#making.set(name, making)
    return making
  }

  async #make(source: string, name: string, kind: Target['kind']): Promise<TopicImage> {
    const { topics, partitions, log } = this.#deps
    const from = partitions.topic(source)
    if (from === undefined) throw new MoonMQError('TOPIC_MISSING', { topic: source })
    try {
      const made = await topics.create(INTERNAL_CONTEXT, {
        name,
        partitions: from.partitions.length,
        replicationFactor: -1,
        assignments: new Map(),
        // Compaction would take all but one letter of a key.
        config: new Map([
          ['cleanup.policy', 'delete'],
          [MAX_MESSAGE_BYTES, String(this.#roomFor(source))],
        ]),
      })
      const what = kind === 'dead' ? 'the dead letters' : 'records that wait for another try'
      log.info('dlq.topic_created', `topic "${name}" keeps ${what} of "${source}"`, { topic: source, dlq: name })
      return made
    } catch (error) {
      const made = topics.find(name)
      if (made !== undefined && isCode(error, 'TOPIC_EXISTS')) return made
      throw error
    }
  }
}

/** Records of the topic that wait for the try after this many failures. */
export function tierName(topic: string, tier: number): string {
  return `${topic}.retry.${tier}`
}
