/** XXH3 (xxHash specification 0.2.0), 64 bits, seed 0. With BigInt: for what is hashed now and then, not for records. */

const MASK = 0xffffffffffffffffn
const LOW = 0xffffffffn
const PRIME32_1 = 0x9e3779b1n
const PRIME32_2 = 0x85ebca77n
const PRIME32_3 = 0xc2b2ae3dn
const PRIME64_1 = 0x9e3779b185ebca87n
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn
const PRIME64_3 = 0x165667b19e3779f9n
const PRIME64_4 = 0x85ebca77c2b2ae63n
const PRIME64_5 = 0x27d4eb2f165667c5n
const MIX_1 = 0x165667919e3779f9n
const MIX_2 = 0x9fb21c651e98df25n

const SECRET = Buffer.from(
  'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221' +
    'b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8' +
    'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb' +
    '170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e',
  'hex',
)
const STRIPE = 64
const LANES = 8
const STRIPES_PER_BLOCK = (SECRET.length - STRIPE) / 8
const BLOCK = STRIPE * STRIPES_PER_BLOCK

function secret(position: number): bigint {
  return SECRET.readBigUInt64LE(position)
}

function rotate(value: bigint, bits: bigint): bigint {
  return ((value << bits) | (value >> (64n - bits))) & MASK
}

/** Both halves of the product of two 64-bit numbers, folded into one. */
function fold(left: bigint, right: bigint): bigint {
  const product = left * right
  return (product & MASK) ^ (product >> 64n)
}

function avalanche(value: bigint): bigint {
  const mixed = ((value ^ (value >> 37n)) * MIX_1) & MASK
  return mixed ^ (mixed >> 32n)
}

/** The last step of XXH64. */
function avalancheOld(value: bigint): bigint {
  let hash = ((value ^ (value >> 33n)) * PRIME64_2) & MASK
  hash = ((hash ^ (hash >> 29n)) * PRIME64_3) & MASK
  return hash ^ (hash >> 32n)
}

function mix(bytes: Buffer, at: number, key: number): bigint {
  return fold(bytes.readBigUInt64LE(at) ^ secret(key), bytes.readBigUInt64LE(at + 8) ^ secret(key + 8))
}

/** The hash as an unsigned number. */
export function xxh3(bytes: Buffer): bigint {
  const { length } = bytes
  if (length <= 16) return hashUpTo16(bytes)
  if (length <= 128) return hashUpTo128(bytes)
  return length <= 240 ? hashUpTo240(bytes) : hashLong(bytes)
}

function hashUpTo16(bytes: Buffer): bigint {
  const { length } = bytes
  const size = BigInt(length)
  if (length > 8) {
    const low = bytes.readBigUInt64LE(0) ^ secret(24) ^ secret(32)
    const high = bytes.readBigUInt64LE(length - 8) ^ secret(40) ^ secret(48)
    const swapped = Buffer.alloc(8)
    swapped.writeBigUInt64LE(low)
    return avalanche((size + swapped.readBigUInt64BE() + high + fold(low, high)) & MASK)
  }
  if (length >= 4) {
    let hash = BigInt(bytes.readUInt32LE(length - 4)) + (BigInt(bytes.readUInt32LE(0)) << 32n)
    hash ^= secret(8) ^ secret(16)
    hash ^= rotate(hash, 49n) ^ rotate(hash, 24n)
    hash = (hash * MIX_2) & MASK
    hash = ((hash ^ ((hash >> 35n) + size)) * MIX_2) & MASK
    return hash ^ (hash >> 28n)
  }
  if (length === 0) return avalancheOld(secret(56) ^ secret(64))
  const [first, middle, last] = [bytes.readUInt8(0), bytes.readUInt8(length >> 1), bytes.readUInt8(length - 1)]
  const combined = ((first << 16) | (middle << 24) | last | (length << 8)) >>> 0
  return avalancheOld(BigInt(combined) ^ BigInt((SECRET.readUInt32LE(0) ^ SECRET.readUInt32LE(4)) >>> 0))
}

/** From both ends inwards. */
function hashUpTo128(bytes: Buffer): bigint {
  const { length } = bytes
  let sum = BigInt(length) * PRIME64_1
  for (let pair = Math.floor((length - 1) / 32); pair >= 0; pair--) {
    sum += mix(bytes, 16 * pair, 32 * pair) + mix(bytes, length - 16 * (pair + 1), 32 * pair + 16)
  }
  return avalanche(sum & MASK)
}

function hashUpTo240(bytes: Buffer): bigint {
  const { length } = bytes
  let sum = BigInt(length) * PRIME64_1
  for (let at = 0; at < 128; at += 16) sum += mix(bytes, at, at)
  sum = avalanche(sum & MASK)
  for (let at = 128; at + 16 <= length; at += 16) sum += mix(bytes, at, at - 128 + 3)
  sum += mix(bytes, length - 16, 136 - 17)
  return avalanche(sum & MASK)
}

function hashLong(bytes: Buffer): bigint {
  const { length } = bytes
  const lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
  const stripes = Math.floor((length - 1) / STRIPE)
  for (let stripe = 0; stripe < stripes; stripe++) {
    accumulate(lanes, bytes, stripe * STRIPE, 8 * (stripe % STRIPES_PER_BLOCK))
    if ((stripe + 1) % STRIPES_PER_BLOCK === 0 && (stripe + 1) * STRIPE <= Math.floor((length - 1) / BLOCK) * BLOCK) scramble(lanes)
  }
  accumulate(lanes, bytes, length - STRIPE, SECRET.length - STRIPE - 7)
  let sum = BigInt(length) * PRIME64_1
  for (let lane = 0; lane < LANES; lane += 2) {
    sum += fold((lanes[lane] as bigint) ^ secret(11 + 8 * lane), (lanes[lane + 1] as bigint) ^ secret(19 + 8 * lane))
  }
  return avalanche(sum & MASK)
}

function accumulate(lanes: bigint[], bytes: Buffer, at: number, key: number): void {
  for (let lane = 0; lane < LANES; lane++) {
    const value = bytes.readBigUInt64LE(at + 8 * lane)
    const keyed = value ^ secret(key + 8 * lane)
    lanes[lane ^ 1] = ((lanes[lane ^ 1] as bigint) + value) & MASK
    lanes[lane] = ((lanes[lane] as bigint) + (keyed & LOW) * (keyed >> 32n)) & MASK
  }
}

function scramble(lanes: bigint[]): void {
  for (let lane = 0; lane < LANES; lane++) {
    const value = lanes[lane] as bigint
    lanes[lane] = ((value ^ (value >> 47n) ^ secret(SECRET.length - STRIPE + 8 * lane)) * PRIME32_1) & MASK
  }
}
