import { uuidBytes } from '../../core/uuid.ts'
import { xxh3 } from '../../core/xxh3.ts'
import type { TopicImage } from '../../metadata/types.ts'

type Topics = ReadonlyMap<string, TopicImage>

/** A hash as it is stored: a signed decimal number. */
export type MetadataHash = string

export const NO_TOPICS: MetadataHash = '0'

/** Kafka's number of the way topics are hashed (KIP-1101). */
const FORM = 0

/** An image of a topic is replaced when the topic changes. */
const HASHES = new WeakMap<TopicImage, bigint>()

/**
 * What a group has seen of its topics, as Kafka puts it into the records of groups (KIP-1101): changes when a topic is made, grows or goes, and is the
 * same after a restart, also of the other broker on the same folder. Topics that do not exist are left out.
 */
export function metadataHash(names: Iterable<string>, topics: Topics): MetadataHash {
  const hashes: bigint[] = []
  for (const name of [...names].sort()) {
    const topic = topics.get(name)
    if (topic !== undefined) hashes.push(topicHash(topic))
  }
  if (hashes.length === 0) return NO_TOPICS
  const bytes = Buffer.alloc(8 * hashes.length)
  for (const [at, hash] of hashes.entries()) bytes.writeBigUInt64LE(hash, 8 * at)
  return BigInt.asIntN(64, xxh3(bytes)).toString()
}

function topicHash(topic: TopicImage): bigint {
  const known = HASHES.get(topic)
  if (known !== undefined) return known
  const hash = xxh3(topicBytes(topic))
  HASHES.set(topic, hash)
  return hash
}

/** Id, name and partitions as Kafka's hash library lays them out: little-endian, text as UTF-16 with its length behind. Brokers have no racks here. */
function topicBytes({ id, name, partitions }: TopicImage): Buffer {
  const bytes = Buffer.alloc(1 + 16 + 2 * name.length + 4 + 4 + 4 * partitions.length)
  bytes.writeUInt8(FORM)
  // The two halves of the id are numbers, each turned around.
  const halves = uuidBytes(id)
  let at = 1
  for (const half of [halves.subarray(0, 8), halves.subarray(8)]) at += half.reverse().copy(bytes, at)
  at += bytes.write(name, at, 'utf16le')
  at = bytes.writeInt32LE(name.length, at)
  at = bytes.writeInt32LE(partitions.length, at)
  for (let partition = 0; partition < partitions.length; partition++) at = bytes.writeInt32LE(partition, at)
  return bytes
}
