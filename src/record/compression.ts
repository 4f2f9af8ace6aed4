import { gunzipSync, gzipSync } from 'node:zlib'
import { MoonMQError } from '../core/errors.ts'
import { MAX_INFLATED_BATCH_BYTES } from '../core/limits.ts'
import type { Loader } from '../core/loader.ts'
import { type BatchHeader, codecOf } from './batch.ts'
import { malformed, tooLarge } from './inflate-errors.ts'
import { decodeLz4, encodeLz4 } from './lz4.ts'
import { recordsSection } from './record.ts'
import { decodeSnappy, encodeXerial } from './snappy.ts'
import { readZstdFrames, type ZstdFrame, zstdContentHint } from './zstd-frames.ts'

/** Kafka's codec numbers: bits 0-2 of a batch's attributes. */
export const CODEC = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const
export type CodecName = keyof typeof CODEC

const NAMES = Object.keys(CODEC) as CodecName[]

/** `none`, `gzip`, … or undefined for a number that names no codec. */
export function codecName(codec: number): CodecName | undefined {
  return NAMES[codec]
}

/** The codec of Kafka's setting `compression.type` and of producers' options; undefined for `producer` and what is not known. */
export function codecByName(name: string): number | undefined {
  return Object.hasOwn(CODEC, name) ? CODEC[name as CodecName] : undefined
}

interface Zstd {
  /** `mostBytes` bounds what comes out. */
  decompress(bytes: Buffer, mostBytes: number): Uint8Array
  compress(bytes: Buffer, level: number): Uint8Array
}

interface ZstdWasm {
  init(): Promise<void>
  decompress(bytes: Uint8Array, options: { defaultHeapSize: number }): Uint8Array
  compress(bytes: Uint8Array, level: number): Uint8Array
}

/** What node:zlib has from Node 22.15 on. */
interface ZlibWithZstd {
  zstdDecompressSync?(bytes: Buffer, options: { maxOutputLength: number }): Buffer
  zstdCompressSync?(bytes: Buffer, options: { params: Record<number, number> }): Buffer
  readonly constants: { readonly ZSTD_c_compressionLevel?: number }
}

/**
 * The package keeps its one instance in a variable: a second `init` gives it new memory while its functions stay with the old, so it is
 * called once for each loaded module however many `Codecs` there are.
 */
const wasmReady = new WeakMap<ZstdWasm, Promise<void>>()

function initOnce(wasm: ZstdWasm): Promise<void> {
  let ready = wasmReady.get(wasm)
  if (ready === undefined) {
    ready = wasm.init()
    wasmReady.set(wasm, ready)
  }
  return ready
}

const DEFAULT_ZSTD_LEVEL = 3

/** Node's own zstd, for work on the calling thread; undefined before 22.15, where the names cannot be imported. */
function builtInZstd(): Zstd | undefined {
  const zlib = process.getBuiltinModule('node:zlib') as unknown as ZlibWithZstd
  const { zstdDecompressSync, zstdCompressSync } = zlib
  const levelKey = zlib.constants.ZSTD_c_compressionLevel
  if (zstdDecompressSync === undefined || zstdCompressSync === undefined || levelKey === undefined) return undefined
  return {
    decompress: (bytes, mostBytes) => zstdDecompressSync(bytes, { maxOutputLength: Math.max(1, mostBytes) }),
    compress: (bytes, level) => zstdCompressSync(bytes, { params: { [levelKey]: level } }),
  }
}

/** A package as a CommonJS module or as the namespace that `import()` makes of one. */
function unwrap(module: unknown): unknown {
  const inner = (module as { default?: unknown } | null)?.default
  return inner ?? module
}

/**
 * The codecs of record batches. Packages are loaded when a codec is first used: `ready` tells whether that must be awaited. What comes
 * in from others is inflated under a bound that holds before and during decoding; see the format's own file.
 */
export class Codecs {
  readonly #loader: Loader
  readonly #loading = new Map<number, Promise<void>>()
  #zstd: Zstd | undefined
  #snappyBlock: ((block: Buffer) => Uint8Array) | undefined
  #lz4: ((bytes: Buffer) => Buffer) | undefined

  constructor(deps: { loader: Loader }) {
    this.#loader = deps.loader
  }

  /**
   * Undefined when the codec can be used at once in both directions, else what to wait for; it rejects with UNSUPPORTED_COMPRESSION
   * when the package is not installed. Throws UNSUPPORTED_COMPRESSION for a number that names no codec.
   */
  ready(codec: number): Promise<void> | undefined {
    switch (codec) {
      case CODEC.none:
      case CODEC.gzip:
        return undefined
      case CODEC.snappy:
        return this.#snappyBlock === undefined ? this.#once(codec, () => this.#loadSnappy()) : undefined
      case CODEC.lz4:
        return this.#lz4 === undefined ? this.#once(codec, () => this.#loadLz4()) : undefined
      case CODEC.zstd:
        this.#zstd ??= builtInZstd()
        return this.#zstd === undefined ? this.#once(codec, () => this.#loadZstd()) : undefined
      default:
        throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
    }
  }

  /** Those who come while a package loads share the load; one that failed is tried again. */
  #once(codec: number, load: () => Promise<void>): Promise<void> {
    let loading = this.#loading.get(codec)
    if (loading === undefined) {
      loading = load().finally(() => this.#loading.delete(codec))
      this.#loading.set(codec, loading)
    }
    return loading
  }

  /**
   * The inflated bytes: a view of `bytes` for codec 0. Throws CORRUPT_BATCH for what no encoder wrote, INFLATED_TOO_LARGE beyond
   * `maxBytes`, UNSUPPORTED_COMPRESSION.
   */
  inflate(codec: number, bytes: Buffer, maxBytes: number = MAX_INFLATED_BATCH_BYTES): Buffer {
    switch (codec) {
      case CODEC.none:
        return bytes
      case CODEC.gzip:
        return inflateGzip(bytes, maxBytes)
      case CODEC.snappy:
        return decodeSnappy(bytes, maxBytes)
      case CODEC.lz4:
        return decodeLz4(bytes, maxBytes)
      case CODEC.zstd:
        return this.#inflateZstd(bytes, maxBytes)
      default:
        throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
    }
  }

  /** The records part of a batch, inflated; a view when it was not compressed. Errors as `inflate`. */
  inflateRecords(batch: Buffer, position: number, header: BatchHeader, maxBytes: number = MAX_INFLATED_BATCH_BYTES): Buffer {
    return this.inflate(codecOf(header), recordsSection(batch, position, header), maxBytes)
  }

  /** The compressed bytes. `level` is the codec's own scale (gzip 1-9, zstd 1-22) and ignored by the others. */
  deflate(codec: number, bytes: Buffer, level?: number): Buffer {
    switch (codec) {
      case CODEC.none:
        return bytes
      case CODEC.gzip:
        return gzipSync(bytes, level === undefined ? {} : { level })
      case CODEC.snappy:
        return encodeXerial(bytes, this.#readySnappy())
      case CODEC.lz4:
        return (this.#lz4 ?? encodeLz4)(bytes)
      case CODEC.zstd:
        return viewOf(this.#readyZstd().compress(bytes, level ?? DEFAULT_ZSTD_LEVEL))
      default:
        throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec })
    }
  }

  /** What the bytes say that they inflate to: may be missing, or a lie. */
  sizeHint(codec: number, bytes: Buffer): number | undefined {
    // gzip ends with the size of its last member, modulo 2^32 (RFC 1952).
    if (codec === CODEC.gzip && bytes.length >= 18) return bytes.readUInt32LE(bytes.length - 4)
    return codec === CODEC.zstd ? zstdContentHint(bytes) : undefined
  }

  #inflateZstd(bytes: Buffer, maxBytes: number): Buffer {
    const zstd = this.#readyZstd()
    const frames = readZstdFrames(bytes)
    let promised = 0
    for (const frame of frames) promised += Math.max(frame.leastBytes, frame.contentBytes ?? 0)
    if (promised > maxBytes) throw tooLarge(maxBytes)
    const parts: Buffer[] = []
    let left = maxBytes
    for (const frame of frames) {
      const part = inflateZstdFrame(zstd, bytes, frame, left, maxBytes)
      left -= part.length
      parts.push(part)
    }
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
  }

  #readyZstd(): Zstd {
    if (this.#zstd === undefined) throw new MoonMQError('INTERNAL', { reason: 'zstd is used before it is ready' })
    return this.#zstd
  }

  #readySnappy(): (block: Buffer) => Uint8Array {
    if (this.#snappyBlock === undefined) throw new MoonMQError('INTERNAL', { reason: 'snappy is used before it is ready' })
    return this.#snappyBlock
  }

  async #load(codec: CodecName, name: string): Promise<unknown> {
    try {
      return unwrap(await this.#loader.load(name))
    } catch (error) {
      throw new MoonMQError('UNSUPPORTED_COMPRESSION', { codec }, error)
    }
  }

  async #loadZstd(): Promise<void> {
    const wasm = (await this.#load('zstd', '@bokuweb/zstd-wasm')) as ZstdWasm
    await initOnce(wasm)
    this.#zstd = {
      decompress: (bytes, mostBytes) => wasm.decompress(bytes, { defaultHeapSize: Math.max(1, mostBytes) }),
      compress: (bytes, level) => wasm.compress(bytes, level),
    }
  }

  async #loadSnappy(): Promise<void> {
    const snappy = (await this.#load('snappy', 'snappyjs')) as { compress: (block: Buffer) => Uint8Array }
    this.#snappyBlock = snappy.compress
  }

  /** An optional dependency: where it was not built, the encoder of our own serves. */
  async #loadLz4(): Promise<void> {
    try {
      const native = (await this.#load('lz4', 'lz4-napi')) as { compressFrameSync: (bytes: Buffer) => Buffer }
      this.#lz4 = native.compressFrameSync
    } catch {
      this.#lz4 = encodeLz4
    }
  }
}

function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Large chunks are given back to the system when they are freed. */
const GZIP_CHUNK_BYTES = { least: 64 * 1024, most: 1024 * 1024 }

function chunkFor(packedBytes: number, maxBytes: number): number {
  return Math.max(GZIP_CHUNK_BYTES.least, Math.min(GZIP_CHUNK_BYTES.most, maxBytes, 4 * packedBytes))
}

function inflateGzip(bytes: Buffer, maxBytes: number): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: Math.max(1, maxBytes), chunkSize: chunkFor(bytes.length, maxBytes) })
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(maxBytes)
    throw malformed('gzip', error instanceof Error ? error.message : String(error), error)
  }
}

/** One frame into at most `left` bytes. When that is less than the blocks could give, running out of room means too large. */
function inflateZstdFrame(zstd: Zstd, bytes: Buffer, frame: ZstdFrame, left: number, maxBytes: number): Buffer {
  const room = Math.min(frame.mostBytes, left)
  try {
    const out = viewOf(zstd.decompress(bytes.subarray(frame.start, frame.end), room))
    if (frame.contentBytes !== undefined && out.length !== frame.contentBytes) throw malformed('zstd', 'the content size is wrong')
    return out
  } catch (error) {
    if (error instanceof MoonMQError) throw error
    if (room < frame.mostBytes) throw tooLarge(maxBytes)
    throw malformed('zstd', error instanceof Error ? error.message : String(error), error)
  }
}
