/** Bytes of memory that one chunk holds. Memory of this size comes zeroed from the system and is touched only where written. */
const CHUNK_BYTES = 128 * 1024
/** A file starts with this much and doubles up to a chunk, so that thousands of small files stay small. */
const FIRST_BYTES = 1024

/**
 * A file's content in memory: grows without moving what is there (beyond the first chunk), and places never written cost nothing
 * and read as zeros. Bytes behind the end are always zero, so that growing again shows no old ones.
 */
export class ChunkedBytes {
  readonly #chunks: (Buffer | undefined)[] = []
  #sizeBytes = 0

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  /** Memory that a write of `length` bytes at `position` will take; asked before the write, so that a bound can refuse it. */
  growthOf(position: number, length: number): number {
    let growth = 0
    for (let at = position; at < position + length; ) {
      const index = Math.floor(at / CHUNK_BYTES)
      const end = Math.min((index + 1) * CHUNK_BYTES, position + length)
      growth += chunkSize(index, end - index * CHUNK_BYTES, this.#chunks[index]) - (this.#chunks[index]?.length ?? 0)
      at = end
    }
    return growth
  }

  get allocatedBytes(): number {
    let sum = 0
    for (const chunk of this.#chunks) sum += chunk?.length ?? 0
    return sum
  }

  write(source: Buffer, position: number): void {
    const length = source.length
    let done = 0
    while (done < length) {
      const at = position + done
      const index = Math.floor(at / CHUNK_BYTES)
      const start = at - index * CHUNK_BYTES
      const count = Math.min(CHUNK_BYTES - start, length - done)
      source.copy(this.#chunk(index, start + count), start, done, done + count)
      done += count
    }
    if (length > 0 && position + length > this.#sizeBytes) this.#sizeBytes = position + length
  }

  /** Copies from `position` on; returns how many bytes were there. */
  read(target: Buffer, position: number): number {
    const length = Math.max(0, Math.min(target.length, this.#sizeBytes - position))
    let done = 0
    while (done < length) {
      const at = position + done
      const index = Math.floor(at / CHUNK_BYTES)
      const start = at - index * CHUNK_BYTES
      const count = Math.min(CHUNK_BYTES - start, length - done)
      const chunk = this.#chunks[index]
      const copied = chunk === undefined || start >= chunk.length ? 0 : chunk.copy(target, done, start, start + count)
      if (copied < count) target.fill(0, done + copied, done + count)
      done += count
    }
    return length
  }

  truncate(sizeBytes: number): void {
    if (sizeBytes < this.#sizeBytes) {
      const index = Math.floor(sizeBytes / CHUNK_BYTES)
      const start = sizeBytes - index * CHUNK_BYTES
      this.#chunks.length = Math.min(this.#chunks.length, start === 0 ? index : index + 1)
      const chunk = this.#chunks[index]
      if (chunk !== undefined && start < chunk.length) chunk.fill(0, start)
    }
    this.#sizeBytes = sizeBytes
  }

  clone(): ChunkedBytes {
    const copy = new ChunkedBytes()
    copy.#sizeBytes = this.#sizeBytes
    for (const [index, chunk] of this.#chunks.entries()) if (chunk !== undefined) copy.#chunks[index] = Buffer.from(chunk)
    return copy
  }

  toBuffer(): Buffer {
    const all = Buffer.alloc(this.#sizeBytes)
    this.read(all, 0)
    return all
  }

  #chunk(index: number, needed: number): Buffer {
    const current = this.#chunks[index]
    const size = chunkSize(index, needed, current)
    if (current !== undefined && current.length === size) return current
    const grown = Buffer.alloc(size)
    current?.copy(grown)
    this.#chunks[index] = grown
    return grown
  }
}

function chunkSize(index: number, needed: number, current: Buffer | undefined): number {
  if (index > 0) return CHUNK_BYTES
  let size = current?.length ?? FIRST_BYTES
  while (size < needed) size *= 2
  return size
}
