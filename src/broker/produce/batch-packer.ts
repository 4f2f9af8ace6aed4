import { KIB } from '../../core/limits.ts'
import type { CheckedRecords } from '../../core/offload.ts'
import { readBatchHeader, withRecords } from '../../record/batch.ts'
import type { BatchCodecs, Compression } from '../../record/batch-jobs.ts'
import { buildBatch, type NewRecord } from '../../record/builder.ts'
import type { Inflater } from '../../record/inflater.ts'
import type { RecordContent } from '../ports.ts'

/** What a record takes in a batch besides key, value and headers, at most. */
const RECORD_OVERHEAD_BYTES = 40
const HEADER_OVERHEAD_BYTES = 10
const PACK_ON_LOOP_BYTES = 64 * KIB

/** Makes batches of single records for the doors that have no batches of their own. */
export class BatchPacker {
  readonly #codecs: BatchCodecs
  readonly #inflater: Inflater

  constructor(deps: { readonly codecs: BatchCodecs; readonly inflater: Inflater }) {
    this.#codecs = deps.codecs
    this.#inflater = deps.inflater
  }

  /** Undefined when the codec can be used now. Throws UNSUPPORTED_COMPRESSION. */
  ready(codec: number): Promise<void> | undefined {
    return this.#codecs.ready(codec)
  }

  /** `bytes`: what the records take at most. A large batch is compressed off the event loop. */
  pack(records: readonly NewRecord[], bytes: number, { codec, level }: Compression): Buffer | Promise<Buffer> {
    if (codec === 0 || bytes <= PACK_ON_LOOP_BYTES) return this.packNow(records, { codec, level })
    const plain = buildBatch(records)
    const header = readBatchHeader(plain)
    const checking = this.#inflater.check(plain, header, { keyed: false, to: { codec, level }, maxBytes: plain.length })
    const packed = (checked: CheckedRecords) => withRecords(plain, header, checked.records ?? plain, codec).batch
    return checking instanceof Promise ? checking.then(packed) : packed(checking)
  }

  /** The same on the event loop, for little. */
  packNow(records: readonly NewRecord[], { codec, level }: Compression): Buffer {
    return buildBatch(records, { codec, compress: (which, plain) => this.#codecs.deflate(which, plain, level) })
  }
}

export function newRecord(record: RecordContent, nowMs: number): NewRecord {
  const { key, value, headers, timestampMs } = record
  return { key, value, timestampMs: timestampMs ?? nowMs, ...(headers === undefined ? {} : { headers }) }
}

/** An upper bound of the bytes that the record takes in a batch. */
export function packedSize(record: RecordContent): number {
  let bytes = RECORD_OVERHEAD_BYTES + (record.key?.length ?? 0) + (record.value?.length ?? 0)
  for (const header of record.headers ?? []) {
    bytes += HEADER_OVERHEAD_BYTES + Buffer.byteLength(header.key) + (header.value?.length ?? 0)
  }
  return bytes
}
