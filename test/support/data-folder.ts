import { SystemClock } from '../../src/core/clock.ts'
import { type Logger, SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { METADATA_TOPIC_ID, newUuid } from '../../src/core/uuid.ts'
import type { Disk } from '../../src/io/disk.ts'
import { FixedHost } from '../../src/io/host.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { MetadataLog } from '../../src/metadata/metadata-log.ts'
import { createTopic } from '../../src/metadata/plans.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch } from '../../src/record/builder.ts'
import { Codecs } from '../../src/record/compression.ts'
import { buildEndTxnMarker } from '../../src/record/control.ts'
import { openIdentity } from '../../src/storage/identity.ts'
import { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { LOG_CONFIG } from './log-config.ts'

export const METADATA_FOLDER = '__cluster_metadata-0'

let nextPid = 500

/** The logs and the metadata of a data folder, without a broker on top. `boot` tells starts of the machine apart. */
export class DataFolder {
  readonly folder: string
  readonly manager: LogManager
  readonly metadata: MetadataLog
  readonly #random: SeededRandom

  private constructor(folder: string, manager: LogManager, metadata: MetadataLog, random: SeededRandom) {
    this.folder = folder
    this.manager = manager
    this.metadata = metadata
    this.#random = random
  }

  static async open(
    disk: Disk,
    folder: string,
    options: {
      boot?: string
      seed?: number
      metadataSegmentBytes?: number
      snapshotEveryBytes?: number
      log?: Logger
      onFatal?: (error: Error) => void
    } = {},
  ): Promise<DataFolder> {
    const random = new SeededRandom(options.seed ?? 1)
    const pid = nextPid++
    const clock = new SystemClock()
    const host = new FixedHost({ pid, bootId: options.boot ?? 'boot-1', processes: new Map([[pid, '1']]) })
    const log = options.log ?? SILENT
    const manager = await LogManager.open({ disk, clock, log, host }, { dataFolder: folder, checkpointIntervalMs: 3_600_000 })
    const { clusterId } = await openIdentity({ disk, random }, { folder, nodeId: 0 })
    const place = { topic: '__cluster_metadata', partition: 0, topicId: METADATA_TOPIC_ID }
    const segmentBytes = options.metadataSegmentBytes ?? LOG_CONFIG.segmentBytes
    const partitionLog = await manager.open({ ...place, config: { ...LOG_CONFIG, segmentBytes }, maxEpoch: null, onFailed() {} })
    const metadata = await MetadataLog.open(
      { disk, clock, log, partitionLog, onFatal: options.onFatal ?? (() => {}) },
      {
        directory: `${folder}/${METADATA_FOLDER}`,
        clusterId,
        nodeId: 0,
        incarnationId: newUuid(random),
        raiseLeaderEpochs: !manager.wasClean,
        ...(options.snapshotEveryBytes === undefined ? {} : { snapshotEveryBytes: options.snapshotEveryBytes }),
      },
    )
    const data = new DataFolder(folder, manager, metadata, random)
    for (const topic of metadata.image.topics.values()) {
      for (const { partition } of topic.partitions) await data.log(topic.name, partition)
    }
    return data
  }

  async create(name: string, partitions = 1): Promise<void> {
    const id = newUuid(this.#random)
    await this.metadata.change((image) => createTopic(image, { name, id, partitions, replicationFactor: 1 }))
    for (let partition = 0; partition < partitions; partition++) await this.log(name, partition)
  }

  /** Small segments, and an index entry for every batch. */
  log(topic: string, partition: number): Promise<PartitionLog> {
    const image = this.metadata.image.topics.get(topic)
    if (image === undefined) throw new Error(`no topic ${topic}`)
    const config = { ...LOG_CONFIG, segmentBytes: 700, indexIntervalBytes: 0 }
    return this.manager.open({ topic, partition, topicId: image.id, config, maxEpoch: image.partitions[partition]?.leaderEpoch ?? 0 })
  }

  /** Appends a batch of `values` and waits until it is durable. */
  async store(
    topic: string,
    partition: number,
    values: readonly string[],
    options: BatchOptions & { timestampMs?: number } = {},
  ): Promise<void> {
    const { timestampMs = 1_700_000_000_000 } = options
    await this.append(
      topic,
      partition,
      buildBatch(
        values.map((value) => ({ key: Buffer.from('k'), value: Buffer.from(value), timestampMs })),
        options,
      ),
    )
  }

  async append(topic: string, partition: number, batch: Buffer): Promise<void> {
    const log = await this.log(topic, partition)
    const leaderEpoch = this.metadata.image.topics.get(topic)?.partitions[partition]?.leaderEpoch ?? 0
    const { lastOffset } = log.append(batch, readBatchHeader(batch), { leaderEpoch })
    await log.whenDurable(lastOffset + 1)
  }

  async endTransaction(topic: string, producerId: number, commit: boolean): Promise<void> {
    await this.append(
      topic,
      0,
      buildEndTxnMarker({ commit, producerId, producerEpoch: 0, coordinatorEpoch: 1, timestampMs: 1_700_000_000_000 }),
    )
  }

  async close(): Promise<void> {
    await this.metadata.close()
    await this.manager.close()
  }
}

/**
 * A folder with something of everything: plain batches over several segments, every codec, idempotent producers, transactions that
 * overlap, committed, aborted and still open.
 */
export async function fillDataFolder(data: DataFolder): Promise<void> {
  await data.create('plain', 2)
  for (let index = 0; index < 60; index++) {
    const values = [`value ${index}`, `another ${index}`]
    await data.store('plain', index % 2, values, { timestampMs: 1_700_000_000_000 + ((index * 7) % 31) * 1000 })
  }
  await data.create('codecs')
  const codecs = new Codecs({ loader: new NodeLoader() })
  for (const codec of [1, 2, 3, 4]) {
    await codecs.ready(codec)
    await data.store('codecs', 0, ['a'.repeat(100), 'b'.repeat(100)], { codec, compress: (id, bytes) => codecs.deflate(id, bytes) })
  }
  await data.create('txn')
  const next = new Map<number, number>()
  const produce = async (producerId: number) => {
    const baseSequence = next.get(producerId) ?? 0
    next.set(producerId, baseSequence + 2)
    await data.store('txn', 0, ['x'.repeat(60), 'y'], { producerId, producerEpoch: 0, baseSequence, transactional: true })
  }
  for (let round = 0; round < 12; round++) {
    for (const producerId of [11, 12, 13]) await produce(producerId)
    await data.endTransaction('txn', 11, round % 2 === 0)
    await data.endTransaction('txn', 12, round % 3 === 0)
    if (round % 4 === 0) await data.endTransaction('txn', 13, false)
  }
}
