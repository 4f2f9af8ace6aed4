import { ByteWriter } from '../../src/core/writer.ts'
import { dataCodec } from '../../src/schema/messages.ts'

const VERSION = 3

/** What a consumer of the classic protocol joins with. `owned`: its partitions of the first topic. */
export function subscriptionBytes(topics: readonly string[], owned: readonly number[] = []): Buffer {
  const writer = new ByteWriter(64)
  writer.int16(VERSION)
  const ownedPartitions = owned.length === 0 ? [] : [{ topic: topics[0] ?? '', partitions: owned }]
  dataCodec('ConsumerProtocolSubscription', VERSION).encode(writer, {
    topics,
    userData: null,
    ownedPartitions,
    generationId: 1,
    rackId: null,
  })
  return writer.toBuffer()
}
