/**
 * Buffers for reading files, by size class, so that a stream of cold reads does not make garbage of the size of the log. Keeps at
 * most `maxKeptBytes` for later; what is beyond is left to the collector.
 */
export class BufferPool {
  readonly #maxKeptBytes: number
  readonly #free: Buffer[][] = SIZES.map(() => [])
  #keptBytes = 0

  constructor(options: { maxKeptBytes: number }) {
    this.#maxKeptBytes = options.maxKeptBytes
  }

  get keptBytes(): number {
    return this.#keptBytes
  }

  /** At least `sizeBytes` long; what is in it is left from its last use. */
  take(sizeBytes: number): Buffer {
    const index = classFor(sizeBytes)
    if (index < 0) return Buffer.allocUnsafeSlow(sizeBytes)
    const kept = this.#free[index]?.pop()
    const size = SIZES[index] as number
    if (kept === undefined) return Buffer.allocUnsafeSlow(size)
    this.#keptBytes -= size
    return kept
  }

  /** The caller no longer looks at the buffer. */
  give(buffer: Buffer): void {
    const index = SIZES.indexOf(buffer.length)
    if (index < 0 || this.#keptBytes + buffer.length > this.#maxKeptBytes) return
    this.#keptBytes += buffer.length
    this.#free[index]?.push(buffer)
  }
}

const KIB = 1024
const SIZES = [16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB]

function classFor(sizeBytes: number): number {
  for (let index = 0; index < SIZES.length; index++) if (sizeBytes <= (SIZES[index] as number)) return index
  return -1
}
