import type { Clock } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { KIB, MIB } from '../../core/limits.ts'
import { Serial } from '../../core/serial.ts'
import { DEAD, markedOffset, markOf, provenanceOf, REDRIVEN, RETRY } from '../../record/dead-letter.ts'
import type { RecordHeader } from '../../record/record.ts'
import type { RequestContext } from '../context.ts'
import type { DeliveredRecord, ProducerSession, ProducerSessionPort, RecordPort, Redriven, RedrivePort, SequencedBatch } from '../ports.ts'
import type { Partitions, ServedPartition } from '../topics/partitions.ts'

export interface RedriveDeps {
  readonly partitions: Partitions
  readonly records: Pick<RecordPort, 'read'>
  readonly producerSessions: ProducerSessionPort
  readonly clock: Clock
}

/** What is known of a partition of a dead-letter topic: which of its letters were sent back, as far as it was read. */
interface Marks {
  readonly topicId: string
  readonly offsets: Set<number>
  readTo: number
}

/** A letter and where it goes. */
interface Return {
  readonly letter: DeliveredRecord
  readonly topic: string
  readonly partition: number
}

const READ_RECORDS = 500
const TIMEOUT_MS = 30_000
/** A batch is not larger, unless a single record is. */
const BATCH_BYTES = 256 * KIB
/** Partitions whose marks are kept in memory. */
const MAX_KNOWN = 64

/**
 * Sends dead letters back to their topics, each once, however often it is asked for: the record in its topic and a mark in the partition of
 * the letter are one transaction, and what has a mark is passed over. Requests for one partition run one after another.
 */
export class Redrives implements RedrivePort {
  readonly #deps: RedriveDeps
  readonly #known = new Map<string, Marks>()
  readonly #running = new Map<string, Serial>()

  constructor(deps: RedriveDeps) {
    this.#deps = deps
  }

  async redrive(context: RequestContext, topic: string, partition: number, offsets: readonly number[]): Promise<Redriven> {
    const key = `${topic}-${partition}`
    const serial = this.#running.get(key) ?? new Serial()
    this.#running.set(key, serial)
    try {
      return await serial.run(() => this.#redrive(context, topic, partition, offsets))
    } finally {
      if (serial.size === 0) this.#running.delete(key)
    }
  }

  async #redrive(context: RequestContext, topic: string, partition: number, offsets: readonly number[]): Promise<Redriven> {
    const served = this.#deps.partitions.forClient(context, topic, partition)
    const marks = await this.#marksOf(context, served)
    const wanted = [...new Set(offsets)].filter((offset) => !marks.offsets.has(offset)).sort((a, b) => a - b)
    const already = new Set(offsets).size - wanted.length
    const releases: (() => void)[] = []
    try {
      const returns = await this.#find(context, served, wanted, releases)
      if (returns.length > 0) await this.#send(context, served, returns)
      for (const { letter } of returns) marks.offsets.add(letter.offset)
      return { redriven: returns.length, already, missing: wanted.length - returns.length }
    } finally {
      for (const release of releases) release()
    }
  }

  async #marksOf(context: RequestContext, { topic, partition, log }: ServedPartition): Promise<Marks> {
    const key = `${topic.name}-${partition}`
    let marks = this.#known.get(key)
    this.#known.delete(key)
    if (marks?.topicId !== topic.id) marks = { topicId: topic.id, offsets: new Set(), readTo: 0 }
    this.#known.set(key, marks)
    for (const oldest of this.#known.keys()) if (this.#known.size > MAX_KNOWN) this.#known.delete(oldest)
    const end = log?.highWatermark ?? 0
    // A mark that is not decided yet must not be missed.
    if (log !== undefined && log.lastStableOffset < end) throw new MoonMQError('CONCURRENT_TRANSACTIONS', { id: key })
    marks.readTo = Math.max(marks.readTo, log?.logStartOffset ?? 0)
    while (marks.readTo < end) {
      const read = await this.#read(context, topic.name, partition, marks.readTo, READ_RECORDS)
      try {
        for (const { headers } of read.records) {
          const offset = headers.length === 0 ? null : markedOffset(headers)
          if (offset !== null) marks.offsets.add(offset)
        }
        if (read.nextOffset <= marks.readTo) break
        marks.readTo = read.nextOffset
      } finally {
        read.release()
      }
    }
    return marks
  }

  #read(context: RequestContext, topic: string, partition: number, offset: number, maxRecords: number): ReturnType<RecordPort['read']> {
    return this.#deps.records.read(context, {
      topic,
      partition,
      offset,
      maxRecords,
      isolation: 'read_committed',
      maxBytes: MIB,
      maxWaitMs: 0,
    })
  }

  /** The letters among these offsets whose topics are there. */
  async #find(
    context: RequestContext,
    { topic, partition, log }: ServedPartition,
    wanted: readonly number[],
    releases: (() => void)[],
  ): Promise<Return[]> {
    const left = new Set(wanted)
    const returns: Return[] = []
    for (const offset of wanted) {
      if (!left.has(offset) || log === undefined || offset < log.logStartOffset || offset >= log.highWatermark) continue
      const read = await this.#read(context, topic.name, partition, offset, READ_RECORDS)
      releases.push(() => read.release())
      for (const letter of read.records) {
        if (!left.delete(letter.offset)) continue
        const from = provenanceOf(letter.headers)
        const target = from === null ? undefined : this.#deps.partitions.topic(from.topic)
        if (from === null || target === undefined || target.internal) continue
        returns.push({ letter, topic: target.name, partition: from.partition % target.partitions.length })
      }
      left.delete(offset)
    }
    return returns
  }

  async #send(context: RequestContext, { topic, partition }: ServedPartition, returns: readonly Return[]): Promise<void> {
    const name = `moonmq.redrive.${topic.name}-${partition}`
    const session = await this.#deps.producerSessions.open(context, { name, timeoutMs: 2 * TIMEOUT_MS })
    try {
      await session.begin()
      for (const batch of this.#batches(topic.name, partition, returns)) await this.#append(context, session, batch)
      await session.end(true)
    } finally {
      // What is not decided is aborted.
      await session.close()
    }
  }

  async #append(context: RequestContext, session: ProducerSession, batch: SequencedBatch): Promise<void> {
    const { settled } = await session.append(context, [batch], { acks: 'all', codec: 0, timeoutMs: TIMEOUT_MS, atomic: true })
    for (const { error } of await settled) if (error !== null) throw error
  }

  *#batches(dlq: string, dlqPartition: number, returns: readonly Return[]): Generator<SequencedBatch> {
    const nowMs = this.#deps.clock.nowMs()
    const open = new Map<string, { bytes: number; batch: SequencedBatch & { records: { key: Buffer | null; value: Buffer | null }[] } }>()
    for (const { letter, topic, partition } of returns) {
      const key = `${topic}-${partition}`
      const size = (letter.key?.length ?? 0) + (letter.value?.length ?? 0)
      let found = open.get(key)
      if (found !== undefined && found.bytes + size > BATCH_BYTES) {
        yield found.batch
        found = undefined
      }
      found ??= { bytes: 0, batch: { topic, partition, baseSequence: null, records: [] } }
      open.set(key, found)
      found.bytes += size
      const record = { key: letter.key, value: letter.value, headers: returnedHeaders(dlq, dlqPartition, letter, nowMs) }
      found.batch.records.push(record)
    }
    for (const { batch } of open.values()) yield batch
    const marks = returns.map(({ letter }) => ({ key: letter.key, value: null, headers: markOf(letter.offset, nowMs) }))
    yield { topic: dlq, partition: dlqPartition, baseSequence: null, records: marks }
  }
}

/** The record's own headers, and where it was. */
function returnedHeaders(dlq: string, partition: number, { headers, offset }: DeliveredRecord, nowMs: number): RecordHeader[] {
  const own = headers.filter(({ key }) => !key.startsWith(DEAD) && !key.startsWith(RETRY) && !key.startsWith(REDRIVEN))
  const from = provenanceOf(headers)
  const added: readonly (readonly [string, string])[] = [
    ['from', dlq],
    ['partition', String(partition)],
    ['offset', String(offset)],
    ['group', from?.group ?? ''],
    ['attempts', String(from?.attempts ?? 0)],
    ['reason', from?.reason ?? ''],
    ['at', String(nowMs)],
  ]
  return [...own, ...added.map(([name, value]) => ({ key: REDRIVEN + name, value: Buffer.from(value) }))]
}
