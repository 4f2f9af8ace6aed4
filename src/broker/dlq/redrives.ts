import type { Clock } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { BATCH_HEADER_BYTES, KIB, MIB } from '../../core/limits.ts'
import { Serial } from '../../core/serial.ts'
import { DEAD, markedOffset, markOf, provenanceOf, REDRIVEN, RETRY } from '../../record/dead-letter.ts'
import type { RecordHeader } from '../../record/record.ts'
import { copyOf } from '../consume/decode.ts'
import type { RequestContext } from '../context.ts'
import type {
  DeliveredRecord,
  ProducerSession,
  ProducerSessionPort,
  RecordContent,
  RecordPort,
  Redriven,
  RedrivePort,
  SequencedBatch,
} from '../ports.ts'
import { packedSize } from '../produce/batch-packer.ts'
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
  /** The log begins here: the letters before it are gone, and nothing is kept of them. */
  from: number
}

/** A letter and where it goes. */
interface Return {
  readonly letter: DeliveredRecord
  readonly topic: string
  readonly partition: number
}

/** Some of what was asked for, in memory of its own, and the place among the offsets behind it. */
interface Slice {
  readonly returns: readonly Return[]
  readonly next: number
}

interface OpenBatch {
  bytes: number
  readonly batch: SequencedBatch & { readonly records: RecordContent[] }
}

const READ_RECORDS = 500
const TIMEOUT_MS = 30_000
/** A batch is not larger, unless a single record is. */
const BATCH_BYTES = 256 * KIB
/** Partitions whose marks are kept in memory. */
const MAX_KNOWN = 64

export interface RedriveOptions {
  /** Letters of one transaction, unless a single one is larger. */
  readonly sliceBytes: number
}

/**
 * Sends dead letters back to their topics, each once, however often it is asked for: the record in its topic and a mark in the partition of
 * the letter are one transaction, and what has a mark is passed over. Much that is asked for at once goes in slices, each a transaction of
 * its own and all that is in memory; when one fails, those before it are done. Requests for one partition run one after another.
 */
export class Redrives implements RedrivePort {
  readonly #deps: RedriveDeps
  readonly #sliceBytes: number
  readonly #known = new Map<string, Marks>()
  readonly #running = new Map<string, Serial>()

  constructor(deps: RedriveDeps, { sliceBytes }: RedriveOptions) {
    this.#deps = deps
    this.#sliceBytes = sliceBytes
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
    const asked = new Set(offsets)
    const wanted = [...asked].filter((offset) => !marks.offsets.has(offset)).sort((a, b) => a - b)
    let redriven = 0
    let session: ProducerSession | null = null
    try {
      for (let at = 0; at < wanted.length; ) {
        const { returns, next } = await this.#slice(context, served, wanted, at)
        if (returns.length > 0) {
          session ??= await this.#open(context, served)
          await this.#send(context, served, session, returns)
        }
        for (const { letter } of returns) marks.offsets.add(letter.offset)
        redriven += returns.length
        at = next
      }
    } finally {
      // What is not decided is aborted.
      await session?.close()
    }
    return { redriven, already: asked.size - wanted.length, missing: wanted.length - redriven }
  }

  async #marksOf(context: RequestContext, { topic, partition, log }: ServedPartition): Promise<Marks> {
    const key = `${topic.name}-${partition}`
    let marks = this.#known.get(key)
    this.#known.delete(key)
    if (marks?.topicId !== topic.id) marks = { topicId: topic.id, offsets: new Set(), readTo: 0, from: 0 }
    this.#known.set(key, marks)
    for (const oldest of this.#known.keys()) if (this.#known.size > MAX_KNOWN) this.#known.delete(oldest)
    const end = log?.highWatermark ?? 0
    // A mark that is not decided yet must not be missed.
    if (log !== undefined && log.lastStableOffset < end) throw new MoonMQError('CONCURRENT_TRANSACTIONS', { id: key })
    const from = log?.logStartOffset ?? 0
    if (from > marks.from) {
      for (const offset of marks.offsets) if (offset < from) marks.offsets.delete(offset)
      marks.from = from
    }
    marks.readTo = Math.max(marks.readTo, from)
    while (marks.readTo < end) {
      const read = await this.#read(context, topic.name, partition, marks.readTo, READ_RECORDS)
      try {
        for (const { headers } of read.records) {
          const offset = headers.length === 0 ? null : markedOffset(headers)
          if (offset !== null && offset >= from) marks.offsets.add(offset)
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

  /** Letters from a place among the wanted offsets on, as far as a slice goes: those whose topics are there. */
  async #slice(context: RequestContext, served: ServedPartition, wanted: readonly number[], at: number): Promise<Slice> {
    const { topic, partition, log } = served
    const returns: Return[] = []
    let bytes = 0
    let next = at
    while (next < wanted.length && bytes < this.#sliceBytes) {
      const offset = wanted[next] as number
      if (log === undefined || offset < log.logStartOffset || offset >= log.highWatermark) {
        next++
        continue
      }
      const read = await this.#read(context, topic.name, partition, offset, READ_RECORDS)
      try {
        if (read.records.length === 0) next++
        for (const letter of read.records) {
          if (bytes >= this.#sliceBytes) break
          while (next < wanted.length && (wanted[next] as number) < letter.offset) next++
          if (wanted[next] !== letter.offset) continue
          next++
          const from = provenanceOf(letter.headers)
          const target = from === null ? undefined : this.#deps.partitions.topic(from.topic)
          if (from === null || target === undefined || target.internal) continue
          bytes += packedSize(letter)
          returns.push({ letter: copyOf(letter), topic: target.name, partition: from.partition % target.partitions.length })
        }
      } finally {
        read.release()
      }
    }
    return { returns, next }
  }

  #open(context: RequestContext, { topic, partition }: ServedPartition): Promise<ProducerSession> {
    const name = `moonmq.redrive.${topic.name}-${partition}`
    return this.#deps.producerSessions.open(context, { name, timeoutMs: 2 * TIMEOUT_MS })
  }

  async #send(
    context: RequestContext,
    { topic, partition }: ServedPartition,
    session: ProducerSession,
    returns: readonly Return[],
  ): Promise<void> {
    await session.begin()
    for (const batch of this.#batches(topic.name, partition, returns)) await this.#append(context, session, batch)
    await session.end(true)
  }

  async #append(context: RequestContext, session: ProducerSession, batch: SequencedBatch): Promise<void> {
    const { settled } = await session.append(context, [batch], { acks: 'all', codec: 0, timeoutMs: TIMEOUT_MS, atomic: true })
    for (const { error } of await settled) if (error !== null) throw error
  }

  /** The records, then the marks: as few batches as their topics take. */
  *#batches(dlq: string, dlqPartition: number, returns: readonly Return[]): Generator<SequencedBatch> {
    const nowMs = this.#deps.clock.nowMs()
    const open = new Map<string, OpenBatch>()
    for (const { letter, topic, partition } of returns) {
      const record = { key: letter.key, value: letter.value, headers: returnedHeaders(dlq, dlqPartition, letter, nowMs) }
      yield* this.#add(open, topic, partition, record)
    }
    for (const { batch } of open.values()) yield batch
    open.clear()
    for (const { letter } of returns) {
      yield* this.#add(open, dlq, dlqPartition, { key: letter.key, value: null, headers: markOf(letter.offset, nowMs) })
    }
    for (const { batch } of open.values()) yield batch
  }

  /** Gives the batch that the record does not fit into. */
  *#add(open: Map<string, OpenBatch>, topic: string, partition: number, record: RecordContent): Generator<SequencedBatch> {
    const key = `${topic}-${partition}`
    const size = packedSize(record)
    const limit = Math.min(BATCH_BYTES, this.#deps.partitions.topic(topic)?.settings.log.maxMessageBytes ?? BATCH_BYTES)
    let found = open.get(key)
    if (found !== undefined && found.bytes + size > limit) {
      yield found.batch
      found = undefined
    }
    found ??= { bytes: BATCH_HEADER_BYTES, batch: { topic, partition, baseSequence: null, records: [] } }
    open.set(key, found)
    found.bytes += size
    found.batch.records.push(record)
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
