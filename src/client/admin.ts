import { CONFIG_FIXED, VALIDATE_ONLY } from '../wire/opcodes.ts'
import type { Link } from './link.ts'
import type {
  Admin,
  NewTopicOptions,
  RequestControl,
  TopicConfigChange,
  TopicDescription,
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
    const { partitions, signal } = options
    const config = new Map(Object.entries(options.config ?? {}))
    if (!(await this.#link.connection()).server.extended && config.size === 0 && partitions !== undefined) {
      await this.#link.request('CREATE_TOPIC', { name, partitions }, 'OK', { signal })
      return
    }
    await this.#link.request('CREATE', { name, partitions: partitions ?? DEFAULT_PARTITIONS, config }, 'OK', { signal })
  }

  async listTopics({ signal }: RequestControl = {}): Promise<readonly TopicSummary[]> {
    const listing = await this.#link.retrying(() => this.#link.request('LIST', { flags: 0 }, 'LISTING', { signal }), signal)
    return listing.topics.map(({ name, partitions }) => ({ name, partitions }))
  }

  async describeTopic(name: string, { signal }: RequestControl = {}): Promise<TopicDescription> {
    return describe(this.#link, name, signal)
  }

  async describeTopicConfig(name: string, { signal }: RequestControl = {}): Promise<readonly TopicSettingValue[]> {
    const found = await this.#link.retrying(() => this.#link.request('DESCRIBE_CONFIG', { name }, 'CONFIG', { signal }), signal)
    return found.settings.map(({ source, flags, from, ...setting }) => ({
      ...setting,
      source: sourceOf(setting.name, source, from),
      from,
      fixed: (flags & CONFIG_FIXED) !== 0,
    }))
  }

  async alterTopicConfig(name: string, change: TopicConfigChange, { signal }: RequestControl = {}): Promise<readonly string[]> {
    const { set = {}, unset = [], validateOnly = false } = change
    const request = { name, flags: validateOnly ? VALIDATE_ONLY : 0, set: new Map(Object.entries(set)), unset: [...unset] }
    return (await this.#link.request('ALTER_CONFIG', request, 'CONFIG_CHANGED', { signal })).names
  }

  async deleteTopic(name: string, { signal }: RequestControl = {}): Promise<void> {
    await this.#link.request('DELETE_TOPIC', { name }, 'OK', { signal })
  }

  async createPartitions(name: string, total: number, { signal }: RequestControl = {}): Promise<void> {
    await this.#link.request('CREATE_PARTITIONS', { name, total }, 'OK', { signal })
  }
}

const SET_ON_TOPIC = 1
const DEFAULT_VALUE = 5

function sourceOf(name: string, source: number, from: string): TopicSettingValue['source'] {
  if (source === SET_ON_TOPIC) return from === name ? 'topic' : 'backend'
  return source === DEFAULT_VALUE ? 'default' : 'broker'
}

export async function describe(link: Link, name: string, signal?: AbortSignal): Promise<TopicDescription> {
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
