/**
 * Metadata: brokers, topics and partition leaders. Null topics = all of them, an empty list = none; in version 0 an empty list = all.
 * Topics are named, or from version 12 asked for by id. A named topic that does not exist is created where the request (version 4
 * on; always before) and the setting `auto.create.topics.enable` allow it, and is in the answer at once.
 */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { ZERO_UUID } from '../../core/uuid.ts'
import { topicNameFault } from '../../metadata/names.ts'
import type { TopicImage } from '../../metadata/types.ts'
import type { Input } from '../../schema/compile.ts'
import type { MetadataRequest, MetadataResponse } from '../../schema/types.generated.ts'
import { brokersFor, CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED, outcome, partitionAnswer, TOPIC_OPERATIONS } from '../cluster-view.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type Topic = Input<MetadataResponse['topics'][number]>
type Asked = NonNullable<MetadataRequest['topics']>[number]
/** From here on topics may be asked for by their id alone. */
const NAMELESS_SINCE = 12

export const metadata = api<MetadataRequest, MetadataResponse>({
  key: 3,
  name: 'Metadata',
  versions: [0, 13],
  omissions: ['Racks are not known.'],
  async handle(call, request) {
    const operations = request.includeTopicAuthorizedOperations ? TOPIC_OPERATIONS : OPERATIONS_NOT_ASKED
    const topics = await askedTopics(call, request)
    const answer = (each: Found) => topicAnswer(call, each, operations)
    return {
      ...clusterPart(call, request),
      topics: topics.length > MANY_TOPICS ? await inTurns(call.clock, topics, answer) : topics.map(answer),
    }
  },
  refuse: (error, request, call) => ({
    ...clusterPart(call, request),
    errorCode: kafkaCode(error),
    topics: (request.topics ?? []).map((asked) => ({ errorCode: kafkaCode(error), ...nameOf(call, asked) })),
  }),
})

function clusterPart(call: KafkaCall, request: MetadataRequest) {
  const { cluster } = call.broker
  return {
    throttleTimeMs: 0,
    brokers: brokersFor(call),
    clusterId: cluster.clusterId,
    controllerId: cluster.nodeId,
    clusterAuthorizedOperations: request.includeClusterAuthorizedOperations ? CLUSTER_OPERATIONS : OPERATIONS_NOT_ASKED,
  }
}

/** With more than these the answer is made in turns. */
const MANY_TOPICS = 64

/** A topic, or what was asked for and why it is not there. */
type Found = TopicImage | { readonly asked: Asked; readonly error: MoonMQError }

function askedTopics(call: KafkaCall, request: MetadataRequest): readonly Found[] | Promise<readonly Found[]> {
  const { topics } = call.broker
  const all = request.topics === null || (call.version === 0 && request.topics.length === 0)
  if (all) return topics.list()
  const wanted = new Map<string, Asked>()
  for (const asked of request.topics ?? []) {
    const once = asked.name ?? asked.topicId
    if (!wanted.has(once)) wanted.set(once, asked)
  }
  const find = (asked: Asked) => findOrCreate(call, asked, request.allowAutoTopicCreation)
  if (wanted.size > MANY_TOPICS) return inTurns(call.clock, [...wanted.values()], find)
  const found = [...wanted.values()].map(find)
  return found.some((topic) => topic instanceof Promise) ? Promise.all(found) : (found as Found[])
}

function findOrCreate(call: KafkaCall, asked: Asked, mayCreate: boolean): Found | Promise<Found> {
  const { topics, cluster } = call.broker
  if (asked.topicId !== ZERO_UUID) {
    if (call.version < NAMELESS_SINCE) return refused(asked, 'INVALID_REQUEST', { reason: 'topic ids are asked for from version 12' })
    return topics.findById(asked.topicId) ?? refused(asked, 'TOPIC_ID_UNKNOWN', { id: asked.topicId })
  }
  const { name } = asked
  if (name === null) return refused(asked, 'INVALID_REQUEST', { reason: 'a topic has neither name nor id' })
  const topic = topics.find(name)
  if (topic !== undefined) return topic
  if (mayCreate && cluster.settings.get('auto.create.topics.enable') !== 'false') return create(call, asked, name)
  const reason = topicNameFault(name)
  if (reason !== null) return refused(asked, 'TOPIC_NAME_INVALID', { topic: name, reason })
  return refused(asked, 'TOPIC_MISSING', { topic: name })
}

async function create(call: KafkaCall, asked: Asked, name: string): Promise<Found> {
  const created = await outcome(() => call.broker.topics.ensure(call.context, name))
  return created instanceof MoonMQError ? { asked, error: created } : created
}

function refused(asked: Asked, ...reason: ConstructorParameters<typeof MoonMQError>): Found {
  return { asked, error: new MoonMQError(...reason) }
}

/** Before version 12 an answer cannot leave the name out, whatever the request did. */
function nameOf(call: KafkaCall, { name, topicId }: Asked): { name: string | null; topicId: string } {
  return { name: call.version < NAMELESS_SINCE ? (name ?? '') : name, topicId }
}

function topicAnswer(call: KafkaCall, found: Found, operations: number): Topic {
  if ('error' in found) {
    return { errorCode: kafkaCode(found.error), ...nameOf(call, found.asked), partitions: [] }
  }
  const offline = call.broker.topics.offline(found)
  return {
    errorCode: 0,
    name: found.name,
    topicId: found.id,
    isInternal: found.internal,
    partitions: found.partitions.map((image) => partitionAnswer(image, offline.get(image.partition))),
    topicAuthorizedOperations: operations,
  }
}
