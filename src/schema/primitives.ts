import { MoonMQError } from '../core/errors.ts'
import { ByteReader } from '../core/reader.ts'
import type { ByteWriter } from '../core/writer.ts'

/**
 * Array elements that one message may hold in all. A count is compared with the bytes that are left, but an element of two bytes becomes
 * an object of a hundred, so the number of elements has a bound of its own.
 */
const MAX_MESSAGE_ELEMENTS = 1_000_000
/** Bytes fields up to this size are copied into the message; larger ones are linked. */
const COPY_UP_TO_BYTES = 1024
const MAX_SHORT = 32767
const TWO_63 = 2 ** 63

/** What every field closure reads from: a byte reader that also counts the elements it was made to produce. */
export class MessageReader extends ByteReader {
  #elementsLeft = MAX_MESSAGE_ELEMENTS

  /** Checks an array's count against the bytes left, `minBytes` each, and against the bound of the whole message. */
  claim(count: number, minBytes: number): void {
    if (count * minBytes > this.remaining) throw bad(`an array of ${count} elements at byte ${this.position}, ${this.remaining} bytes left`)
    this.#elementsLeft -= count
    if (this.#elementsLeft < 0) throw bad(`more than ${MAX_MESSAGE_ELEMENTS} array elements in one message`)
  }
}

export function bad(reason: string): MoonMQError {
  return new MoonMQError('BAD_FRAME', { reason })
}

/** A length or count: -1 is null. `compact` is the encoding of flexible versions (KIP-482): unsigned varint of length + 1. */
export function readLength(reader: MessageReader, compact: boolean, short: boolean): number {
  const length = compact ? reader.uvarint() - 1 : short ? reader.int16() : reader.int32()
  if (length < -1) throw bad(`a length of ${length} at byte ${reader.position}`)
  return length
}

export function writeLength(writer: ByteWriter, length: number, compact: boolean, short: boolean): void {
  if (compact) writer.uvarint(length + 1)
  else if (short) writer.int16(length)
  else writer.int32(length)
}

export function readString(reader: MessageReader, compact: boolean, nullable: boolean, path: string): string | null {
  const length = readLength(reader, compact, true)
  if (length >= 0) {
    if (length > MAX_SHORT) throw bad(`${path}: a string of ${length} bytes`)
    return length === 0 ? '' : reader.utf8(length)
  }
  if (!nullable) throw bad(`${path} is null`)
  return null
}

export function writeString(writer: ByteWriter, text: string, compact: boolean, path: string): void {
  const length = Buffer.byteLength(text)
  if (length > MAX_SHORT) throw new MoonMQError('INTERNAL', { reason: `${path}: a string of ${length} bytes cannot be sent` })
  writeLength(writer, length, compact, true)
  if (length > 0) writer.utf8(text, length)
}

/** A view into the message, not a copy. */
export function readBytes(reader: MessageReader, compact: boolean, nullable: boolean, path: string): Buffer | null {
  const length = readLength(reader, compact, false)
  if (length >= 0) return reader.view(length)
  if (!nullable) throw bad(`${path} is null`)
  return null
}

export function readHash(reader: MessageReader): string {
  return reader.view(8).readBigInt64BE().toString()
}

/** Writes one buffer or several as one value; large ones are linked into the writer and must not change until they were sent. */
export function writeBytes(writer: ByteWriter, value: Buffer | readonly Buffer[], compact: boolean): void {
  if (!Array.isArray(value)) {
    const bytes = value as Buffer
    writeLength(writer, bytes.length, compact, false)
    put(writer, bytes)
    return
  }
  const parts = value as readonly Buffer[]
  let total = 0
  for (const part of parts) total += part.length
  writeLength(writer, total, compact, false)
  for (const part of parts) put(writer, part)
}

function put(writer: ByteWriter, bytes: Buffer): void {
  if (bytes.length > COPY_UP_TO_BYTES) writer.link(bytes)
  else writer.bytes(bytes)
}

/** Kafka's "no limit" of 2^63-1 is 2^63 as a double, and goes out as what it came from. */
export function writeLong(writer: ByteWriter, value: number): void {
  if (value < TWO_63) {
    writer.int64(value)
    return
  }
  writer.int32(0x7fffffff)
  writer.uint32(0xffffffff)
}

/** All 64 bits of a decimal number. */
export function writeHash(writer: ByteWriter, value: string): void {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(BigInt(value))
  writer.bytes(bytes)
}

/** Reads a tag section and skips every tag in it (KIP-482). */
export function skipTags(reader: ByteReader): void {
  const count = reader.uvarint()
  for (let i = 0; i < count; i++) {
    reader.uvarint()
    reader.take(reader.uvarint())
  }
}
