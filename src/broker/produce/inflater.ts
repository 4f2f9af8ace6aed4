import { isCode } from '../../core/errors.ts'
import { KIB, MAX_INFLATED_BATCH_BYTES, MIB } from '../../core/limits.ts'
import type { Offload } from '../../core/offload.ts'
import { type BatchHeader, codecOf } from '../../record/batch.ts'
import { recordsSection } from '../../record/record.ts'

/** What the broker needs of the codecs of `record`. */
export interface Codecs {
  /** Undefined when the codec can be used at once; else resolves when it is loaded. Throws UNSUPPORTED_COMPRESSION. */
  ready(codec: number): Promise<void> | undefined
  /** Throws INFLATED_TOO_LARGE beyond `maxBytes`, before they are taken, and CORRUPT_BATCH when the bytes are not what the codec writes. */
  inflate(codec: number, bytes: Buffer, maxBytes: number): Buffer
  deflate(codec: number, bytes: Buffer): Buffer
}

export interface InflaterOptions {
  /** Compressed bytes from which inflating leaves the event loop at once, where the codec can. */
  readonly offLoopFromBytes: number
  /** What may come out on the event loop before it leaves it, where the codec can: five milliseconds of work. */
  readonly onLoopBytes: number
  /** What a batch may inflate to. */
  readonly maxInflatedBytes: number
}

export const DEFAULT_INFLATER: InflaterOptions = {
  offLoopFromBytes: 64 * KIB,
  onLoopBytes: MIB,
  maxInflatedBytes: MAX_INFLATED_BATCH_BYTES,
}

const GZIP = 1
const ZSTD = 4

/**
 * The plain records of a batch: at once for what is small and loaded, off the event loop for what is large. How large shows only while
 * it inflates (64 KiB of gzip can be 64 MiB), so the loop tries with a small bound first.
 */
export class Inflater {
  readonly #codecs: Codecs
  readonly #offload: Offload
  readonly #options: InflaterOptions

  constructor(deps: { codecs: Codecs; offload: Offload }, options: InflaterOptions = DEFAULT_INFLATER) {
    this.#codecs = deps.codecs
    this.#offload = deps.offload
    this.#options = options
  }

  /** `limitBytes` lowers what may come out. Throws INFLATED_TOO_LARGE, CORRUPT_BATCH, UNSUPPORTED_COMPRESSION. */
  section(batch: Buffer, header: BatchHeader, limitBytes = this.#options.maxInflatedBytes): Buffer | Promise<Buffer> {
    const packed = recordsSection(batch, 0, header)
    const codec = codecOf(header)
    if (codec === 0) return packed
    const loading = this.#codecs.ready(codec)
    if (loading !== undefined) return loading.then(() => this.#inflate(codec, packed, limitBytes))
    return this.#inflate(codec, packed, limitBytes)
  }

  /**
   * What a new batch may inflate to: a codec that works on the event loop is held to sixteen times the largest batch, so that nobody
   * else waits long; what such a bound refuses is a bomb or a topic whose max.message.bytes is too small for its batches.
   */
  limitFor(header: BatchHeader, maxMessageBytes: number): number {
    const { maxInflatedBytes } = this.#options
    if (this.#offLoop(codecOf(header)) !== null) return maxInflatedBytes
    return Math.min(maxInflatedBytes, Math.max(16 * MIB, 16 * maxMessageBytes))
  }

  #offLoop(codec: number): ((bytes: Buffer, maxBytes: number) => Promise<Buffer>) | null {
    if (codec === GZIP) return (bytes, maxBytes) => this.#offload.gunzip(bytes, maxBytes)
    const { zstd } = this.#offload
    return codec === ZSTD && zstd !== null ? (bytes, maxBytes) => zstd.decompress(bytes, maxBytes) : null
  }

  #inflate(codec: number, packed: Buffer, limitBytes: number): Buffer | Promise<Buffer> {
    const { offLoopFromBytes, onLoopBytes } = this.#options
    const offLoop = this.#offLoop(codec)
    if (offLoop === null) return this.#codecs.inflate(codec, packed, limitBytes)
    if (packed.length >= offLoopFromBytes) return offLoop(packed, limitBytes)
    try {
      return this.#codecs.inflate(codec, packed, Math.min(onLoopBytes, limitBytes))
    } catch (error) {
      if (limitBytes <= onLoopBytes || !isCode(error, 'INFLATED_TOO_LARGE')) throw error
      return offLoop(packed, limitBytes)
    }
  }
}
