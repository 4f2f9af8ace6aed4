/**
 * Fetch: whole record batches from many partitions, waiting for new ones (KIP-74 limits, KIP-98 isolation, KIP-320 epochs, KIP-516 topic
 * ids from version 13). Fetch sessions (KIP-227) are declined: every answer carries session id 0, so clients send full fetches; an
 * incremental fetch of a session that cannot exist is answered as Kafka answers one that was evicted.
 */
import type { Fetched, FetchedPartition, FetchPartition } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Input } from '../../schema/compile.ts'
import type { FetchRequest, FetchResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type PartitionAnswer = Input<FetchResponse['responses'][number]['partitions'][number]>

const SESSIONS_SINCE = 7
const TOPIC_IDS_SINCE = 13
/** Epochs of a full fetch: one that opens a session, and one outside of sessions or that closes its own. */
const INITIAL_EPOCH = 0
const FINAL_EPOCH = -1
const FETCH_SESSION_ID_NOT_FOUND = 70
const READ_COMMITTED = 1
const NO_RECORDS: readonly Buffer[] = []

export const fetch = api<FetchRequest, FetchResponse>({
  key: 1,
  name: 'Fetch',
  versions: [4, 18],
  omissions: ['Fetch sessions are declined.', 'Fetches of other brokers are refused.', 'There are no preferred read replicas.'],
  async handle(call, request) {
    if (request.replicaId >= 0 || request.replicaState.replicaId >= 0) {
      throw new MoonMQError('NOT_IN_THIS_VERSION', { what: 'replication' })
    }
    if (ofLostSession(call, request)) return { throttleTimeMs: 0, errorCode: FETCH_SESSION_ID_NOT_FOUND, sessionId: 0, responses: [] }
    const names = topicNames(call, request)
    const fetched = await call.broker.fetch.fetch(call.context, {
      partitions: partitionsOf(request, names),
      isolation: request.isolationLevel === READ_COMMITTED ? 'read_committed' : 'read_uncommitted',
      // An error in the answer is no reason to wait.
      maxWaitMs: names.includes(undefined) ? 0 : Math.max(0, request.maxWaitMs),
      minBytes: request.minBytes,
      maxBytes: Math.min(request.maxBytes, call.lent.allowanceBytes),
    })
    lend(call, fetched)
    return { throttleTimeMs: 0, errorCode: 0, sessionId: 0, responses: responses(request, names, fetched.partitions) }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    errorCode: kafkaCode(error),
    sessionId: 0,
    responses: request.topics.map(({ topic, topicId, partitions }) => ({
      topic,
      topicId,
      partitions: partitions.map(({ partition }) => refused(partition, error)),
    })),
  }),
})

/** The bytes stay with the answer until its socket took them. */
function lend(call: KafkaCall, fetched: Fetched): void {
  let bytes = 0
  for (const { read } of fetched.partitions) bytes += read?.sizeBytes ?? 0
  call.lent.lend(bytes)
  call.afterSent(() => {
    call.lent.giveBack(bytes)
    fetched.release()
  })
}

/** No session was ever given out, so whoever goes on with one must begin anew. */
function ofLostSession(call: KafkaCall, request: FetchRequest): boolean {
  return call.version >= SESSIONS_SINCE && request.sessionEpoch !== INITIAL_EPOCH && request.sessionEpoch !== FINAL_EPOCH
}

/** By the order of the request; undefined where no topic has the id. */
function topicNames(call: KafkaCall, request: FetchRequest): readonly (string | undefined)[] {
  if (call.version < TOPIC_IDS_SINCE) return request.topics.map((asked) => asked.topic)
  return request.topics.map((asked) => call.broker.topics.findById(asked.topicId)?.name)
}

function partitionsOf(request: FetchRequest, names: readonly (string | undefined)[]): readonly FetchPartition[] {
  const partitions: FetchPartition[] = []
  for (const [at, asked] of request.topics.entries()) {
    const topic = names[at]
    if (topic === undefined) continue
    for (const { partition, fetchOffset, partitionMaxBytes, currentLeaderEpoch, lastFetchedEpoch } of asked.partitions) {
      partitions.push({ topic, partition, fetchOffset, maxBytes: partitionMaxBytes, currentLeaderEpoch, lastFetchedEpoch })
    }
  }
  return partitions
}

function responses(
  request: FetchRequest,
  names: readonly (string | undefined)[],
  fetched: readonly FetchedPartition[],
): Input<FetchResponse['responses']> {
  let next = 0
  return request.topics.map(({ topic, topicId, partitions }, at) => ({
    topic,
    topicId,
    partitions: partitions.map(({ partition }) => {
      const result = names[at] === undefined ? undefined : fetched[next++]
      return result === undefined ? refused(partition, new MoonMQError('TOPIC_ID_UNKNOWN', { id: topicId })) : answered(result)
    }),
  }))
}

function answered(result: FetchedPartition): PartitionAnswer {
  const { divergingEpoch } = result
  return {
    partitionIndex: result.partition,
    errorCode: kafkaCode(result.error),
    highWatermark: result.highWatermark,
    lastStableOffset: result.lastStableOffset,
    logStartOffset: result.logStartOffset,
    divergingEpoch: divergingEpoch === null ? undefined : { epoch: divergingEpoch.leaderEpoch, endOffset: divergingEpoch.endOffset },
    abortedTransactions: result.aborted,
    preferredReadReplica: -1,
    // Clients expect an empty set of records, not null, where there is none.
    records: result.read?.buffers ?? NO_RECORDS,
  }
}

function refused(partition: number, error: MoonMQError): PartitionAnswer {
  return {
    partitionIndex: partition,
    errorCode: kafkaCode(error),
    highWatermark: -1,
    lastStableOffset: -1,
    logStartOffset: -1,
    abortedTransactions: null,
    preferredReadReplica: -1,
    records: NO_RECORDS,
  }
}
