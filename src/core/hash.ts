/** FNV-1a, 32 bits: the native protocol's key hash (docs/PROTOCOL.md). */
export function fnv1a(bytes: Uint8Array): number {
  let hash = 2166136261
  for (let i = 0; i < bytes.length; i++) {
    hash ^= bytes[i] as number
    hash = Math.imul(hash, 16777619)
  }
  return hash >>> 0
}

/** Murmur2 with Kafka's seed, as a signed 32-bit number: the key hash of Kafka's Java client. */
export function murmur2(bytes: Uint8Array): number {
  const m = 0x5bd1e995
  const length = bytes.length
  let h = 0x9747b28c ^ length
  let i = 0
  for (; i + 4 <= length; i += 4) {
    let k = (bytes[i] as number) | ((bytes[i + 1] as number) << 8) | ((bytes[i + 2] as number) << 16) | ((bytes[i + 3] as number) << 24)
    k = Math.imul(k, m)
    k ^= k >>> 24
    k = Math.imul(k, m)
    h = Math.imul(h, m) ^ k
  }
  const rest = length - i
  if (rest === 3) h ^= (bytes[i + 2] as number) << 16
  if (rest >= 2) h ^= (bytes[i + 1] as number) << 8
  if (rest >= 1) {
    h ^= bytes[i] as number
    h = Math.imul(h, m)
  }
  h ^= h >>> 13
  h = Math.imul(h, m)
  h ^= h >>> 15
  return h | 0
}

/** Java's `String.hashCode`: which partition of an internal topic owns a group (DESIGN D4). */
export function javaStringHash(text: string): number {
  let hash = 0
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0
  return hash
}

/** The partition of an internal topic that owns `id`: the absolute value as Kafka takes it, modulo the count. */
export function coordinatorPartition(id: string, partitions: number): number {
  const hash = javaStringHash(id)
  return (hash === -2147483648 ? 0 : Math.abs(hash)) % partitions
}
