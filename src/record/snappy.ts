import { malformed, tooLarge } from './inflate-errors.ts'
import { copyMatch } from './lz4.ts'

/**
 * Snappy in the two framings that Kafka's clients send: a raw block, and xerial's stream of length-prefixed blocks. The decoder is our
 * own because the library's does not tell a stream that ends early from a whole one.
 */
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])
/** Magic, int32 version, int32 lowest compatible version. Some writers have the versions in little-endian, so they are not judged. */
const XERIAL_HEADER_BYTES = 16
const XERIAL_BLOCK_BYTES = 32 * 1024
/** Three bytes of a block say at most 64. */
const MAX_RATIO = 22
const SHORT_COPY_BYTES = 24

function broken(reason: string): never {
  throw malformed('snappy', reason)
}

function isXerial(bytes: Buffer): boolean {
  return bytes.length >= XERIAL_HEADER_BYTES && bytes.compare(XERIAL_MAGIC, 0, 8, 0, 8) === 0
}

interface Declared {
  readonly size: number
  /** First byte after the declared size. */
  readonly start: number
}

/** The size that a block declares, compared with what its bytes can give. */
function declaredSize(bytes: Buffer, at: number, end: number): Declared {
  let size = 0
  for (let shift = 0, start = at; shift < 35 && start < end; shift += 7) {
    const byte = bytes[start++] as number
    size += (byte & 0x7f) * 2 ** shift
    if (byte < 0x80) {
      if (size > (end - start) * MAX_RATIO) broken(`a block of ${end - start} bytes cannot inflate to ${size}`)
      return { size, start }
    }
  }
  return broken('the size of a block is cut')
}

/** Inflates either framing. Throws CORRUPT_BATCH, or INFLATED_TOO_LARGE before memory is taken. */
export function decodeSnappy(bytes: Buffer, maxBytes: number): Buffer {
  if (!isXerial(bytes)) {
    const { size, start } = declaredSize(bytes, 0, bytes.length)
    if (size > maxBytes) throw tooLarge(maxBytes)
    const out = Buffer.allocUnsafe(size)
    decodeBlock(bytes, start, bytes.length, out, 0, size)
    return out
  }
  let total = 0
  for (let at = XERIAL_HEADER_BYTES; at < bytes.length; ) {
    const end = xerialBlockEnd(bytes, at)
    total += declaredSize(bytes, at + 4, end).size
    if (total > maxBytes) throw tooLarge(maxBytes)
    at = end
  }
  const out = Buffer.allocUnsafe(total)
  let pos = 0
  for (let at = XERIAL_HEADER_BYTES; at < bytes.length; ) {
    const end = xerialBlockEnd(bytes, at)
    const { size, start } = declaredSize(bytes, at + 4, end)
    decodeBlock(bytes, start, end, out, pos, pos + size)
    pos += size
    at = end
  }
  return out
}

function xerialBlockEnd(bytes: Buffer, at: number): number {
  if (bytes.length - at < 4) broken('the length of a block is cut')
  const length = bytes.readInt32BE(at)
  if (length < 1 || length > bytes.length - at - 4) broken(`a block of ${length} bytes with ${bytes.length - at - 4} left`)
  return at + 4 + length
}

/** Fills out[outAt, outEnd) exactly. */
function decodeBlock(src: Buffer, from: number, end: number, out: Buffer, outAt: number, outEnd: number): void {
  let at = from
  let pos = outAt
  while (at < end) {
    const tag = src[at++] as number
    const kind = tag & 3
    let length: number
    if (kind === 0) {
      length = tag >>> 2
      const extra = length - 59
      if (extra > 0) {
        if (extra > end - at) broken('a literal length is cut')
        length = src.readUIntLE(at, extra)
        at += extra
      }
      length++
      if (length > end - at || length > outEnd - pos) broken('literals go beyond their block')
      if (length > SHORT_COPY_BYTES) src.copy(out, pos, at, at + length)
      else for (let i = 0; i < length; i++) out[pos + i] = src[at + i] as number
      at += length
      pos += length
      continue
    }
    const offsetBytes = kind === 3 ? 4 : kind
    if (offsetBytes > end - at) broken('a copy is cut')
    let offset = src.readUIntLE(at, offsetBytes)
    at += offsetBytes
    if (kind === 1) {
      length = ((tag >>> 2) & 7) + 4
      offset |= (tag >>> 5) << 8
    } else length = (tag >>> 2) + 1
    if (offset === 0 || offset > pos - outAt) broken('a copy begins before the output')
    if (length > outEnd - pos) broken('a copy goes beyond the declared size')
    pos = copyMatch(out, pos, offset, length)
  }
  if (pos !== outEnd) broken(`${outEnd - pos} bytes are missing`)
}

/** Xerial's framing, big-endian, blocks of 32 KiB: what every client reads. `compressBlock` gives a raw block. */
export function encodeXerial(bytes: Buffer, compressBlock: (block: Buffer) => Uint8Array): Buffer {
  const header = Buffer.alloc(XERIAL_HEADER_BYTES)
  XERIAL_MAGIC.copy(header)
  header.writeInt32BE(1, 8)
  header.writeInt32BE(1, 12)
  const parts: Uint8Array[] = [header]
  for (let start = 0; start < bytes.length; start += XERIAL_BLOCK_BYTES) {
    const block = compressBlock(bytes.subarray(start, start + XERIAL_BLOCK_BYTES))
    const length = Buffer.allocUnsafe(4)
    length.writeInt32BE(block.length)
    parts.push(length, block)
  }
  return Buffer.concat(parts)
}
