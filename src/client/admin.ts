import type { Link } from './link.ts'
import type { Admin, TopicDescription, TopicSummary } from './types.ts'

const DEFAULT_PARTITIONS = -1

/** Topics. What only looks is tried again while the broker restarts; what changes something is not. */
export class LinkAdmin implements Admin {
  readonly #link: Link

  constructor(link: Link) {
    this.#link = link
  }

  async createTopic(name: string, options: { partitions?: number; config?: Readonly<Record<string, string>> } = {}): Promise<void> {
    const config = new Map(Object.entries(options.config ?? {}))
    if (!(await this.#link.connection()).server.extended && config.size === 0 && options.partitions !== undefined) {
      await this.#link.request('CREATE_TOPIC', { name, partitions: options.partitions }, 'OK')
      return
    }
    await this.#link.request('CREATE', { name, partitions: options.partitions ?? DEFAULT_PARTITIONS, config }, 'OK')
  }

  async listTopics(): Promise<readonly TopicSummary[]> {
    const listing = await this.#link.retrying(() => this.#link.request('LIST', { flags: 0 }, 'LISTING'))
    return listing.topics.map(({ name, partitions }) => ({ name, partitions }))
  }

  async describeTopic(name: string): Promise<TopicDescription> {
    return describe(this.#link, name)
  }

  async deleteTopic(name: string): Promise<void> {
    await this.#link.request('DELETE_TOPIC', { name }, 'OK')
  }

  async createPartitions(name: string, total: number): Promise<void> {
    await this.#link.request('CREATE_PARTITIONS', { name, total }, 'OK')
  }
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
