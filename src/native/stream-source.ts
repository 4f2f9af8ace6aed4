import type { DeliveredRecord, RecordStream } from '../broker/ports.ts'
import { encodeFrame, ZERO_CORRELATION } from '../wire/frame.ts'
import { readRecordBytes } from '../wire/records.ts'
import type { PushRound, PushSource } from './push-delivery.ts'

const MAX_ROUND_RECORDS = 256
/** Of a STREAMED beside its records, at most. */
const FRAME_BYTES = 300
const MAX_CREDIT = 2 ** 31 - 1

/** Pushes as far as there is credit. A record may be larger than what is left of it: then the client owes. */
export class StreamSource implements PushSource {
  readonly stream: RecordStream
  #records = 0
  #bytes = 0

  constructor(source: RecordStream) {
    this.stream = source
  }

  credit(records: number, bytes: number): void {
    this.#records = Math.min(MAX_CREDIT, this.#records + records)
    this.#bytes = Math.min(MAX_CREDIT, this.#bytes + bytes)
  }

  async next(maxBytes: number): Promise<PushRound | null> {
    if (this.#records <= 0 || this.#bytes <= 0) return null
    // The frames around them, one for each partition, take no more than half of what the records may.
    const maxRecords = Math.max(1, Math.min(MAX_ROUND_RECORDS, this.#records, Math.floor(maxBytes / (2 * FRAME_BYTES))))
    const round = await this.stream.next(maxRecords, Math.min(maxBytes, this.#bytes))
    if (!round.isMore) {
      round.release()
      return null
    }
    try {
      const frames = this.#encode(round.records)
      return { frames, isMore: true, taken: async () => {}, release: () => round.release() }
    } catch (error) {
      round.release()
      throw error
    }
  }

  /** Neighbours of one partition share a frame. */
  #encode(records: readonly DeliveredRecord[]): Buffer[] {
    const frames: Buffer[] = []
    for (let from = 0; from < records.length; ) {
      const { topic, partition } = records[from] as DeliveredRecord
      let to = from
      let bytes = 0
      for (; to < records.length; to++) {
        const record = records[to] as DeliveredRecord
        if (record.partition !== partition || record.topic !== topic) break
        bytes += this.#charge(record)
      }
      const part = records.slice(from, to)
      frames.push(encodeFrame('STREAMED', ZERO_CORRELATION, { topic, partition, records: part }, FRAME_BYTES + bytes))
      from = to
    }
    return frames
  }

  #charge(record: DeliveredRecord): number {
    const size = readRecordBytes(record)
    this.#records--
    this.#bytes -= size
    return size
  }

  watch(wake: () => void): () => void {
    return this.stream.consumer.watch(wake)
  }
}
