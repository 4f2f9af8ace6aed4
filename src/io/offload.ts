import * as zlib from 'node:zlib'
import { MoonMQError } from '../core/errors.ts'
import type { Offload, ZstdOffload } from '../core/offload.ts'
import { Semaphore } from '../core/semaphore.ts'
import { AT_ONCE, type Completions } from './completions.ts'
import { systemCode } from './system-error.ts'

type Bounds = { maxOutputLength?: number; chunkSize?: number }
type Callback = (error: Error | null, result: Buffer) => void
type AsyncCodec = (bytes: Buffer, bounds: Bounds, done: Callback) => void
type SyncCodec = (bytes: Buffer, bounds: Bounds) => Buffer

/** The codecs of Zstandard came to node:zlib after the oldest runtime that is supported; its types do not know them. */
interface ZstdOfNode {
  readonly zstdCompress?: AsyncCodec
  readonly zstdDecompress?: AsyncCodec
  readonly zstdCompressSync?: SyncCodec
  readonly zstdDecompressSync?: SyncCodec
}

const MIN_CHUNK_BYTES = 64 * 1024
const MAX_CHUNK_BYTES = 1024 * 1024

/**
 * Runs codecs in the thread pool, at most half of its threads at once, so that the disk keeps the other half. What waits is held by
 * the connections that asked, whose open bytes are bounded.
 */
export class NodeOffload implements Offload {
  readonly zstd: ZstdOffload | null
  readonly #jobs: Semaphore

  constructor(options: { poolSize: number }) {
    this.#jobs = new Semaphore(Math.max(1, Math.floor(options.poolSize / 2)))
    const { zstdCompress, zstdDecompress } = zlib as ZstdOfNode
    this.zstd =
      zstdCompress === undefined || zstdDecompress === undefined
        ? null
        : {
            compress: (bytes) => this.#compress(zstdCompress, bytes),
            decompress: (bytes, maxBytes) => this.#inflate('zstd', zstdDecompress, bytes, maxBytes),
          }
  }

  gunzip(bytes: Buffer, maxBytes: number): Promise<Buffer> {
    return this.#inflate('gzip', zlib.gunzip, bytes, maxBytes)
  }

  gzip(bytes: Buffer): Promise<Buffer> {
    return this.#compress(zlib.gzip, bytes)
  }

  async #inflate(codec: string, inflate: AsyncCodec, bytes: Buffer, maxBytes: number): Promise<Buffer> {
    try {
      return await this.#jobs.run(() => promised(inflate, bytes, inflateBounds(bytes, maxBytes)))
    } catch (error) {
      throw inflateError(codec, error, maxBytes)
    }
  }

  #compress(compress: AsyncCodec, bytes: Buffer): Promise<Buffer> {
    return this.#jobs.run(() => promised(compress, bytes, { chunkSize: chunkFor(bytes.length) }))
  }
}

/** Runs codecs on the calling thread when the completions say so: for simulation, where the thread pool would bring its own order. */
export class InlineOffload implements Offload {
  readonly zstd: ZstdOffload | null
  readonly #completions: Completions

  constructor(deps: { completions?: Completions } = {}) {
    this.#completions = deps.completions ?? AT_ONCE
    const { zstdCompressSync, zstdDecompressSync } = zlib as ZstdOfNode
    this.zstd =
      zstdCompressSync === undefined || zstdDecompressSync === undefined
        ? null
        : {
            compress: (bytes) => this.#run('zstd', () => zstdCompressSync(bytes, {})),
            decompress: (bytes, maxBytes) => this.#inflate('zstd', zstdDecompressSync, bytes, maxBytes),
          }
  }

  gunzip(bytes: Buffer, maxBytes: number): Promise<Buffer> {
    return this.#inflate('gzip', zlib.gunzipSync, bytes, maxBytes)
  }

  gzip(bytes: Buffer): Promise<Buffer> {
    return this.#run('gzip', () => zlib.gzipSync(bytes))
  }

  #inflate(codec: string, inflate: SyncCodec, bytes: Buffer, maxBytes: number): Promise<Buffer> {
    return this.#run(codec, () => {
      try {
        return inflate(bytes, inflateBounds(bytes, maxBytes))
      } catch (error) {
        throw inflateError(codec, error, maxBytes)
      }
    })
  }

  async #run(codec: string, work: () => Buffer): Promise<Buffer> {
    await this.#completions.arrive(`offload ${codec}`)
    return work()
  }
}

function promised(codec: AsyncCodec, bytes: Buffer, bounds: Bounds): Promise<Buffer> {
  return new Promise((resolve, reject) => codec(bytes, bounds, (error, result) => (error ? reject(error) : resolve(result))))
}

/** Each chunk of output is a trip to the thread pool, so it is about what the input will become. */
function inflateBounds(bytes: Buffer, maxBytes: number): Bounds {
  return { maxOutputLength: Math.max(1, maxBytes), chunkSize: chunkFor(Math.min(maxBytes, 4 * bytes.length)) }
}

function chunkFor(size: number): number {
  return Math.min(MAX_CHUNK_BYTES, Math.max(MIN_CHUNK_BYTES, size))
}

function inflateError(codec: string, error: unknown, maxBytes: number): MoonMQError {
  const code = systemCode(error)
  if (code === 'ERR_BUFFER_TOO_LARGE') return new MoonMQError('INFLATED_TOO_LARGE', { limit: maxBytes }, error)
  return new MoonMQError('CORRUPT_BATCH', { reason: `${codec}: ${code ?? 'an unknown error'}` }, error)
}
