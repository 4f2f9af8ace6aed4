/**
 * ShareFetch (KIP-932, KIP-1206, KIP-1222): records that are given to one member of a share group under a lock, in a session of its connection,
 * with acknowledgements of earlier ones. A session ends with its connection; what its member holds is then given to others.
 */
import type { SharedPartition, ShareFetched } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Input } from '../../schema/compile.ts'
import type { ShareFetchRequest, ShareFetchResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'
import { acksOf, byTopic } from '../share-acks.ts'

type PartitionAnswer = Input<ShareFetchResponse['responses'][number]['partitions'][number]>

/** Kafka's acquire modes: whole batches where that is cheaper, or never more records than were asked for. */
const RECORD_LIMIT = 1

export const shareFetch = api<ShareFetchRequest, ShareFetchResponse>({
  key: 78,
  name: 'ShareFetch',
  versions: [1, 2],
  omissions: [],
  async handle(call, request) {
    const { groupId: group, memberId, isRenewAck: isRenewal, shareAcquireMode } = request
    if (shareAcquireMode < 0 || shareAcquireMode > RECORD_LIMIT) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `acquire mode ${shareAcquireMode} is not known` })
    }
    if (isRenewal && (request.maxWaitMs > 0 || request.minBytes > 0 || request.maxRecords > 0 || request.maxBytes > 0)) {
      throw new MoonMQError('INVALID_REQUEST', { reason: 'a request that renews locks asks for no records' })
    }
    const fetched = await call.broker.share.fetch(call.context, {
      group: named(group, 'group'),
      memberId: named(memberId, 'member'),
      sessionEpoch: request.shareSessionEpoch,
      isRenewal,
      partitions: acksOf(request.topics, call.version),
      forgotten: request.forgottenTopicsData.flatMap(({ topicId, partitions }) => partitions.map((partition) => ({ topicId, partition }))),
      maxWaitMs: Math.max(0, request.maxWaitMs),
      minBytes: request.minBytes,
      maxBytes: Math.min(request.maxBytes, call.lent.allowanceBytes),
      maxRecords: request.maxRecords,
      batchSize: request.batchSize > 0 ? request.batchSize : Math.max(1, request.maxRecords),
      isStrict: shareAcquireMode === RECORD_LIMIT,
    })
    lend(call, fetched)
    return {
      throttleTimeMs: 0,
      ...errorFields(null),
      acquisitionLockTimeoutMs: fetched.lockMs,
      responses: byTopic(fetched.partitions, answerOf),
      nodeEndpoints: [],
    }
  },
  refuse: (error) => ({ throttleTimeMs: 0, ...errorFields(error), acquisitionLockTimeoutMs: 0, responses: [], nodeEndpoints: [] }),
})

/** Throws INVALID_REQUEST for null: only brokers among themselves leave it out. */
function named(id: string | null, what: string): string {
  if (id === null || id === '') throw new MoonMQError('INVALID_REQUEST', { reason: `the ${what} of a share session is missing` })
  return id
}

/** The bytes stay with the answer until its socket took them. */
function lend(call: KafkaCall, fetched: ShareFetched): void {
  let bytes = 0
  for (const { sizeBytes } of fetched.partitions) bytes += sizeBytes
  call.lent.lend(bytes)
  call.afterSent(() => {
    call.lent.giveBack(bytes)
    fetched.release()
  })
}

function answerOf({ partition, error, ackError, acquired, records }: SharedPartition): PartitionAnswer {
  return {
    partitionIndex: partition,
    ...errorFields(error),
    acknowledgeErrorCode: kafkaCode(ackError),
    acknowledgeErrorMessage: ackError === null ? null : ackError.message,
    records,
    acquiredRecords: acquired.map(({ first, last, deliveries }) => ({ firstOffset: first, lastOffset: last, deliveryCount: deliveries })),
  }
}
