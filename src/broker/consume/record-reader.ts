import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { RequestContext } from '../context.ts'
import type {
  FetchedPartition,
  FetchPort,
  PartitionRecords,
  ReadRecordsRequest,
  ReadTopicRequest,
  RecordsRead,
  TopicRead,
} from '../ports.ts'
import { copiedOut, type DecodeDeps, decodeRecords } from './decode.ts'

/** What is left of the limits of an answer. */
interface Room {
  records: number
  bytes: number
}

/** Reads without a group, through the same fetch as Kafka's clients. */
export class RecordReader {
  readonly #fetch: FetchPort
  readonly #decoding: DecodeDeps

  constructor(deps: DecodeDeps & { readonly fetch: FetchPort }) {
    this.#fetch = deps.fetch
    this.#decoding = deps
  }

  async read(context: RequestContext, request: ReadRecordsRequest): Promise<RecordsRead> {
    const { partition, offset } = request
    const read = await this.readTopic(context, { ...request, partitions: [{ partition, offset }] })
    const found = read.partitions[0]
    if (found !== undefined && found.error === null) return { ...found, release: read.release }
    read.release()
    throw found?.error ?? new MoonMQError('INTERNAL', { reason: 'a fetch without a partition' })
  }

  async readTopic(context: RequestContext, request: ReadTopicRequest): Promise<TopicRead> {
    const { topic, maxBytes } = request
    const fetched = await this.#fetch.fetch(context, {
      partitions: request.partitions.map(({ partition, offset }) => ({
        topic,
        partition,
        fetchOffset: offset,
        maxBytes,
        currentLeaderEpoch: -1,
        lastFetchedEpoch: -1,
      })),
      isolation: request.isolation,
      maxWaitMs: request.maxWaitMs,
      minBytes: 1,
      maxBytes,
    })
    try {
      const room: Room = { records: request.maxRecords, bytes: maxBytes }
      const partitions: PartitionRecords[] = []
      for (const [index, { offset }] of request.partitions.entries()) {
        partitions.push(await this.#decode(request, offset, fetched.partitions[index], room))
      }
      return { partitions, release: () => fetched.release() }
    } catch (error) {
      fetched.release()
      throw error
    }
  }

  async #decode(request: ReadTopicRequest, offset: number, found: FetchedPartition | undefined, room: Room): Promise<PartitionRecords> {
    if (found === undefined) throw new MoonMQError('INTERNAL', { reason: 'a fetch without one of its partitions' })
    const { topic, isolation } = request
    const { partition, highWatermark, lastStableOffset, logStartOffset, read } = found
    const bounds = { partition, highWatermark, lastStableOffset, logStartOffset }
    if (found.error !== null) return { ...bounds, error: found.error, records: [], nextOffset: offset }
    if (read === null || read.sizeBytes === 0 || room.records <= 0 || room.bytes <= 0) {
      return { ...bounds, error: null, records: [], nextOffset: offset }
    }
    try {
      const decoded = await decodeRecords(this.#decoding, {
        topic,
        partition,
        buffers: read.buffers,
        fromOffset: offset,
        isolation,
        aborted: found.aborted ?? [],
        maxRecords: room.records,
        maxBytes: room.bytes,
        limits: request,
        mustGive: room.records === request.maxRecords,
      })
      copiedOut(decoded, 0)
      room.records -= decoded.records.length
      room.bytes -= decoded.bytes
      const { records, nextOffset, tooLarge } = decoded
      return { ...bounds, error: records.length === 0 ? tooLarge : null, records, nextOffset }
    } catch (error) {
      return { ...bounds, error: asMoonMQError(error), records: [], nextOffset: offset }
    }
  }
}
