import type { LogSource, OpenPartition } from '../../src/broker/log-source.ts'
import type { TopicPartition } from '../../src/core/types.ts'
import type { Uuid } from '../../src/core/uuid.ts'
import type { BatchHeader } from '../../src/record/batch.ts'
import type { Appended, EpochEnd, Log, LogConfig, LogRead, LogState } from '../../src/storage/types.ts'

const DURABLE = Promise.resolve()
const NOTHING: LogRead = { buffers: [], sizeBytes: 0, baseOffset: 0, nextOffset: 0, release() {} }

/** Takes batches without looking at them: what is left is the broker's own cost. */
export class NullLog implements Log {
  readonly topic: string
  readonly partition: number
  readonly refusal = null
  readonly topicId: Uuid
  readonly config: LogConfig
  readonly state: LogState = 'online'
  readonly leaderEpoch = 0
  readonly logStartOffset = 0
  readonly segmentCount = 1
  logEndOffset = 0
  sizeBytes = 0

  constructor(request: OpenPartition) {
    this.topic = request.topic
    this.partition = request.partition
    this.topicId = request.topicId
    this.config = request.config
  }

  get lastStableOffset(): number {
    return this.logEndOffset
  }

  get highWatermark(): number {
    return this.logEndOffset
  }

  get durableOffset(): number {
    return this.logEndOffset
  }

  get syncedOffset(): number {
    return this.logEndOffset
  }

  get writtenOffset(): number {
    return this.logEndOffset
  }

  ready(): undefined {
    return undefined
  }

  append(_batch: Buffer, header: BatchHeader): Appended {
    const baseOffset = this.logEndOffset
    const lastOffset = baseOffset + header.lastOffsetDelta
    this.logEndOffset = lastOffset + 1
    this.sizeBytes += header.sizeBytes
    return { baseOffset, lastOffset, logAppendTimeMs: -1, logStartOffset: 0 }
  }

  whenDurable(): Promise<void> {
    return DURABLE
  }

  whenSynced(): Promise<void> {
    return DURABLE
  }

  read(): LogRead {
    return NOTHING
  }

  abortedTransactions(): readonly never[] {
    return []
  }

  producer(): undefined {
    return undefined
  }

  producers(): Iterable<never> {
    return []
  }

  async offsetForTimestamp(): Promise<null> {
    return null
  }

  async offsetOfMaxTimestamp(): Promise<null> {
    return null
  }

  endOffsetForEpoch(leaderEpoch: number): EpochEnd {
    return { leaderEpoch, endOffset: this.logEndOffset }
  }

  watch(): () => void {
    return () => {}
  }

  reconfigure(): void {}

  advanceLogStart(): void {}
}

export class NullLogs implements LogSource {
  readonly folder = '/'

  async space() {
    return { freeBytes: Number.POSITIVE_INFINITY, totalBytes: Number.POSITIVE_INFINITY }
  }

  get(): undefined {
    return undefined
  }

  async saveLogStarts(): Promise<void> {}

  async exists(): Promise<boolean> {
    return false
  }

  async open(request: OpenPartition): Promise<Log> {
    return new NullLog(request)
  }

  async delete(_partition: TopicPartition): Promise<void> {}
}
