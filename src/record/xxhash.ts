/** XXH32 (xxHash specification 0.1.1), the checksum of LZ4 frames. */
const PRIME_1 = 0x9e3779b1
const PRIME_2 = 0x85ebca77
const PRIME_3 = 0xc2b2ae3d
const PRIME_4 = 0x27d4eb2f
const PRIME_5 = 0x165667b1

function rotate(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits))
}

function round(lane: number, input: number): number {
  return Math.imul(rotate((lane + Math.imul(input, PRIME_2)) | 0, 13), PRIME_1)
}

/** The hash of bytes[start, end) as an unsigned number, with seed 0. */
export function xxh32(bytes: Buffer, start = 0, end = bytes.length): number {
  const length = end - start
  let at = start
  let hash = PRIME_5
  if (length >= 16) {
    let a = (PRIME_1 + PRIME_2) | 0
    let b = PRIME_2 | 0
    let c = 0
    let d = -PRIME_1 | 0
    for (; at + 16 <= end; at += 16) {
      a = round(a, bytes.readInt32LE(at))
      b = round(b, bytes.readInt32LE(at + 4))
      c = round(c, bytes.readInt32LE(at + 8))
      d = round(d, bytes.readInt32LE(at + 12))
    }
    hash = (rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18)) | 0
  }
  hash = (hash + length) | 0
  for (; at + 4 <= end; at += 4) hash = Math.imul(rotate((hash + Math.imul(bytes.readInt32LE(at), PRIME_3)) | 0, 17), PRIME_4)
  for (; at < end; at++) hash = Math.imul(rotate((hash + Math.imul(bytes[at] as number, PRIME_5)) | 0, 11), PRIME_1)
  hash = Math.imul(hash ^ (hash >>> 15), PRIME_2)
  hash = Math.imul(hash ^ (hash >>> 13), PRIME_3)
  return (hash ^ (hash >>> 16)) >>> 0
}
