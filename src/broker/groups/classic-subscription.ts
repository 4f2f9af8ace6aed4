import { asMoonMQError } from '../../core/errors.ts'
import { ByteReader } from '../../core/reader.ts'
import { dataCodec } from '../../schema/messages.ts'

/** What a consumer of the classic protocol asks for, from the metadata that it joined with. */
export interface Subscription {
  readonly topics: readonly string[]
}

/** Null when the bytes cannot be read. */
export function subscriptionOf(metadata: Buffer): Subscription | null {
  try {
    const reader = new ByteReader(metadata)
    // Newer versions only add fields at the end, so the first version's reader finds the topics in all of them.
    reader.int16()
    return dataCodec('ConsumerProtocolSubscription', 0).decode(reader)
  } catch (error) {
    if (asMoonMQError(error).code === 'BAD_FRAME') return null
    throw error
  }
}
