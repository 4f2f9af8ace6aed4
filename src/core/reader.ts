import { MoonMQError } from './errors.ts'
import { readInt64, readUInt64, type UInt64 } from './int64.ts'
import { type Uuid, uuidFromBytes } from './uuid.ts'

/**
 * Reads big-endian primitives from a buffer; every read is checked against the end first. Throws BAD_FRAME.
 * Lengths and counts are compared with what remains before memory is taken.
 */
export class ByteReader {
  readonly bytes: Buffer
  position: number
  readonly end: number

  constructor(bytes: Buffer, position = 0, end = bytes.length) {
    this.bytes = bytes
    this.position = position
    this.end = end
  }

  get remaining(): number {
    return this.end - this.position
  }

  /** Moves on by `size` bytes and returns where they start. */
  take(size: number): number {
    const at = this.position
    if (size < 0 || size > this.end - at) {
      throw new MoonMQError('BAD_FRAME', { reason: `${size} bytes needed at byte ${at}, ${this.end - at} left` })
    }
    this.position = at + size
    return at
  }

  int8(): number {
    return this.bytes.readInt8(this.take(1))
  }

  uint8(): number {
    return this.bytes[this.take(1)] as number
  }

  int16(): number {
    return this.bytes.readInt16BE(this.take(2))
  }

  uint16(): number {
    return this.bytes.readUInt16BE(this.take(2))
  }

  int32(): number {
    return this.bytes.readInt32BE(this.take(4))
  }

  uint32(): number {
    return this.bytes.readUInt32BE(this.take(4))
  }

  int64(): number {
    return readInt64(this.bytes, this.take(8))
  }

  uint64(): UInt64 {
    return readUInt64(this.bytes, this.take(8))
  }

  float64(): number {
    return this.bytes.readDoubleBE(this.take(8))
  }

  uuid(): Uuid {
    return uuidFromBytes(this.bytes, this.take(16))
  }

  /** A view of the next `size` bytes, not a copy. */
  view(size: number): Buffer {
    const at = this.take(size)
    return this.bytes.subarray(at, at + size)
  }

  utf8(size: number): string {
    const at = this.take(size)
    return this.bytes.toString('utf8', at, at + size)
  }

  /** Unsigned varint of at most 5 bytes and 32 bits. */
  uvarint(): number {
    let value = 0
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.uint8()
      value += (byte & 0x7f) * 2 ** shift
      if (byte < 0x80) {
        if (value > 0xffffffff) break
        return value
      }
    }
    throw new MoonMQError('BAD_FRAME', { reason: `a varint at byte ${this.position} does not fit 32 bits` })
  }

  /** Zig-zag varint, 32 bits. */
  varint(): number {
    const value = this.uvarint()
    return (value >>> 1) ^ -(value & 1)
  }

  /** Zig-zag varint of at most 10 bytes. The nearest double beyond ±2^53. */
  varlong(): number {
    let low = 0
    let high = 0
    for (let index = 0; index < 10; index++) {
      const byte = this.uint8()
      const part = byte & 0x7f
      if (index < 4) low += part * 2 ** (7 * index)
      else if (index === 4) {
        low += (part & 0x0f) * 2 ** 28
        high += part >>> 4
      } else high += part * 2 ** (7 * index - 32)
      if (byte < 0x80) {
        if (high > 0xffffffff) break
        const negative = low % 2 === 1
        const half = high * 2147483648 + Math.floor(low / 2)
        return negative ? -half - 1 : half
      }
    }
    throw new MoonMQError('BAD_FRAME', { reason: `a varint at byte ${this.position} does not fit 64 bits` })
  }

  /** Throws unless everything was read. */
  expectEnd(what: string): void {
    if (this.position !== this.end) {
      throw new MoonMQError('BAD_FRAME', { reason: `${this.end - this.position} bytes left after ${what}` })
    }
  }
}
