import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Deferred, deferred } from '../../src/core/deferred.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch } from '../../src/record/builder.ts'
import { readRecords, recordsSection } from '../../src/record/record.ts'
import type { Input } from '../../src/schema/compile.ts'
import type { ApiName } from '../../src/schema/messages.ts'
import type { Requests, Responses } from '../../src/schema/types.generated.ts'
import { readResponse, requestFrame } from './kafka-frames.ts'

/** A record as it was read: key and value as text. */
export interface RawRecord {
  readonly offset: number
  readonly key: string | null
  readonly value: string | null
}

/** One connection of the Kafka protocol without any cleverness: a request, its answer or an error, nothing tried again. */
export class RawKafka implements Disposable {
  readonly #socket: Socket
  readonly #clientId: string
  readonly #waiting = new Map<number, Deferred<Buffer>>()
  #parts: Buffer[] = []
  #partsBytes = 0
  #nextId = 1
  #ended: Error | null = null

  private constructor(socket: Socket, clientId: string) {
    this.#socket = socket
    this.#clientId = clientId
    socket.on('data', (bytes: Buffer) => this.#take(bytes))
    socket.on('error', (error) => this.#end(error))
    socket.on('close', () => this.#end(new Error('the connection was closed')))
  }

  static async connect(address: string, clientId = 'test'): Promise<RawKafka> {
    const [host = '', port = ''] = address.split(':')
    const socket = connect(Number(port), host)
    await once(socket, 'connect')
    socket.setNoDelay(true)
    return new RawKafka(socket, clientId)
  }

  /** A connection that has said something, as clients do at once: one that says nothing is closed soon. */
  static async greeted(address: string, clientId?: string): Promise<RawKafka> {
    const kafka = await RawKafka.connect(address, clientId)
    await kafka.request('ApiVersions', 0, {})
    return kafka
  }

  async request<N extends ApiName>(name: N, version: number, body: Input<Requests[N]>): Promise<Responses[N]> {
    if (this.#ended !== null) throw this.#ended
    const correlationId = this.#nextId++
    const answer = deferred<Buffer>()
    this.#waiting.set(correlationId, answer)
    this.#socket.write(requestFrame(name, version, body, { correlationId, clientId: this.#clientId }))
    return readResponse(name, version, await answer.promise).body
  }

  /** Stores a batch of records, acks all; the code of the answer and the first offset. */
  async produce(
    topic: string,
    partition: number,
    records: readonly { readonly key?: string; readonly value: string | null; readonly timestampMs?: number }[],
    options: BatchOptions = {},
  ): Promise<{ readonly errorCode: number; readonly baseOffset: number }> {
    const batch = buildBatch(
      records.map(({ key, value, timestampMs = Date.now() }) => ({
        key: key === undefined ? null : Buffer.from(key),
        value: value === null ? null : Buffer.from(value),
        timestampMs,
      })),
      options,
    )
    const topicData = [{ name: topic, partitionData: [{ index: partition, records: batch }] }]
    const answer = await this.request('Produce', 9, { transactionalId: null, acks: -1, timeoutMs: 30_000, topicData })
    const { errorCode, baseOffset } = answer.responses[0]?.partitionResponses[0] ?? { errorCode: -1, baseOffset: -1 }
    return { errorCode, baseOffset }
  }

  /** One request with a record for each partition of a topic from the first on, acks all. */
  async produceWide(
    topic: string,
    values: readonly string[],
  ): Promise<readonly { readonly index: number; readonly errorCode: number; readonly baseOffset: number }[]> {
    const partitionData = values.map((value, index) => ({
      index,
      records: buildBatch([{ key: null, value: Buffer.from(value), timestampMs: Date.now() }]),
    }))
    const topicData = [{ name: topic, partitionData }]
    const answer = await this.request('Produce', 9, { transactionalId: null, acks: -1, timeoutMs: 30_000, topicData })
    return answer.responses[0]?.partitionResponses ?? []
  }

  /** Everything of a partition from its start on; throws naming the code of an answer that is an error. */
  async readAll(topic: string, partition: number): Promise<RawRecord[]> {
    const read: RawRecord[] = []
    const starts = await this.request('ListOffsets', 7, {
      replicaId: -1,
      topics: [{ name: topic, partitions: [{ partitionIndex: partition, currentLeaderEpoch: -1, timestamp: -2 }] }],
    })
    const start = starts.topics[0]?.partitions[0]
    if (start === undefined || start.errorCode !== 0) throw new Error(`${topic}-${partition} has no start: error ${start?.errorCode}`)
    for (let next = start.offset; ; ) {
      const found = await this.fetch(topic, partition, next)
      if (found.errorCode !== 0) throw new Error(`${topic}-${partition} from ${next}: error ${found.errorCode}`)
      const before = next
      for (const record of found.records) {
        if (record.offset >= next) read.push(record)
      }
      next = Math.max(next, found.nextOffset)
      if (next >= found.highWatermark) return read
      if (next === before) throw new Error(`${topic}-${partition}: nothing at ${next}, though the high watermark is ${found.highWatermark}`)
    }
  }

  async fetch(topic: string, partition: number, fetchOffset: number, isolationLevel: 0 | 1 = 0) {
    const { data, errorCode, highWatermark } = await this.fetchBytes(topic, partition, fetchOffset, isolationLevel)
    return { errorCode, highWatermark, ...recordsIn(data.records ?? Buffer.alloc(0), fetchOffset) }
  }

  /** Isolation 1 is read committed. */
  async fetchBytes(topic: string, partition: number, fetchOffset: number, isolationLevel: 0 | 1) {
    const answer = await this.request('Fetch', 12, {
      replicaId: -1,
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: 16 * 1024 * 1024,
      isolationLevel,
      sessionId: 0,
      sessionEpoch: -1,
      topics: [
        {
          topic,
          partitions: [
            {
              partition,
              currentLeaderEpoch: -1,
              fetchOffset,
              lastFetchedEpoch: -1,
              logStartOffset: -1,
              partitionMaxBytes: 4 * 1024 * 1024,
            },
          ],
        },
      ],
      forgottenTopicsData: [],
      rackId: '',
    })
    const data = answer.responses[0]?.partitions[0]
    if (data === undefined) throw new Error(`no answer for ${topic}-${partition}: error ${answer.errorCode}`)
    return { data, errorCode: data.errorCode, highWatermark: data.highWatermark }
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
    this.#end(new Error('the connection was closed'))
  }

  /** Parts of an answer are put together once, when all of it is there. */
  #take(bytes: Buffer): void {
    this.#parts.push(bytes)
    this.#partsBytes += bytes.length
    while (this.#partsBytes >= 4) {
      if ((this.#parts[0]?.length ?? 0) < 4) this.#parts = [Buffer.concat(this.#parts)]
      const end = 4 + (this.#parts[0]?.readInt32BE(0) ?? 0)
      if (this.#partsBytes < end) return
      const all = this.#parts.length === 1 ? (this.#parts[0] ?? bytes) : Buffer.concat(this.#parts)
      const frame = all.subarray(4, end)
      this.#parts = end < all.length ? [all.subarray(end)] : []
      this.#partsBytes = all.length - end
      const id = frame.readInt32BE(0)
      this.#waiting.get(id)?.resolve(frame)
      this.#waiting.delete(id)
    }
  }

  #end(error: Error): void {
    this.#ended ??= error
    for (const answer of this.#waiting.values()) answer.reject(this.#ended)
    this.#waiting.clear()
  }
}

function recordsIn(bytes: Buffer, from: number): { records: RawRecord[]; nextOffset: number } {
  const records: RawRecord[] = []
  let nextOffset = from
  for (let at = 0; at < bytes.length; ) {
    const header = readBatchHeader(bytes, at, bytes.length)
    if ((header.attributes & 0x20) === 0) {
      for (const record of readRecords(recordsSection(bytes, at, header), header)) {
        records.push({ offset: record.offset, key: record.key?.toString() ?? null, value: record.value?.toString() ?? null })
      }
    }
    nextOffset = header.baseOffset + header.lastOffsetDelta + 1
    at += header.sizeBytes
  }
  return { records, nextOffset }
}
