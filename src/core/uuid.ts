import type { Random } from './random.ts'

/** A 16-byte id in Kafka's spelling: URL-safe base64 without padding, 22 characters. */
export type Uuid = string

export const ZERO_UUID: Uuid = 'AAAAAAAAAAAAAAAAAAAAAA'
/** Kafka's id of `__cluster_metadata`. */
export const METADATA_TOPIC_ID: Uuid = 'AAAAAAAAAAAAAAAAAAAAAQ'

export function uuidFromBytes(bytes: Buffer, position = 0): Uuid {
  return bytes.toString('base64url', position, position + 16)
}

export function uuidBytes(id: Uuid): Buffer {
  return Buffer.from(id, 'base64url')
}

export function writeUuid(bytes: Buffer, id: Uuid, position: number): void {
  bytes.write(id, position, 16, 'base64url')
}

/** A random version-4 id. Never one whose text starts with a dash, which tools would take for an option. */
export function newUuid(random: Random): Uuid {
  for (;;) {
    const bytes = random.bytes(16)
    bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
    bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
    const id = uuidFromBytes(bytes)
    if (!id.startsWith('-')) return id
  }
}
