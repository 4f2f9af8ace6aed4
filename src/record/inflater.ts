import { isCode } from '../core/errors.ts'
import { KIB, MAX_INFLATED_BATCH_BYTES, MIB } from '../core/limits.ts'
import type { CheckedRecords, FoundRecord, Offload, OffloadJob, OffloadResults } from '../core/offload.ts'
import { type BatchHeader, codecOf } from './batch.ts'
import { type BatchCodecs, type Compression, checkRecords, findRecord, runBatchJob } from './batch-jobs.ts'
import { recordsSection } from './record.ts'

export interface InflaterOptions {
  /** What comes out of a batch on the event loop; more is done elsewhere. */
  readonly onLoopBytes: number
  /** Plain records that are walked on the event loop; more is done elsewhere. */
  readonly onLoopPlainBytes: number
  /** What a batch may inflate to. */
  readonly maxInflatedBytes: number
}

const DEFAULT_INFLATER: InflaterOptions = {
  onLoopBytes: 64 * KIB,
  onLoopPlainBytes: MIB,
  maxInflatedBytes: MAX_INFLATED_BATCH_BYTES,
}

export interface CheckOptions {
  readonly keyed: boolean
  /** How the records are stored; null = as they came. */
  readonly to: Compression | null
  readonly maxBytes: number
  /** Of one record of a compressed batch; absent: there is no bound of its own. */
  readonly maxRecordBytes?: number
}

/**
 * Work on the records of a batch: at once for what is small and loaded, off the event loop for what is large. How large shows only while
 * a batch inflates (64 KiB of gzip can be 64 MiB), and what a batch says of itself may be a lie, so the loop tries with a small bound
 * first. Nothing of a large batch comes back to the loop but what was asked for.
 */
export class Inflater {
  readonly #codecs: BatchCodecs
  /** Null: everything is done on the event loop. */
  readonly #offload: Offload | null
  readonly #options: InflaterOptions

  constructor(deps: { codecs: BatchCodecs; offload: Offload | null }, options: InflaterOptions = DEFAULT_INFLATER) {
    this.#codecs = deps.codecs
    this.#offload = deps.offload
    this.#options = options
  }

  /** The plain records. `limitBytes` lowers what may come out. Throws INFLATED_TOO_LARGE, CORRUPT_BATCH, UNSUPPORTED_COMPRESSION. */
  section(batch: Buffer, header: BatchHeader, limitBytes = this.#options.maxInflatedBytes): Buffer | Promise<Buffer> {
    const bytes = recordsSection(batch, 0, header)
    const codec = codecOf(header)
    if (codec === 0) return bytes
    const job = { kind: 'inflate', codec, bytes, maxBytes: limitBytes } as const
    const loading = this.#codecs.ready(codec)
    if (loading !== undefined) return loading.then(() => this.#onLoop(codec, bytes, limitBytes) ?? this.#elsewhere(job))
    return this.#onLoop(codec, bytes, limitBytes) ?? this.#elsewhere(job)
  }

  /** The records of a batch, compressed again as it was; the same bytes for codec 0. */
  async deflate(codec: number, section: Buffer): Promise<Buffer> {
    if (codec === 0) return section
    await this.#codecs.ready(codec)
    if (this.#offload === null || section.length <= this.#options.onLoopBytes) return this.#codecs.deflate(codec, section)
    return this.#elsewhere({ kind: 'deflate', codec, bytes: section } as const)
  }

  /** Walks the records of a batch from a producer. Throws INVALID_RECORD besides what `section` throws. */
  check(batch: Buffer, header: BatchHeader, options: CheckOptions): CheckedRecords | Promise<CheckedRecords> {
    // The common case, without anything made for it.
    if (codecOf(header) === 0 && options.to === null && header.sizeBytes <= this.#options.onLoopPlainBytes) {
      return checkRecords(this.#codecs, header, recordsSection(batch, 0, header), options)
    }
    const job = { kind: 'check', bytes: batch, ...options } as const
    return this.#withPlain(batch, header, options.maxBytes, job, (plain) => checkRecords(this.#codecs, header, plain, options))
  }

  /** The first record at or after `timestampMs` and `fromOffset`. */
  find(batch: Buffer, header: BatchHeader, timestampMs: number, fromOffset: number): FoundRecord | null | Promise<FoundRecord | null> {
    const maxBytes = this.#options.maxInflatedBytes
    const job = { kind: 'find', bytes: batch, maxBytes, timestampMs, fromOffset } as const
    return this.#withPlain(batch, header, maxBytes, job, (plain) => findRecord(header, plain, job))
  }

  /** What a new batch may inflate to: what refuses more is a bomb, or a topic whose max.message.bytes is too small for its batches. */
  limitFor(maxMessageBytes: number): number {
    return Math.min(this.#options.maxInflatedBytes, Math.max(16 * MIB, 16 * maxMessageBytes))
  }

  #withPlain<J extends OffloadJob, T>(
    batch: Buffer,
    header: BatchHeader,
    maxBytes: number,
    job: J,
    work: (plain: Buffer) => T,
  ): T | Promise<T> {
    const codec = codecOf(header)
    const isPacking = job.kind === 'check' && job.to !== null
    const target = isPacking ? this.#codecs.ready(job.to.codec) : undefined
    const loading = this.#codecs.ready(codec)
    const run = (): T | Promise<T> => {
      const plain = this.#onLoop(codec, recordsSection(batch, 0, header), maxBytes, isPacking)
      return plain === null ? (this.#elsewhere(job) as Promise<T>) : work(plain)
    }
    return loading === undefined && target === undefined ? run() : Promise.all([loading, target]).then(run)
  }

  /** The plain bytes, or null when there are too many of them for the event loop. */
  #onLoop(codec: number, bytes: Buffer, limitBytes: number, isPacking = false): Buffer | null {
    if (this.#offload === null) return this.#codecs.inflate(codec, bytes, limitBytes)
    const { onLoopBytes, onLoopPlainBytes } = this.#options
    if (codec === 0) return bytes.length <= (isPacking ? onLoopBytes : onLoopPlainBytes) ? bytes : null
    if (bytes.length > onLoopBytes || (this.#codecs.sizeHint(codec, bytes) ?? 0) > onLoopBytes) return null
    try {
      return this.#codecs.inflate(codec, bytes, Math.min(onLoopBytes, limitBytes))
    } catch (error) {
      if (limitBytes <= onLoopBytes || !isCode(error, 'INFLATED_TOO_LARGE')) throw error
      return null
    }
  }

  async #elsewhere<J extends OffloadJob>(job: J): Promise<OffloadResults[J['kind']]> {
    if (this.#offload !== null) return this.#offload.run(job)
    return (await runBatchJob(this.#codecs, job)) as OffloadResults[J['kind']]
  }
}
