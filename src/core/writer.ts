import { MoonMQError } from './errors.ts'
import { type UInt64, writeInt64, writeUInt64 } from './int64.ts'
import { type Uuid, writeUuid } from './uuid.ts'

/**
 * Writes big-endian primitives into memory that grows. Large buffers that exist already (record batches) are linked in, not
 * copied, so `finish` returns a list for a gathering write.
 */
export class ByteWriter {
  #chunk: Buffer
  #at = 0
  /** Where the part of the chunk that is not yet in `#done` begins. */
  #from = 0
  #doneBytes = 0
  readonly #done: Buffer[] = []
  readonly #maxBytes: number

  /** More than `maxBytes` is not written, and no memory taken for it: ANSWER_TOO_LARGE is thrown. */
  constructor(initialBytes = 256, maxBytes = Number.POSITIVE_INFINITY) {
    this.#chunk = Buffer.allocUnsafe(Math.min(initialBytes, maxBytes))
    this.#maxBytes = maxBytes
  }

  /** Bytes written so far, linked ones included. */
  get length(): number {
    return this.#doneBytes + this.#at - this.#from
  }

  #reserve(size: number): number {
    const at = this.#at
    if (at + size > this.#chunk.length) return this.#grow(size)
    this.#at = at + size
    return at
  }

  #grow(size: number): number {
    const pending = this.#at - this.#from
    const limit = this.#maxBytes
    if (this.length + size > limit) throw new MoonMQError('ANSWER_TOO_LARGE', { limit })
    const next = Buffer.allocUnsafe(Math.min(limit, Math.max(this.#chunk.length * 2, pending + size + 64)))
    this.#chunk.copy(next, 0, this.#from, this.#at)
    this.#chunk = next
    this.#from = 0
    this.#at = pending + size
    return pending
  }

  int8(value: number): void {
    const at = this.#reserve(1)
    this.#chunk.writeInt8(value, at)
  }

  uint8(value: number): void {
    const at = this.#reserve(1)
    this.#chunk[at] = value
  }

  int16(value: number): void {
    const at = this.#reserve(2)
    this.#chunk.writeInt16BE(value, at)
  }

  uint16(value: number): void {
    const at = this.#reserve(2)
    this.#chunk.writeUInt16BE(value, at)
  }

  int32(value: number): void {
    const at = this.#reserve(4)
    this.#chunk.writeInt32BE(value, at)
  }

  uint32(value: number): void {
    const at = this.#reserve(4)
    this.#chunk.writeUInt32BE(value, at)
  }

  int64(value: number): void {
    const at = this.#reserve(8)
    writeInt64(this.#chunk, value, at)
  }

  uint64(value: UInt64): void {
    const at = this.#reserve(8)
    writeUInt64(this.#chunk, value, at)
  }

  float64(value: number): void {
    const at = this.#reserve(8)
    this.#chunk.writeDoubleBE(value, at)
  }

  uuid(id: Uuid): void {
    const at = this.#reserve(16)
    writeUuid(this.#chunk, id, at)
  }

  uvarint(value: number): void {
    let rest = value
    while (rest >= 0x80) {
      this.uint8((rest % 128) | 0x80)
      rest = Math.floor(rest / 128)
    }
    this.uint8(rest)
  }

  varint(value: number): void {
    this.uvarint(((value << 1) ^ (value >> 31)) >>> 0)
  }

  varlong(value: number): void {
    // Zig-zag in BigInt only where doubling would leave the safe integers.
    if (Math.abs(value) < 2 ** 52) {
      this.uvarint(value >= 0 ? value * 2 : -value * 2 - 1)
      return
    }
    let rest = value >= 0 ? BigInt(value) * 2n : -BigInt(value) * 2n - 1n
    while (rest >= 0x80n) {
      this.uint8(Number(rest & 0x7fn) | 0x80)
      rest >>= 7n
    }
    this.uint8(Number(rest))
  }

  /** Copies the bytes in. */
  bytes(bytes: Uint8Array): void {
    const at = this.#reserve(bytes.length)
    this.#chunk.set(bytes, at)
  }

  /** Writes text whose byte length the caller has written. */
  utf8(text: string, byteLength: number): void {
    const at = this.#reserve(byteLength)
    this.#chunk.write(text, at, byteLength, 'utf8')
  }

  /** Links the bytes in without copying. They must not change until the result was sent. */
  link(bytes: Buffer): void {
    this.#close()
    this.#done.push(bytes)
    this.#doneBytes += bytes.length
  }

  /** Overwrites a 32-bit number written before; `position` counts from the start of what was written, before any link. */
  patchInt32(position: number, value: number): void {
    if (this.#done.length > 0) throw new Error('patchInt32 after link')
    this.#chunk.writeInt32BE(value, position)
  }

  #close(): void {
    if (this.#at > this.#from) {
      this.#done.push(this.#chunk.subarray(this.#from, this.#at))
      this.#doneBytes += this.#at - this.#from
      this.#from = this.#at
    }
  }

  /** The parts in order. The writer is spent. */
  finish(): Buffer[] {
    this.#close()
    return this.#done
  }

  /** Everything in one buffer. */
  toBuffer(): Buffer {
    const parts = this.finish()
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
  }
}
