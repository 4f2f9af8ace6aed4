import type { PartitionOffsets } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { MAX_FETCH_BYTES } from '../../wire/limits.ts'
import { CONFIG_FIXED, MORE, VALIDATE_ONLY } from '../../wire/opcodes.ts'
import { type Call, type Handler, ok, reply } from '../session.ts'
import { fromNative, fromNativeName } from '../setting-names.ts'
import { storePositions } from './commit.ts'
import { checkNewTopic, isStorageFault, openTopic } from './topic-rules.ts'

const INCLUDE_INTERNAL = 0x01

/** LIST (extension): topics with ids and partition counts, by name. A long list comes in pages. */
export const list: Handler<'LIST'> = {
  op: 'LIST',
  handle(call, { flags, after = '' }) {
    const topics = call.broker.topics
      .list()
      .filter((topic) => topic.name > after && (!topic.internal || (flags & INCLUDE_INTERNAL) !== 0))
      .map(({ name, id, partitions }) => ({ name, id, partitions: partitions.length }))
    const { items, more } = page(topics, ({ name }) => TOPIC_ROW_BYTES + name.length)
    return reply(call, 'LISTING', { topics: items, more })
  },
}

/** Bytes of a row beside its texts. */
const TOPIC_ROW_BYTES = 24
/** Of the rows of one answer: as a FETCH is split, well below the longest frame. */
const PAGE_BYTES = MAX_FETCH_BYTES

/** The first rows that fit one answer. `more` is absent where that is all of them, as it is for clients that know no pages. */
export function page<T>(rows: readonly T[], bytesOf: (row: T) => number): { items: readonly T[]; more: number | undefined } {
  let bytes = 0
  let count = 0
  while (count < rows.length && bytes <= PAGE_BYTES) bytes += bytesOf(rows[count++] as T)
  return count === rows.length ? { items: rows, more: undefined } : { items: rows.slice(0, count), more: MORE }
}

/** DESCRIBE (extension): a topic with the bounds of its partitions (−1: offline) and what was set, by Kafka's names. */
export const describe: Handler<'DESCRIBE'> = {
  op: 'DESCRIBE',
  handle(call, { name }) {
    const topic = openTopic(call, name)
    const partitions = topic.partitions.map(({ partition }) => {
      const { earliest, highWatermark, lastStableOffset, logEndOffset } = boundsOrOffline(call, name, partition)
      return { partition, earliest, highWatermark, lastStable: lastStableOffset, logEnd: logEndOffset }
    })
    const config = new Map([...topic.config].sort((a, b) => (a[0] < b[0] ? -1 : 1)))
    return reply(call, 'DESCRIPTION', { name, id: topic.id, partitions, config })
  },
}

type Bounds = Omit<PartitionOffsets, 'partition' | 'leaderEpoch'>
const OFFLINE: Bounds = { earliest: -1, highWatermark: -1, lastStableOffset: -1, logEndOffset: -1 }

/** A partition whose files are damaged must not hide the others. */
function boundsOrOffline(call: Call, topic: string, partition: number): Bounds {
  try {
    return call.broker.offsets.bounds(call.context, topic, partition)
  } catch (error) {
    if (isStorageFault(error)) return OFFLINE
    throw error
  }
}

/** CREATE (extension): a topic with settings; −1 partitions = the broker's default. */
export const create: Handler<'CREATE'> = {
  op: 'CREATE',
  async handle(call, { name, partitions, config }) {
    checkNewTopic(name, partitions === -1 ? 1 : partitions)
    const settings = new Map([...config].map(([key, value]) => fromNative(key, value)))
    await call.broker.topics.create(call.context, { name, partitions, replicationFactor: -1, assignments: new Map(), config: settings })
    return ok(call)
  },
}

/** DESCRIBE_CONFIG (extension): every setting in force, by Kafka's names, sorted. */
export const describeConfig: Handler<'DESCRIBE_CONFIG'> = {
  op: 'DESCRIBE_CONFIG',
  handle(call, { name }) {
    const settings = call.broker.topics.describeConfig(call.context, name).map((setting) => ({
      name: setting.name,
      value: setting.value ?? '',
      default: setting.synonyms.at(-1)?.value ?? '',
      source: setting.source,
      from: setting.synonyms[0]?.name ?? setting.name,
      flags: setting.readOnly ? CONFIG_FIXED : 0,
      documentation: setting.documentation,
    }))
    return reply(call, 'CONFIG', { settings })
  },
}

/** ALTER_CONFIG (extension): sets and unsets settings of a topic, all or none, or only says whether it could. */
export const alterConfig: Handler<'ALTER_CONFIG'> = {
  op: 'ALTER_CONFIG',
  async handle(call, { name, flags, set, unset }) {
    openTopic(call, name)
    const changes = [
      ...[...set].map(([key, text]) => {
        const [setting, value] = fromNative(key, text)
        return { name: setting, operation: 'set' as const, value }
      }),
      ...unset.map((key) => ({ name: fromNativeName(key), operation: 'delete' as const, value: '' })),
    ]
    const names = await call.broker.topics.alterConfig(call.context, { name, changes, validateOnly: (flags & VALIDATE_ONLY) !== 0 })
    return reply(call, 'CONFIG_CHANGED', { names })
  },
}

/** GET_POSITIONS (extension): a group's committed offsets, by partition; −1 = none. */
export const getPositions: Handler<'GET_POSITIONS'> = {
  op: 'GET_POSITIONS',
  async handle(call, { group, topics }) {
    const wanted = topics.map((topic) => ({ topic, partitions: openTopic(call, topic).partitions.map(({ partition }) => partition) }))
    const committed = await call.broker.groups.committed(call.context, { group, topics: wanted })
    const known = new Map(committed.map(({ topic, partition, value }) => [`${topic}-${partition}`, Math.max(-1, value?.offset ?? -1)]))
    return reply(call, 'POSITIONS', {
      topics: wanted.map(({ topic, partitions }) => ({
        topic,
        offsets: partitions.map((partition) => known.get(`${topic}-${partition}`) ?? -1),
      })),
    })
  },
}

/** STORE_POSITIONS (extension): commits for a group without a FETCH before; answered when it is synced. */
export const storeGroupPositions: Handler<'STORE_POSITIONS'> = {
  op: 'STORE_POSITIONS',
  async handle(call, { group, offsets }) {
    if (group === '') throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is empty' })
    for (const topic of new Set(offsets.map((each) => each.topic))) openTopic(call, topic)
    await storePositions(call, group, offsets)
    return ok(call)
  },
}
