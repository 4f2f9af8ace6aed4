import { isCode, MoonMQError } from '../core/errors.ts'
import { CONFIG_FIXED, LIST_OFFSETS_TIME, MORE, OFFSETS_FOUND, OFFSETS_LOCAL, VALIDATE_ONLY } from '../wire/opcodes.ts'
import { checkList, checkName, checkNames, checkObject, checkText, checkWhole, wrong } from './arguments.ts'
import type { Link } from './link.ts'
import type {
  Admin,
  CommittedOffsets,
  GroupDescription,
  GroupOffset,
  GroupSummary,
  ListOffsetsOptions,
  NewTopicOptions,
  Redriven,
  RequestControl,
  TopicConfigChange,
  TopicDescription,
  TopicOffsets,
  TopicSettingValue,
  TopicSummary,
} from './types.ts'

const DEFAULT_PARTITIONS = -1

/** Topics. What only looks is tried again while the broker restarts; what changes something is not. */
export class LinkAdmin implements Admin {
  readonly #link: Link

  constructor(link: Link) {
    this.#link = link
  }

  async createTopic(name: string, options: NewTopicOptions = {}): Promise<void> {
    checkName('topic', name)
    checkObject('what createTopic() is given', options, 'give an object, such as { partitions: 3 }')
    const { partitions, signal } = options
    if (partitions !== undefined) checkWhole('partitions', partitions, 1)
    const config = settingsOf('config', options.config)
    try {
      await this.#create(name, partitions, config, signal)
    } catch (error) {
      if (options.ifNotExists !== true || !isCode(error, 'TOPIC_EXISTS')) throw error
    }
  }

  async #create(
    name: string,
    partitions: number | undefined,
    config: ReadonlyMap<string, string>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (!(await this.#link.connected(signal)).server.extended && config.size === 0 && partitions !== undefined) {
      await this.#link.request('CREATE_TOPIC', { name, partitions }, 'OK', { signal })
      return
    }
    await this.#link.request('CREATE', { name, partitions: partitions ?? DEFAULT_PARTITIONS, config }, 'OK', { signal })
  }

  async listTopics({ signal }: RequestControl = {}): Promise<readonly TopicSummary[]> {
    const topics: TopicSummary[] = []
    for (let more = true; more; ) {
      const request = { flags: 0, after: topics.at(-1)?.name }
      const page = await this.#link.retrying(() => this.#link.request('LIST', request, 'LISTING', { signal }), signal)
      for (const { name, partitions } of page.topics) topics.push({ name, partitions })
      more = page.more === MORE
    }
    return topics
  }

  async describeTopic(name: string, { signal }: RequestControl = {}): Promise<TopicDescription> {
    return describe(this.#link, name, signal)
  }

  async describeTopicConfig(name: string, { signal }: RequestControl = {}): Promise<readonly TopicSettingValue[]> {
    checkName('topic', name)
    const found = await this.#link.retrying(() => this.#link.request('DESCRIBE_CONFIG', { name }, 'CONFIG', { signal }), signal)
    return found.settings.map(({ source, flags, from, ...setting }) => ({
      ...setting,
      source: sourceOf(setting.name, source, from),
      from,
      fixed: (flags & CONFIG_FIXED) !== 0,
    }))
  }

  async alterTopicConfig(name: string, change: TopicConfigChange, { signal }: RequestControl = {}): Promise<readonly string[]> {
    checkName('topic', name)
    checkObject('what alterTopicConfig() is given', change, 'give an object, such as { set: { "retention.ms": "1000" }, unset: [] }')
    const { unset = [], validateOnly = false } = change
    const set = settingsOf('set', change.set)
    checkNames('unset', unset)
    const request = { name, flags: validateOnly ? VALIDATE_ONLY : 0, set, unset: [...unset] }
    return (await this.#link.request('ALTER_CONFIG', request, 'CONFIG_CHANGED', { signal })).names
  }

  async deleteTopic(name: string, { signal }: RequestControl = {}): Promise<void> {
    checkName('topic', name)
    await this.#link.request('DELETE_TOPIC', { name }, 'OK', { signal })
  }

  async listOffsets(topic: string, { timestampMs, signal }: ListOffsetsOptions = {}): Promise<readonly TopicOffsets[]> {
    checkName('topic', topic)
    if (timestampMs !== undefined && !Number.isSafeInteger(timestampMs))
      throw wrong('timestampMs', timestampMs, 'give whole milliseconds, such as Date.now()')
    const asked = timestampMs === undefined ? { topic } : { topic, mode: LIST_OFFSETS_TIME, timestamp: Math.max(0, timestampMs) }
    const found = await this.#link.retrying(() => this.#link.request('LIST_OFFSETS', asked, 'OFFSETS', { signal }), signal)
    const times = new Map(found.forTimes?.map(({ partition, offset, flags }) => [partition, flags & OFFSETS_FOUND ? Number(offset) : null]))
    return found.entries.map(({ partition, earliest, latest, highWatermark, lso, flags }) => {
      const told = (offset: number | bigint) => (flags & OFFSETS_LOCAL ? Number(offset) : -1)
      return {
        partition,
        earliest: told(earliest),
        latest: told(latest),
        highWatermark: told(highWatermark),
        lastStableOffset: told(lso),
        forTime: times.get(partition) ?? null,
      }
    })
  }

  async committedOffsets(group: string, topics: readonly string[], { signal }: RequestControl = {}): Promise<readonly CommittedOffsets[]> {
    checkText('group', group, 'give the name of the group as a text')
    checkNames('topics', topics)
    if (topics.length === 0) return []
    const request = { group, topics: [...topics] }
    return (await this.#link.retrying(() => this.#link.request('GET_POSITIONS', request, 'POSITIONS', { signal }), signal)).topics
  }

  async listGroups({ signal }: RequestControl = {}): Promise<readonly GroupSummary[]> {
    if (!(await this.#link.retrying(() => this.#link.connected(signal), signal)).server.extended) {
      return (await this.#link.retrying(() => this.#link.request('LIST_GROUPS', {}, 'GROUP_LIST', { signal }), signal)).groups
    }
    const groups: GroupSummary[] = []
    for (let more = true; more; ) {
      const request = { after: groups.at(-1)?.group }
      const page = await this.#link.retrying(() => this.#link.request('GROUPS', request, 'GROUP_NAMES', { signal }), signal)
      for (const group of page.groups) groups.push(group)
      more = page.more === MORE
    }
    return groups
  }

  async describeGroup(group: string, { signal }: RequestControl = {}): Promise<GroupDescription> {
    checkText('group', group, 'give the name of the group as a text')
    if ((await this.#link.retrying(() => this.#link.connected(signal), signal)).server.extended) {
      return await this.#link.retrying(() => this.#link.request('GROUP', { group }, 'GROUP_DETAILS', { signal }), signal)
    }
    const found = await this.#link.retrying(() => this.#link.request('DESCRIBE_GROUP', { group }, 'GROUP_DESCRIPTION', { signal }), signal)
    return { ...found, offsets: found.offsets.map(({ offset, ...place }) => ({ ...place, offset: Number(offset) })) }
  }

  async storeOffsets(group: string, offsets: readonly GroupOffset[], control: RequestControl = {}): Promise<void> {
    checkPlaces(offsets)
    for (const { offset } of offsets) checkWhole('offset', offset, 0)
    const { members } = await this.describeGroup(group, control).catch(noneIfMissing)
    if (members.length > 0) throw new MoonMQError('GROUP_NOT_EMPTY', { group })
    if (offsets.length === 0) return
    await this.#link.request('STORE_POSITIONS', { group, offsets: [...offsets] }, 'OK', { signal: control.signal })
  }

  async deleteOffsets(group: string, places: readonly Omit<GroupOffset, 'offset'>[], { signal }: RequestControl = {}): Promise<void> {
    checkText('group', group, 'give the name of the group as a text')
    checkPlaces(places)
    if (places.length === 0) return
    await this.#link.request('DELETE_POSITIONS', { group, offsets: [...places] }, 'OK', { signal })
  }

  async deleteGroup(group: string, { signal }: RequestControl = {}): Promise<void> {
    checkText('group', group, 'give the name of the group as a text')
    await this.#link.request('DELETE_GROUP', { group }, 'OK', { signal })
  }

  async redrive(topic: string, partition: number, offsets: readonly number[], { signal }: RequestControl = {}): Promise<Redriven> {
    checkName('topic', topic)
    checkWhole('partition', partition, 0)
    checkList('offsets', offsets, 'give a list of offsets')
    for (const offset of offsets) checkWhole('an offset', offset, 0)
    if (offsets.length === 0) return { redriven: 0, already: 0, missing: 0 }
    return this.#link.retrying(() => this.#link.request('REDRIVE', { topic, partition, offsets }, 'REDRIVEN', { signal }), signal)
  }

  async deleteRecords(topic: string, partition: number, offset: number | 'all', { signal }: RequestControl = {}): Promise<number> {
    checkName('topic', topic)
    checkWhole('partition', partition, 0)
    if (offset !== 'all') checkWhole('offset', offset, 0)
    const request = { topic, partition, offset: offset === 'all' ? -1 : offset }
    return (await this.#link.request('DELETE_BEFORE', request, 'DELETED_BEFORE', { signal })).offset
  }

  async createPartitions(name: string, total: number, { signal }: RequestControl = {}): Promise<void> {
    checkName('topic', name)
    checkWhole('total', total, 1)
    await this.#link.request('CREATE_PARTITIONS', { name, total }, 'OK', { signal })
  }
}

function checkPlaces(places: readonly Omit<GroupOffset, 'offset'>[]): void {
  checkList('the partitions', places, 'give a list, such as [{ topic: "orders", partition: 0, offset: 0 }]')
  for (const { topic, partition } of places) {
    checkName('topic', topic)
    checkWhole('partition', partition, 0)
  }
}

function settingsOf(argument: string, settings: Readonly<Record<string, string>> = {}): ReadonlyMap<string, string> {
  checkObject(argument, settings, 'give an object of settings, such as { "retention.ms": "1000" }')
  for (const [name, value] of Object.entries(settings))
    checkText(`${argument}["${name}"]`, value, 'give its value as a text, as Kafka does')
  return new Map(Object.entries(settings))
}

const SET_ON_TOPIC = 1
const DEFAULT_VALUE = 5

function sourceOf(name: string, source: number, from: string): TopicSettingValue['source'] {
  if (source === SET_ON_TOPIC) return from === name ? 'topic' : 'backend'
  return source === DEFAULT_VALUE ? 'default' : 'broker'
}

export async function describe(link: Link, name: string, signal?: AbortSignal): Promise<TopicDescription> {
  checkName('topic', name)
  const found = await link.retrying(() => link.request('DESCRIBE', { name }, 'DESCRIPTION', { signal }), signal)
  return {
    name: found.name,
    id: found.id,
    config: found.config,
    partitions: found.partitions.map(({ partition, earliest, highWatermark, lastStable, logEnd }) => ({
      partition,
      earliest,
      highWatermark,
      lastStableOffset: lastStable,
      logEndOffset: logEnd,
    })),
  }
}

/** A group that nobody has heard of has no members either. */
function noneIfMissing(error: unknown): Pick<GroupDescription, 'members'> {
  if (isCode(error, 'GROUP_MISSING')) return { members: [] }
  throw error
}
