/**
 * CreateTopics (KIP-4, KIP-464 defaults, KIP-525 answer with settings). Each topic has an outcome of its own. The answer comes when the
 * topic is in the metadata log and can be written to, or with REQUEST_TIMED_OUT after the request's timeout; the creation goes on then.
 */
import type { ConfigValue } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { ZERO_UUID } from '../../core/uuid.ts'
import type { TopicImage } from '../../metadata/types.ts'
import type { Input } from '../../schema/compile.ts'
import type { CreateTopicsRequest, CreateTopicsResponse } from '../../schema/types.generated.ts'
import { checkNewPartitions, errorFields, outcome, repeats, withinTimeout } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type Asked = CreateTopicsRequest['topics'][number]
type TopicAnswer = Input<CreateTopicsResponse['topics'][number]>

const SETTINGS_SINCE = 5

export const createTopics = api<CreateTopicsRequest, CreateTopicsResponse>({
  key: 19,
  name: 'CreateTopics',
  versions: [2, 7],
  omissions: [],
  async handle(call, request) {
    const fallback = Number(call.broker.cluster.settings.get('num.partitions') ?? 1)
    checkNewPartitions(request.topics.reduce((sum, asked) => sum + partitionsOf(asked, fallback), 0))
    const repeated = repeats(request.topics.map(({ name }) => name))
    const answer = async (asked: Asked): Promise<TopicAnswer> => {
      const result = await outcome(() => {
        if (repeated.has(asked.name)) throw new MoonMQError('INVALID_REQUEST', { reason: `topic "${asked.name}" is named more than once` })
        return withinTimeout(call, request.timeoutMs, () => create(call, asked, request.validateOnly))
      })
      return result instanceof MoonMQError ? failed(asked, result) : await createdAnswer(call, result)
    }
    const asked = uniqueBy(request.topics, (each) => each.name)
    return { throttleTimeMs: 0, topics: await inTurns(call.clock, asked, answer, 1) }
  },
  refuse: (error, request) => ({ throttleTimeMs: 0, topics: request.topics.map((asked) => failed(asked, error)) }),
})

function partitionsOf({ numPartitions, assignments }: Asked, fallback: number): number {
  return assignments.length > 0 ? assignments.length : numPartitions < 0 ? fallback : numPartitions
}

function uniqueBy<T>(all: readonly T[], key: (each: T) => string): T[] {
  return [...new Map(all.map((each) => [key(each), each])).values()]
}

async function create(call: KafkaCall, asked: Asked, validateOnly: boolean): Promise<TopicImage> {
  const { name, numPartitions, replicationFactor } = asked
  const assignments = new Map<number, readonly number[]>()
  for (const { partitionIndex, brokerIds } of asked.assignments) {
    if (assignments.has(partitionIndex)) {
      throw new MoonMQError('REPLICA_ASSIGNMENT_INVALID', { reason: `partition ${partitionIndex} is assigned twice` })
    }
    assignments.set(partitionIndex, brokerIds)
  }
  const config = new Map<string, string>()
  for (const { name: key, value } of asked.configs) {
    if (value === null) throw new MoonMQError('CONFIG_INVALID', { key, value: 'null', reason: 'leave it out to have the default' })
    config.set(key, value)
  }
  return await call.broker.topics.create(
    call.context,
    { name, partitions: numPartitions, replicationFactor, assignments, config },
    { validateOnly },
  )
}

async function createdAnswer(call: KafkaCall, topic: TopicImage): Promise<TopicAnswer> {
  const settings =
    call.version < SETTINGS_SINCE ? null : await outcome(async () => call.broker.topics.describeConfig(call.context, topic.name))
  return {
    name: topic.name,
    topicId: topic.id,
    errorCode: 0,
    errorMessage: null,
    numPartitions: topic.partitions.length,
    replicationFactor: topic.partitions[0]?.replicas.length ?? 1,
    // After a mere validation there is no topic whose settings could be described.
    configs: settings === null || settings instanceof MoonMQError ? [] : settings.map(settingAnswer),
  }
}

function settingAnswer({ name, value, readOnly, source, sensitive }: ConfigValue) {
  return { name, value: sensitive ? null : value, readOnly, configSource: source, isSensitive: sensitive }
}

function failed(asked: Asked, error: MoonMQError): TopicAnswer {
  return { name: asked.name, topicId: ZERO_UUID, ...errorFields(error), numPartitions: -1, replicationFactor: -1, configs: [] }
}
