import type { RequestContext } from '../context.ts'
import type { FetchPort, ReadRecordsRequest, RecordsRead } from '../ports.ts'
import type { Inflater } from '../produce/inflater.ts'
import { decodeRecords } from './decode.ts'

/** Reads single partitions without a group, through the same fetch as Kafka's clients. */
export class RecordReader {
  readonly #fetch: FetchPort
  readonly #inflater: Inflater

  constructor(deps: { fetch: FetchPort; inflater: Inflater }) {
    this.#fetch = deps.fetch
    this.#inflater = deps.inflater
  }

  async read(context: RequestContext, request: ReadRecordsRequest): Promise<RecordsRead> {
    const { topic, partition, isolation } = request
    const fetched = await this.#fetch.fetch(context, {
      partitions: [
        { topic, partition, fetchOffset: request.offset, maxBytes: request.maxBytes, currentLeaderEpoch: -1, lastFetchedEpoch: -1 },
      ],
      isolation,
      maxWaitMs: request.maxWaitMs,
      minBytes: 1,
      maxBytes: request.maxBytes,
    })
    try {
      const found = fetched.partitions[0]
      if (found === undefined || found.error !== null) throw found?.error ?? new Error('a fetch without a partition')
      const decoded = await decodeRecords(this.#inflater, {
        topic,
        partition,
        buffers: found.read?.buffers ?? [],
        fromOffset: request.offset,
        isolation,
        aborted: found.aborted ?? [],
        maxRecords: request.maxRecords,
        maxBytes: request.maxBytes,
        maxPartBytes: Number.POSITIVE_INFINITY,
      })
      return {
        records: decoded.records,
        nextOffset: decoded.nextOffset,
        highWatermark: found.highWatermark,
        lastStableOffset: found.lastStableOffset,
        logStartOffset: found.logStartOffset,
        release: () => fetched.release(),
      }
    } catch (error) {
      fetched.release()
      throw error
    }
  }
}
