import type { Broker } from '../broker/broker.ts'
import { formatAddress } from '../config/address.ts'
import type { Settings } from '../config/keys.ts'
import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import type { TopicPartition } from '../core/types.ts'
import type { HealthCheck } from '../http/app.ts'
import type { Data } from './data.ts'
import { VERSION } from './version.ts'

export interface StatusDeps {
  readonly clock: Clock
  readonly metrics: Metrics
  readonly data: Data
  readonly broker: Broker
  readonly connections: () => number
}

const TOP_TOPICS = 10
/** Partitions that a check names. */
const MAX_NAMED = 10

interface TopicSize {
  readonly name: string
  readonly partitions: number
  readonly bytes_on_disk: number
  readonly segment_count: number
}

function shown(names: readonly string[]): string {
  const more = names.length - MAX_NAMED
  return names.slice(0, MAX_NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

/** What the broker says of itself: readiness, `/stats`, and gauges that are read when somebody looks. */
export class Status {
  readonly #deps: StatusDeps
  readonly #settings: Settings
  readonly #startedAtMs: number
  #areGroupsLoaded = false
  #isStopping = false

  constructor(deps: StatusDeps, settings: Settings) {
    this.#deps = deps
    this.#settings = settings
    this.#startedAtMs = deps.clock.nowMs()
    deps.metrics.gauge('moonmq_build_info', { version: VERSION, commit: '' }).set(1)
    deps.metrics.observed('moonmq_topic_count', () => this.#userTopics().length)
    deps.metrics.observed('moonmq_partition_count', () => this.#userTopics().reduce((sum, topic) => sum + topic.partitions.length, 0))
    deps.metrics.observed('moonmq_partitions_offline', () => this.#offline().length)
  }

  groupsLoaded(): void {
    this.#areGroupsLoaded = true
  }

  stopping(): void {
    this.#isStopping = true
  }

  checks(): readonly HealthCheck[] {
    const offline = this.#offline()
    const isFull = this.#deps.data.logs.isFull
    return [
      { name: 'running', ok: !this.#isStopping, detail: this.#isStopping ? 'the broker is shutting down' : 'requests are served' },
      { name: 'groups', ok: this.#areGroupsLoaded, detail: this.#areGroupsLoaded ? 'offsets are loaded' : 'offsets are being read' },
      {
        name: 'space',
        ok: !isFull,
        detail: isFull ? 'the disk is nearly full: topics take no records until there is space' : 'the disk has space',
      },
      {
        name: 'partitions',
        ok: offline.length === 0,
        detail: offline.length === 0 ? 'every log takes records' : `offline: ${shown(offline)}`,
      },
    ]
  }

  /** What `/stats` shows; sizes are those of the files. */
  stats(): unknown {
    const topics = this.#userTopics()
    const listed = Math.min(topics.length, this.#settings.server.maxListTopics)
    const first = this.#settings.listeners[0]
    return {
      server: {
        name: 'MoonMQ',
        version: VERSION,
        protocol: first?.protocols.join(',') ?? '',
        host: first?.host ?? '',
        port: first?.port ?? 0,
        uptime_seconds: Math.floor((this.#deps.clock.nowMs() - this.#startedAtMs) / 1000),
        http: this.#settings.http.port === null ? null : formatAddress({ host: this.#settings.http.host, port: this.#settings.http.port }),
      },
      connections: {
        open: this.#deps.connections(),
        max: this.#settings.server.maxConnections,
        max_per_ip: this.#settings.server.maxConnectionsPerIp,
      },
      topics: {
        count: topics.length,
        max: this.#settings.server.maxTopics,
        listed,
        listed_truncated: listed < topics.length,
        top_by_bytes: this.#largest(),
      },
    }
  }

  #userTopics() {
    return this.#deps.broker.topics.list().filter((topic) => !topic.internal)
  }

  /** Those of internal topics too: without them nobody commits. */
  #offline(): string[] {
    const { topics } = this.#deps.broker
    const offline: string[] = []
    for (const topic of topics.list()) {
      for (const { partition, reason } of topics.offline(topic).values()) offline.push(`${topic.name}-${partition} (${reason.message})`)
    }
    return offline
  }

  #largest(): TopicSize[] {
    const sizes = this.#userTopics().map((topic): TopicSize => {
      const { logs: onDisk, memory } = this.#deps.data
      const logOf = (at: TopicPartition) => onDisk.get(at) ?? memory.logs.get(at) ?? []
      const logs = topic.partitions.flatMap(({ partition }) => logOf({ topic: topic.name, partition }))
      return {
        name: topic.name,
        partitions: topic.partitions.length,
        bytes_on_disk: logs.reduce((sum, log) => sum + log.sizeBytes, 0),
        segment_count: logs.reduce((sum, log) => sum + log.segmentCount, 0),
      }
    })
    return sizes.sort((a, b) => b.bytes_on_disk - a.bytes_on_disk || (a.name < b.name ? -1 : 1)).slice(0, TOP_TOPICS)
  }
}
