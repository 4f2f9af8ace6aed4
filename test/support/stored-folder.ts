import assert from 'node:assert/strict'
import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { METADATA_TOPIC_ID, newUuid } from '../../src/core/uuid.ts'
import { FixedHost } from '../../src/io/host.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { NodeDisk } from '../../src/io/node-disk.ts'
import { MetadataLog } from '../../src/metadata/metadata-log.ts'
import { createTopic, deleteTopic } from '../../src/metadata/plans.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch, type NewRecord } from '../../src/record/builder.ts'
import { CODEC, Codecs } from '../../src/record/compression.ts'
import { buildEndTxnMarker } from '../../src/record/control.ts'
import { encodeCoordinatorKey, encodeCoordinatorValue } from '../../src/schema/records.ts'
import { Cleaner } from '../../src/storage/compaction/cleaner.ts'
import { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import type { LogConfig } from '../../src/storage/types.ts'
import { LOG_CONFIG } from './log-config.ts'

/**
 * A data folder on disk as a broker leaves it after a clean stop, written through storage and metadata alone: every codec, several
 * segments, idempotent and transactional batches with markers of both kinds, records of each internal topic, snapshots.
 */
export async function writeStoredFolder(dataFolder: string): Promise<void> {
  const random = new SeededRandom(3)
  const clock = new SystemClock()
  const disk = new NodeDisk({ poolSize: 4 })
  const codecs = new Codecs({ loader: new NodeLoader() })
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
  const manager = await LogManager.open({ disk, clock, log: SILENT, host: new FixedHost({ pid: 7 }), codecs }, { dataFolder })
  const open = (topic: string, config: Partial<LogConfig> = {}, topicId = newUuid(random), maxEpoch: number | null = 100) =>
    manager.open({ topic, partition: 0, topicId, config: { ...LOG_CONFIG, ...config }, maxEpoch })

  await writeOrders(await open('orders', { segmentBytes: 15_000, indexIntervalBytes: 1000 }), codecs)
  await writeOrders(await open('dense', { segmentBytes: 60_000, indexIntervalBytes: 0 }), codecs)
  await writeOrders(await open('stamped', { timestampType: 'LogAppendTime', indexIntervalBytes: 500 }), codecs)
  await writeTransactions(await open('payments', { segmentBytes: 3000, indexIntervalBytes: 100 }))
  await writeCompacted(manager, await open('latest', COMPACTED), codecs)
  await open('empty')
  await writeOffsets(await open('__consumer_offsets', { segmentBytes: 5000, indexIntervalBytes: 200 }))
  await writeTransactionState(await open('__transaction_state', { indexIntervalBytes: 200 }))

  const partitionLog = await open('__cluster_metadata', { indexIntervalBytes: 300 }, METADATA_TOPIC_ID, null)
  const fatal = (error: Error) => {
    throw error
  }
  const metadata = await MetadataLog.open(
    { disk, clock, log: SILENT, partitionLog, onFatal: fatal },
    {
      directory: `${dataFolder}/__cluster_metadata-0`,
      clusterId: newUuid(random),
      nodeId: 0,
      incarnationId: newUuid(random),
      raiseLeaderEpochs: false,
    },
  )
  for (const name of ['orders', 'payments', 'gone', 'größe'.normalize('NFKD').replace(/[^a-z]/g, '')]) {
    const id = newUuid(random)
    const config = new Map([['retention.ms', '1000']])
    await metadata.change((image) => createTopic(image, { name, id, partitions: 3, replicationFactor: 1, config }))
  }
  await metadata.change((image) => deleteTopic(image, 'gone'))
  await metadata.close()
  await manager.close()
}

const COMPACTED = { segmentBytes: 15_000, indexIntervalBytes: 500, isDeleted: false, isCompacted: true, minCleanableDirtyRatio: 0.01 }

/** Most of what was written is gone, and the offsets of the rest are what they were. */
async function writeCompacted(manager: LogManager, log: PartitionLog, codecs: Codecs): Promise<void> {
  await writeOrders(log, codecs)
  await log.rollIdle()
  await log.idle()
  await manager.checkpoint()
  const cleaner = new Cleaner({ logs: manager, clock: new SystemClock(), log: SILENT, metrics: NO_METRICS }, () => ({
    isEnabled: true,
    keyBudgetBytes: 1024 * 1024,
    maxBytesPerSecond: Number.POSITIVE_INFINITY,
  }))
  await cleaner.run(new AbortController().signal)
  assert.equal(log.compaction.note.cleanedOffset, log.logEndOffset)
}

async function append(log: PartitionLog, batch: Buffer): Promise<void> {
  const appended = log.append(batch, readBatchHeader(batch), { leaderEpoch: 3 })
  await log.whenDurable(appended.lastOffset + 1)
}

function records(count: number, timestampMs: number): NewRecord[] {
  return Array.from({ length: count }, (_, index) => ({
    key: index % 3 === 0 ? null : Buffer.from(`key-${index}`),
    value: index % 7 === 6 ? null : Buffer.from(`value ${index} `.repeat(1 + (index % 20))),
    timestampMs: timestampMs + ((index * 37) % 100),
    headers: index % 4 === 0 ? [{ key: 'source', value: Buffer.from('test') }] : [],
  }))
}

/** Batches of each codec, some idempotent, with times that go back and forth. */
async function writeOrders(log: PartitionLog, codecs: Codecs): Promise<void> {
  const sequences = new Map<number, number>()
  for (let round = 0; round < 60; round++) {
    const options: { -readonly [K in keyof BatchOptions]: BatchOptions[K] } = {
      codec: round % 5,
      compress: (codec, bytes) => codecs.deflate(codec, bytes),
    }
    const count = 1 + ((round * 13) % 40)
    if (round % 3 === 1) {
      const producerId = 100 + (round % 4)
      const baseSequence = sequences.get(producerId) ?? 0
      sequences.set(producerId, baseSequence + count)
      Object.assign(options, { producerId, producerEpoch: 2, baseSequence })
    }
    await append(log, buildBatch(records(count, 1_700_000_000_000 + ((round * 7919) % 5000)), options))
  }
}

/** Transactions of three producers that overlap; every third one is aborted, one stays open. */
async function writeTransactions(log: PartitionLog): Promise<void> {
  const timestampMs = 1_700_000_000_000
  for (let round = 0; round < 30; round++) {
    const producerId = 500 + (round % 3)
    const baseSequence = Math.floor(round / 3) * 2
    await append(log, buildBatch(records(2, timestampMs + round), { producerId, producerEpoch: 1, baseSequence, transactional: true }))
    const marked = 500 + ((round + 1) % 3)
    if (round >= 2 && round < 28) {
      await append(
        log,
        buildEndTxnMarker({
          commit: round % 3 !== 0,
          producerId: marked,
          producerEpoch: 1,
          coordinatorEpoch: 4,
          timestampMs: timestampMs + round,
        }),
      )
    }
  }
}

const PLACE = 'group-coordinator'

async function writeOffsets(log: PartitionLog): Promise<void> {
  const timestampMs = 1_700_000_000_000
  const member = {
    memberId: 'm-1',
    groupInstanceId: null,
    clientId: 'client',
    clientHost: '/127.0.0.1',
    rebalanceTimeout: 60_000,
    sessionTimeout: 10_000,
    subscription: Buffer.from('00000000000100066f7264657273ffffffff', 'hex'),
    assignment: Buffer.from('00000000000100066f72646572730000000100000000ffffffff', 'hex'),
  }
  for (let round = 0; round < 40; round++) {
    const group = `group-${round % 4}`
    const offset = { offset: round, leaderEpoch: 3, metadata: 'note', commitTimestamp: timestampMs + round }
    const state = {
      protocolType: 'consumer',
      generation: round,
      protocol: 'range',
      leader: 'm-1',
      currentStateTimestamp: timestampMs,
      members: [member],
    }
    const commit = encodeCoordinatorKey(PLACE, 'OffsetCommitKey', { group, topic: 'orders', partition: round % 2 })
    const metadata = encodeCoordinatorKey(PLACE, 'GroupMetadataKey', { group })
    await append(
      log,
      buildBatch([
        { key: commit, value: encodeCoordinatorValue(PLACE, 'OffsetCommitValue', round % 5, offset), timestampMs },
        { key: metadata, value: encodeCoordinatorValue(PLACE, 'GroupMetadataValue', round % 5, state), timestampMs },
        { key: commit, value: null, timestampMs },
      ]),
    )
  }
}

async function writeTransactionState(log: PartitionLog): Promise<void> {
  const timestampMs = 1_700_000_000_000
  for (let round = 0; round < 12; round++) {
    const key = encodeCoordinatorKey('transaction-coordinator', 'TransactionLogKey', { transactionalId: `tx-${round % 3}` })
    const value = {
      producerId: 500 + round,
      producerEpoch: 1,
      transactionTimeoutMs: 60_000,
      // Kafka's states: 0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete abort.
      transactionStatus: round % 6,
      transactionPartitions: round % 6 === 0 ? null : [{ topic: 'payments', partitionIds: [0, 1] }],
      transactionLastUpdateTimestampMs: timestampMs + round,
      transactionStartTimestampMs: timestampMs,
    }
    await append(
      log,
      buildBatch([{ key, value: encodeCoordinatorValue('transaction-coordinator', 'TransactionLogValue', round % 2, value), timestampMs }]),
    )
  }
  const key = encodeCoordinatorKey('transaction-coordinator', 'TransactionLogKey', { transactionalId: 'tx-0' })
  await append(log, buildBatch([{ key, value: null, timestampMs }]))
}
