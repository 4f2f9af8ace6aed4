import { MoonMQError } from '../../core/errors.ts'
import { MAX_COUNT } from '../../wire/limits.ts'
import { type Handler, ok, reply } from '../session.ts'
import { fromNative, toNative } from '../setting-names.ts'
import { checkNewTopic, checkReserved, isReserved, openTopic } from './topic-rules.ts'

/** CREATE_TOPIC: not idempotent, without settings. */
export const createTopic: Handler<'CREATE_TOPIC'> = {
  op: 'CREATE_TOPIC',
  async handle(call, { name, partitions }) {
    checkNewTopic(name, partitions)
    await call.broker.topics.create(call.context, {
      name,
      partitions,
      replicationFactor: -1,
      assignments: new Map(),
      config: new Map(),
    })
    return ok(call)
  },
}

/** LIST_TOPICS: sorted, without internal topics, cut without a sign. */
export const listTopics: Handler<'LIST_TOPICS'> = {
  op: 'LIST_TOPICS',
  handle(call) {
    const names: string[] = []
    for (const topic of call.broker.topics.list()) {
      if (topic.internal || isReserved(topic.name)) continue
      if (names.length >= call.options.maxListTopics) break
      names.push(topic.name)
    }
    return reply(call, 'TOPIC_LIST', { names })
  },
}

export const deleteTopic: Handler<'DELETE_TOPIC'> = {
  op: 'DELETE_TOPIC',
  async handle(call, { name }) {
    checkReserved(call, name)
    await call.broker.topics.delete(call.context, name)
    return ok(call)
  },
}

/** CREATE_PARTITIONS: `total` is the new count and must grow. */
export const createPartitions: Handler<'CREATE_PARTITIONS'> = {
  op: 'CREATE_PARTITIONS',
  async handle(call, { name, total }) {
    if (total > MAX_COUNT.partitions) {
      throw new MoonMQError('PARTITION_COUNT_INVALID', { topic: name, partitions: total, reason: `at most ${MAX_COUNT.partitions}` })
    }
    checkReserved(call, name)
    await call.broker.topics.createPartitions(call.context, name, total)
    return ok(call)
  },
}

/** DESCRIBE_TOPIC: what was set, keys ascending; works for internal topics too. */
export const describeTopic: Handler<'DESCRIBE_TOPIC'> = {
  op: 'DESCRIBE_TOPIC',
  handle(call, { name }) {
    const topic = call.broker.topics.get(name)
    const config = [...topic.config].map(([key, value]) => toNative(key, value)).sort((a, b) => (a[0] < b[0] ? -1 : 1))
    return reply(call, 'TOPIC_DESCRIPTION', {
      name,
      partitions: topic.partitions.length,
      config: new Map(config.slice(0, MAX_COUNT.configEntries)),
    })
  },
}

/** ALTER_TOPIC_CONFIG: all or nothing, by native or Kafka's names; the last value of a name wins. */
export const alterTopicConfig: Handler<'ALTER_TOPIC_CONFIG'> = {
  op: 'ALTER_TOPIC_CONFIG',
  async handle(call, { name, config }) {
    openTopic(call, name)
    const changes = [...config].map(([key, text]) => {
      const [setting, value] = fromNative(key, text)
      return { name: setting, operation: 'set' as const, value }
    })
    await call.broker.topics.alterConfig(call.context, { name, changes })
    return ok(call)
  },
}
