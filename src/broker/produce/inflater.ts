import { MoonMQError } from '../../core/errors.ts'
import { MAX_INFLATED_BATCH_BYTES } from '../../core/limits.ts'
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
  /** Compressed bytes from which inflating leaves the event loop. */
  readonly offLoopFromBytes: number
  /** What a batch may inflate to. */
  readonly maxInflatedBytes: number
}

export const DEFAULT_INFLATER: InflaterOptions = { offLoopFromBytes: 64 * 1024, maxInflatedBytes: MAX_INFLATED_BATCH_BYTES }

const GZIP = 1

/** The plain records of a batch: at once for what is small and loaded, off the event loop for what is large. */
export class Inflater {
  readonly #codecs: Codecs
  readonly #offload: Offload
  readonly #options: InflaterOptions

  constructor(deps: { codecs: Codecs; offload: Offload }, options: InflaterOptions = DEFAULT_INFLATER) {
    this.#codecs = deps.codecs
    this.#offload = deps.offload
    this.#options = options
  }

  section(batch: Buffer, header: BatchHeader): Buffer | Promise<Buffer> {
    const packed = recordsSection(batch, 0, header)
    const codec = codecOf(header)
    if (codec === 0) return packed
    const loading = this.#codecs.ready(codec)
    if (loading !== undefined) return loading.then(() => this.#inflate(codec, packed))
    return this.#inflate(codec, packed)
  }

  #inflate(codec: number, packed: Buffer): Buffer | Promise<Buffer> {
    const { maxInflatedBytes, offLoopFromBytes } = this.#options
    if (codec === GZIP && packed.length >= offLoopFromBytes) {
      return this.#offload.gunzip(packed, maxInflatedBytes).catch((error: unknown) => {
        if (error instanceof MoonMQError) throw error
        throw new MoonMQError('INVALID_RECORD', { reason: 'the records do not inflate' }, error)
      })
    }
    return this.#codecs.inflate(codec, packed, maxInflatedBytes)
  }
}
