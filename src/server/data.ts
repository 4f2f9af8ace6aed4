import { BrokerSettings } from '../broker/settings.ts'
import { resolveTopicSettings } from '../broker/topics/topic-settings.ts'
import type { Metrics } from '../core/counters.ts'
import type { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { Resource, TopicPartition } from '../core/types.ts'
import { METADATA_TOPIC_ID, newUuid } from '../core/uuid.ts'
import { MetadataLog } from '../metadata/metadata-log.ts'
import { bumpLeaderEpoch } from '../metadata/plans.ts'
import type { Codecs } from '../record/compression.ts'
import { Inflater } from '../record/inflater.ts'
import { openIdentity } from '../storage/identity.ts'
import { LogManager } from '../storage/log-manager.ts'
import { Retention } from '../storage/retention-pass.ts'
import type { LogConfig } from '../storage/types.ts'
import type { Machine } from './machine.ts'
import { MemoryLogs, producerRules } from './memory-logs.ts'

/** About what is written between two snapshots. */
const METADATA_SEGMENT_BYTES = 16 * 1024 * 1024

const METADATA_PARTITION: TopicPartition = { topic: '__cluster_metadata', partition: 0 }

export interface DataOptions {
  readonly folder: string
  readonly nodeId: number
  /** Kafka's broker settings that the configuration sets. */
  readonly kafka: ReadonlyMap<string, string>
  readonly groupCommit: { readonly lingerMs: number; readonly maxWaiters: number }
  readonly maxOpenFiles: number
  /** Size of each of the two areas of the journal, where there is room. */
  readonly journalAreaBytes?: number
  /** Of all memory topics together. */
  readonly memoryTopicBytes: number
}

export interface DataDeps {
  readonly machine: Machine
  readonly log: Logger
  readonly metrics: Metrics
  readonly codecs: Codecs
  /** The metadata log failed: the broker must stop. */
  readonly onFatal: (error: MoonMQError) => void
}

/**
 * The data folder of a running broker: its logs and the metadata log among them. Order of a start: lock and marker, identity, metadata
 * log, leader epochs raised after an unclean stop; only then may any log be appended to. Order of a stop: the reverse.
 */
export class Data implements Resource {
  /** Kafka's settings in force. */
  readonly settings: BrokerSettings
  readonly logs: LogManager
  readonly metadata: MetadataLog
  readonly retention: Retention
  /** Logs of memory topics, and their retention. */
  readonly memory: MemoryLogs

  private constructor(parts: Pick<Data, 'settings' | 'logs' | 'metadata' | 'retention' | 'memory'>) {
    this.settings = parts.settings
    this.logs = parts.logs
    this.metadata = parts.metadata
    this.retention = parts.retention
    this.memory = parts.memory
  }

  static async open(deps: DataDeps, options: DataOptions): Promise<Data> {
    const { machine, log, metrics, codecs } = deps
    const { disk, clock, host, random, failpoint } = machine
    const { folder, nodeId } = options
    const settings = new BrokerSettings(options.kafka)
    const logs = await LogManager.open(
      { disk, clock, log, host, metrics, codecs, inflater: new Inflater({ codecs, offload: machine.offload }), failpoint },
      {
        dataFolder: folder,
        groupCommit: options.groupCommit,
        maxOpenFiles: options.maxOpenFiles,
        ...(options.journalAreaBytes === undefined ? {} : { journalAreaBytes: options.journalAreaBytes }),
        watchesSpace: true,
        producers: producerRules(settings),
      },
    )
    try {
      const { clusterId } = await openIdentity({ disk, random }, { folder, nodeId, isUsed: await logs.exists(METADATA_PARTITION) })
      const partitionLog = await logs.open({
        ...METADATA_PARTITION,
        topicId: METADATA_TOPIC_ID,
        config: metadataLogConfig(options.kafka),
        maxEpoch: null,
        usesReserve: true,
        onFailed: (error) => log.error('metadata.log_failed', 'the metadata log failed', { error: String(error) }),
      })
      const metadata = await MetadataLog.open(
        { disk, clock, log, partitionLog, failpoint, expectRoom: () => logs.expectRoom(METADATA_PARTITION), onFatal: deps.onFatal },
        {
          directory: `${folder}/${METADATA_PARTITION.topic}-${METADATA_PARTITION.partition}`,
          clusterId,
          nodeId,
          incarnationId: newUuid(random),
          raiseLeaderEpochs: !logs.wasClean,
        },
      )
      settings.follow(() => metadata.image, nodeId)
      logs.isDeletedTopic = (id) => metadata.removedTopics.has(id)
      logs.nextLeaderEpoch = (partition) => metadata.change((image) => bumpLeaderEpoch(image, partition))
      const retention = await openRetention(deps, folder, settings, logs)
      const memory = await MemoryLogs.open(deps, { maxBytes: options.memoryTopicBytes, settings })
      memory.logs.nextLeaderEpoch = (partition) => metadata.change((image) => bumpLeaderEpoch(image, partition))
      return new Data({ settings, logs, metadata, retention, memory })
    } catch (error) {
      await logs.close()
      throw error
    }
  }

  /** Removes what a crash left of deleted topics and sets folders aside that nobody knows. After the logs of the image were opened. */
  async settleFolders(): Promise<void> {
    const { image, removedTopics } = this.metadata
    await this.logs.settleFolders((partition, topicId) => {
      if (image.topics.get(partition.topic)?.partitions[partition.partition] !== undefined) return 'known'
      return topicId !== null && removedTopics.has(topicId) ? 'deleted' : 'unknown'
    })
  }

  /** Writes the metadata's snapshot, then closes every log and leaves the marker of a clean stop. */
  async close(): Promise<void> {
    try {
      await this.metadata.close()
      await this.retention.close()
      await this.memory.close()
    } finally {
      await this.logs.close()
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

function openRetention(
  { machine, log, metrics }: DataDeps,
  folder: string,
  settings: BrokerSettings,
  logs: LogManager,
): Promise<Retention> {
  const { disk, clock, failpoint } = machine
  const intervalMs = settings.number('log.retention.check.interval.ms')
  return Retention.open({ disk, clock, log, metrics, failpoint, logs }, { dataFolder: folder, intervalMs: () => intervalMs })
}

/** The metadata log syncs each change, whatever the settings say. What its snapshots hold goes in whole segments, so they are small. */
function metadataLogConfig(kafka: ReadonlyMap<string, string>): LogConfig {
  const { log } = resolveTopicSettings(new Map(), kafka)
  const own = {
    segmentBytes: METADATA_SEGMENT_BYTES,
    flushMessages: 1,
    maxMessageBytes: 8 * 1024 * 1024,
    timestampType: 'CreateTime',
  } as const
  return { ...log, ...own, isDeleted: false, isCompacted: false }
}
