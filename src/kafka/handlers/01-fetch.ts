/**
 * Fetch: whole record batches from many partitions, waiting for new ones (KIP-74 limits, KIP-98 isolation, KIP-320 epochs, KIP-516 topic
 * ids from version 13). In a session (KIP-227) requests name what changed, and answers leave out what has nothing new.
 */
import type { Fetched, FetchedFollowed, FetchedPartition, FetchPartition } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import type { Input } from '../../schema/compile.ts'
import type { FetchRequest, FetchResponse } from '../../schema/types.generated.ts'
import { type FetchSession, SessionPartition } from '../fetch-sessions.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

/** By the order of the topics of a request; undefined where no topic has the id. */
type Names = readonly (string | undefined)[]

type PartitionAnswer = Input<FetchResponse['responses'][number]['partitions'][number]>

const SESSIONS_SINCE = 7
const TOPIC_IDS_SINCE = 13
/** Epochs of a full fetch: one that opens a session, and one outside of sessions or that closes its own. */
const INITIAL_EPOCH = 0
const FINAL_EPOCH = -1
const FETCH_SESSION_ID_NOT_FOUND = 70
const INVALID_FETCH_SESSION_EPOCH = 71
const FETCH_SESSION_TOPIC_ID_ERROR = 106
const READ_COMMITTED = 1
const NO_RECORDS: readonly Buffer[] = []

export const fetch = api<FetchRequest, FetchResponse>({
  key: 1,
  name: 'Fetch',
  versions: [4, 18],
  omissions: ['Fetches of other brokers are refused.', 'There are no preferred read replicas.'],
  handle(call, request) {
    if (request.replicaId >= 0 || request.replicaState.replicaId >= 0) return toReplica(request)
    if (call.version < SESSIONS_SINCE) return full(call, request)
    const { sessionId, sessionEpoch } = request
    if (sessionEpoch !== INITIAL_EPOCH && sessionEpoch !== FINAL_EPOCH) return incremental(call, request)
    if (sessionId !== 0) call.sessions.remove(sessionId)
    return full(call, request)
  },
  refuse: (error, request, call) => ({
    throttleTimeMs: 0,
    errorCode: kafkaCode(error),
    sessionId: 0,
    responses: call.version < TOPIC_IDS_SINCE ? refusedTopics(request, error) : [],
  }),
})

function refusedTopics({ topics }: FetchRequest, error: MoonMQError): Input<FetchResponse['responses']> {
  return topics.map(({ topic, topicId, partitions }) => ({
    topic,
    topicId,
    partitions: partitions.map(({ partition }) => refused(partition, error)),
  }))
}

/** There is no replica of any partition elsewhere, so no broker may copy from here. */
function toReplica(request: FetchRequest): Input<FetchResponse> {
  const error = new MoonMQError('NOT_LEADER', { hint: 'partitions have one replica' })
  return { throttleTimeMs: 0, errorCode: 0, sessionId: 0, responses: refusedTopics(request, error) }
}

/** Every partition that is asked for, and a session for the next requests where one is asked for. */
async function full(call: KafkaCall, request: FetchRequest): Promise<Input<FetchResponse>> {
  const names = topicNames(call, request)
  // An error in the answer is no reason to wait.
  const fetched = await read(call, request, partitionsOf(request, names), names.includes(undefined))
  const opens = call.version >= SESSIONS_SINCE && request.sessionEpoch === INITIAL_EPOCH
  const session = opens ? call.sessions.create(call.broker, request, call.version >= TOPIC_IDS_SINCE) : null
  if (session !== null) noteTold(session, request, names, fetched.partitions)
  return { throttleTimeMs: 0, errorCode: 0, sessionId: session?.id ?? 0, responses: responses(request, names, fetched.partitions) }
}

async function incremental(call: KafkaCall, request: FetchRequest): Promise<Input<FetchResponse>> {
  const session = call.sessions.find(request.sessionId)
  if (session === undefined) return failedSession(FETCH_SESSION_ID_NOT_FOUND)
  if (session.usesTopicIds !== call.version >= TOPIC_IDS_SINCE) return failedSession(FETCH_SESSION_TOPIC_ID_ERROR)
  if (session.epoch !== request.sessionEpoch) return failedSession(INVALID_FETCH_SESSION_EPOCH)
  if (!call.sessions.update(session, request)) return full(call, request)
  const epoch = session.nextEpoch()
  const wrong = session.refresh(call.broker)
  const fetched = await call.broker.fetch.fetchFollowed(call.context, session.followed, options(call, request, wrong.size > 0))
  lend(call, fetched)
  // Another request went on with the session meanwhile: the client has seen what that one was told, not this one.
  if (session.epoch !== epoch) return failedSession(INVALID_FETCH_SESSION_EPOCH)
  return { throttleTimeMs: 0, errorCode: 0, sessionId: session.id, responses: changes(session, fetched, wrong) }
}

function failedSession(errorCode: number): Input<FetchResponse> {
  return { throttleTimeMs: 0, errorCode, sessionId: 0, responses: [] }
}

async function read(call: KafkaCall, request: FetchRequest, partitions: readonly FetchPartition[], urgent: boolean): Promise<Fetched> {
  const fetched = await call.broker.fetch.fetch(call.context, { partitions, ...options(call, request, urgent) })
  lend(call, fetched)
  return fetched
}

/** `urgent`: there is something to tell already. */
function options(call: KafkaCall, request: FetchRequest, urgent: boolean) {
  return {
    isolation: request.isolationLevel === READ_COMMITTED ? 'read_committed' : 'read_uncommitted',
    maxWaitMs: urgent ? 0 : Math.max(0, request.maxWaitMs),
    minBytes: request.minBytes,
    maxBytes: Math.min(request.maxBytes, call.lent.allowanceBytes),
  } as const
}

/** The first answer of a session tells everything; only what changes after it is told again. */
function noteTold(session: FetchSession, request: FetchRequest, names: Names, fetched: readonly FetchedPartition[]): void {
  let next = 0
  for (const [at, topic] of request.topics.entries()) {
    if (names[at] === undefined) continue
    for (const { partition } of topic.partitions) {
      const found = fetched[next++]
      const kept = session.partition(topic, partition)
      if (found !== undefined) kept?.tells(found)
    }
  }
}

/** What is new in a session, by topic, those with wrong ids included. */
function changes(session: FetchSession, fetched: FetchedFollowed, wrong: ReadonlySet<SessionPartition>): Input<FetchResponse['responses']> {
  const byTopic = new Map<string, { topic: string; topicId: string; partitions: PartitionAnswer[] }>()
  const add = ({ topic, topicId }: SessionPartition, answer: PartitionAnswer) => {
    const key = session.usesTopicIds ? topicId : topic
    const told = byTopic.get(key)
    if (told === undefined) byTopic.set(key, { topic, topicId, partitions: [answer] })
    else told.partitions.push(answer)
  }
  for (const [at, asked] of fetched.asked.entries()) {
    const found = fetched.partitions[at]
    if (found === undefined || !(asked instanceof SessionPartition) || wrong.has(asked)) continue
    if (asked.tells(found)) add(asked, answered(found))
  }
  for (const partition of wrong) if (partition.wrongId !== null) add(partition, refused(partition.partition, partition.wrongId))
  return [...byTopic.values()]
}

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

function topicNames(call: KafkaCall, request: FetchRequest): Names {
  if (call.version < TOPIC_IDS_SINCE) return request.topics.map((asked) => asked.topic)
  return request.topics.map((asked) => call.broker.topics.findById(asked.topicId)?.name)
}

function partitionsOf(request: FetchRequest, names: Names): readonly FetchPartition[] {
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

function responses(request: FetchRequest, names: Names, fetched: readonly FetchedPartition[]): Input<FetchResponse['responses']> {
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
  const { divergingEpoch, error } = result
  // Of a partition with an error Kafka tells nothing else, be the offset only out of its range.
  if (error !== null) return refused(result.partition, error)
  return {
    partitionIndex: result.partition,
    errorCode: 0,
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
