/**
 * WriteTxnMarkers: how an administrator ends a transaction that hangs in a partition because no coordinator knows of it any more (KIP-664).
 * The markers of ordinary transactions are written by the broker itself.
 */
import type { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { WriteTxnMarkersRequest, WriteTxnMarkersResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

type Marker = WriteTxnMarkersRequest['markers'][number]

export const writeTxnMarkers = api<WriteTxnMarkersRequest, WriteTxnMarkersResponse>({
  key: 27,
  name: 'WriteTxnMarkers',
  versions: [1, 2],
  omissions: [],
  async handle(call, request) {
    const markers = await inTurns(call.clock, request.markers, async (marker) => {
      const { producerId, producerEpoch, coordinatorEpoch, transactionResult: committed } = marker
      const partitions = marker.topics.flatMap(({ name, partitionIndexes }) =>
        partitionIndexes.map((partition) => ({ topic: name, partition })),
      )
      const forced = { producerId, producerEpoch, coordinatorEpoch, committed, partitions }
      return answer(marker, await call.broker.transactions.writeMarker(call.context, forced))
    })
    return { markers }
  },
  refuse: (error, request) => ({
    markers: request.markers.map((marker) =>
      answer(
        marker,
        marker.topics.flatMap(({ partitionIndexes }) => partitionIndexes.map(() => error)),
      ),
    ),
  }),
})

function answer(
  { producerId, topics }: Marker,
  outcomes: readonly (MoonMQError | null)[],
): Input<WriteTxnMarkersResponse['markers'][number]> {
  let at = 0
  return {
    producerId,
    topics: topics.map(({ name, partitionIndexes }) => ({
      name,
      partitions: partitionIndexes.map((partitionIndex) => ({ partitionIndex, errorCode: kafkaCode(outcomes[at++] ?? null) })),
    })),
  }
}
