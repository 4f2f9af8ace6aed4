import { elementsOf, kafkaNumber } from '../../config/kafka-setting.ts'
import { isInMemory, resolveTopicSetting, retryDelaysMs, TOPIC_SETTINGS } from '../../config/topic-settings.ts'
import { defined } from '../../core/assert.ts'
import type { Compression } from '../../record/batch-jobs.ts'
import { codecByName } from '../../record/compression.ts'
import type { LogConfig } from '../../storage/types.ts'

export type Partitioner = 'fnv1a' | 'murmur2'

/** The settings of a topic that the broker acts on, resolved once a change: topic, then broker, then default. */
export interface TopicSettings {
  readonly log: LogConfig
  /** `moonmq.storage=memory`; the same for the life of a topic. */
  readonly inMemory: boolean
  readonly minInsyncReplicas: number
  readonly partitioner: Partitioner
  /** Every record needs a key. */
  readonly isCompacted: boolean
  /** Of one record of a compressed batch, inflated. */
  readonly maxRecordBytes: number
  /** How batches are stored; null = as they came. */
  readonly compression: Compression | null
  /** `moonmq.dlq.enable`. */
  readonly keepsDeadLetters: boolean
  /** `moonmq.retry.delays`. */
  readonly retryDelaysMs: readonly number[]
  /** Compressed batches are stored without a look at their records. */
  readonly trustsCompressed: boolean
  readonly timestampBeforeMaxMs: number
  readonly timestampAfterMaxMs: number
}

const BY_NAME = new Map(TOPIC_SETTINGS.map((setting) => [setting.name, setting]))

/** `topic` and `broker` hold only what somebody set, checked when it was. */
export function resolveTopicSettings(topic: ReadonlyMap<string, string>, broker: ReadonlyMap<string, string>): TopicSettings {
  const text = (name: string) => resolveTopicSetting(defined(BY_NAME.get(name), `the topic setting ${name}`), topic, broker).value
  const number = (name: string) => kafkaNumber(text(name))
  const policies = elementsOf(text('cleanup.policy'))
  return {
    log: {
      segmentBytes: number('segment.bytes'),
      // What is in the active segment is not compacted, so a record must leave it in time.
      segmentMs: policies.includes('compact') ? Math.min(number('segment.ms'), number('max.compaction.lag.ms')) : number('segment.ms'),
      segmentJitterMs: number('segment.jitter.ms'),
      indexIntervalBytes: number('index.interval.bytes'),
      indexMaxBytes: number('segment.index.bytes'),
      flushMessages: number('flush.messages'),
      flushMs: number('flush.ms'),
      maxMessageBytes: number('max.message.bytes'),
      timestampType: text('message.timestamp.type') === 'LogAppendTime' ? 'LogAppendTime' : 'CreateTime',
      isDeleted: policies.includes('delete'),
      isCompacted: policies.includes('compact'),
      retentionMs: number('retention.ms'),
      retentionBytes: number('retention.bytes'),
      fileDeleteDelayMs: number('file.delete.delay.ms'),
      deleteRetentionMs: number('delete.retention.ms'),
      minCleanableDirtyRatio: number('min.cleanable.dirty.ratio'),
      minCompactionLagMs: number('min.compaction.lag.ms'),
      maxCompactionLagMs: number('max.compaction.lag.ms'),
      cleanerIntervalMs: Math.min(Number.MAX_SAFE_INTEGER, 1000 * number('moonmq.cleaner.interval')),
    },
    inMemory: isInMemory(topic),
    minInsyncReplicas: number('min.insync.replicas'),
    partitioner: text('moonmq.partitioner') === 'murmur2' ? 'murmur2' : 'fnv1a',
    isCompacted: policies.includes('compact'),
    maxRecordBytes: number('max.decompressed.message.bytes'),
    compression: compressionOf(text),
    keepsDeadLetters: text('moonmq.dlq.enable') === 'true',
    retryDelaysMs: retryDelaysMs(text('moonmq.retry.delays')),
    trustsCompressed: text('moonmq.record.validation') === 'header',
    timestampBeforeMaxMs: number('message.timestamp.before.max.ms'),
    timestampAfterMaxMs: number('message.timestamp.after.max.ms'),
  }
}

/** −1 of gzip is the library's own choice; lz4 has one encoder. */
function compressionOf(text: (name: string) => string): Compression | null {
  const type = text('compression.type')
  if (type === 'producer') return null
  const codec = defined(codecByName(type === 'uncompressed' ? 'none' : type), `the codec ${type}`)
  const level = type === 'gzip' || type === 'zstd' ? kafkaNumber(text(`compression.${type}.level`)) : undefined
  return { codec, level: type === 'gzip' && level === -1 ? undefined : level }
}
