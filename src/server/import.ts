import type { Broker } from '../broker/broker.ts'
import { INTERNAL_CONTEXT } from '../broker/context.ts'
import { checkTopicSetting } from '../config/topic-settings.ts'
import { NO_METRICS } from '../core/counters.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import { newUuid, type Uuid } from '../core/uuid.ts'
import { directoryOf, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { systemCode } from '../io/system-error.ts'
import { importTopic } from '../metadata/import-topic.ts'
import { type KafkaTopics, readKafkaTopics } from '../metadata/kafka-topics.ts'
import { isInternalTopic } from '../metadata/names.ts'
import type { MetadataImage } from '../metadata/types.ts'
import { readBatchHeader } from '../record/batch.ts'
import { Codecs } from '../record/compression.ts'
import { buildEndTxnMarker } from '../record/control.ts'
import { BufferPool } from '../storage/buffer-pool.ts'
import { encodePartitionMetadata, PARTITION_METADATA_FILE, partitionFolderName } from '../storage/files.ts'
import { readIdentity } from '../storage/identity.ts'
import {
  findSourcePartitions,
  type ImportDeps,
  type ImportedLog,
  importLog,
  logFolderOf,
  type SourcePartition,
} from '../storage/import-partition.ts'
import { expectNoJournal } from '../storage/journal-content.ts'
import { Data } from './data.ts'
import { type GroupOffset, readDecidedCommits, readGroupOffsets } from './import-groups.ts'
import type { Machine } from './machine.ts'
import { expectStopped, readMetadata } from './offline.ts'
import { openBroker } from './open-broker.ts'

/** Of a folder that the import makes. */
const NEW_NODE_ID = 0
/** For topics of which nobody knows how long their records were to be kept. */
const KEEPS_ALL = ['retention.ms', '-1'] as const
const METADATA = '__cluster_metadata'
const OFFSETS = '__consumer_offsets'
const TRANSACTIONS = '__transaction_state'
const STAGING_SUFFIX = '-import'
/** Logs that the receiving broker holds open at once. */
const MAX_OPEN_FILES = 512
/** Topics in memory that the receiving broker has are empty, and stay so. */
const MAX_MEMORY_BYTES = 1024 * 1024

export interface ImportRequest {
  /** Folders of Kafka: of logs, or of one partition. */
  readonly from: readonly string[]
  readonly dataFolder: string
  /** Null: every topic that is not internal. */
  readonly topics: readonly string[] | null
}

export interface RefusedTopic {
  readonly topic: string
  readonly reason: string
  /** It would have overwritten what is there. */
  readonly isConflict: boolean
}

export interface TopicToImport {
  readonly name: string
  readonly id: Uuid
  /** Dense from 0. */
  readonly partitions: readonly SourcePartition[]
  /** Leader epochs by Kafka's metadata; −1 where it says nothing. */
  readonly leaderEpochs: readonly number[]
  readonly config: ReadonlyMap<string, string>
  /** Settings that were not taken over, with the reason. */
  readonly dropped: readonly { readonly setting: string; readonly reason: string }[]
}

export interface ImportPlan {
  readonly topics: readonly TopicToImport[]
  /** Topics that are not taken over, and why: whoever asked for them must hear of it. */
  readonly refused: readonly RefusedTopic[]
  readonly notes: readonly string[]
  readonly bytesTotal: number
  readonly offsets: readonly SourcePartition[]
  readonly transactions: readonly SourcePartition[]
}

/**
 * What there is to import. Reads names and the metadata only. Throws DATA_DAMAGED when a folder is missing, or is a MoonMQ's whose journal
 * holds records, and DATA_FOLDER_LOCKED when that one runs.
 */
export async function planImport(machine: Machine, request: ImportRequest): Promise<ImportPlan> {
  const { disk, random } = machine
  const found: SourcePartition[] = []
  const notes: string[] = []
  let metadata: KafkaTopics | null = null
  for (const folder of request.from) {
    if ((await disk.stat(folder))?.kind !== 'directory')
      throw new MoonMQError('DATA_DAMAGED', { path: folder, reason: 'there is no such folder' })
    const logFolder = await logFolderOf(disk, folder)
    await expectStopped(machine, logFolder)
    await expectNoJournal(disk, logFolder)
    found.push(...(await findSourcePartitions(disk, folder)))
    if ((await disk.stat(`${folder}/${METADATA}-0`)) !== null) metadata = await readKafkaTopics(disk, `${folder}/${METADATA}-0`)
  }
  if (metadata === null) {
    const kept = `${KEEPS_ALL.join('=')} is set, so that none of their records is deleted for its age`
    notes.push(`there is no ${METADATA}-0: settings of topics are not known; ${kept}`)
  }
  const byTopic = new Map<string, SourcePartition[]>()
  for (const each of found) byTopic.set(each.topic, [...(byTopic.get(each.topic) ?? []), each])
  const names =
    request.topics ?? [...new Set([...byTopic.keys(), ...(metadata?.topics.keys() ?? [])])].filter((name) => !isInternalTopic(name)).sort()
  const topics: TopicToImport[] = []
  const refused: RefusedTopic[] = []
  for (const name of names) {
    const topic = topicToImport(name, byTopic.get(name) ?? [], metadata, () => newUuid(random))
    if (typeof topic === 'string') refused.push({ topic: name, reason: topic, isConflict: false })
    else topics.push(topic)
  }
  const bytesTotal = topics.reduce((sum, topic) => sum + topic.partitions.reduce((bytes, each) => bytes + each.sizeBytes, 0), 0)
  return { topics, refused, notes, bytesTotal, offsets: byTopic.get(OFFSETS) ?? [], transactions: byTopic.get(TRANSACTIONS) ?? [] }
}

/** A topic with all of its partitions, or why it cannot be taken over. */
function topicToImport(
  name: string,
  found: readonly SourcePartition[],
  metadata: KafkaTopics | null,
  newId: () => Uuid,
): TopicToImport | string {
  if (isInternalTopic(name)) return 'it is a topic of the broker itself; offsets of groups are taken over with the topics that they concern'
  const known = metadata?.topics.get(name)
  if (metadata !== null && known === undefined && found.length === 0) return 'there is no such topic'
  if (metadata !== null && known === undefined) return 'the metadata of Kafka does not know it: it was deleted'
  if (found.length === 0) return 'no folder of it is here; name the folders of all of its partitions'
  const ids = new Set(found.flatMap((each) => (each.topicId === null ? [] : [each.topicId])))
  if (known !== undefined) ids.add(known.id)
  if (ids.size > 1) return `its folders belong to different topics: ${[...ids].join(', ')}`
  const count = Math.max(known === undefined ? 0 : known.partitions.size, ...found.map((each) => each.partition + 1))
  const partitions: SourcePartition[] = []
  for (let partition = 0; partition < count; partition++) {
    const here = found.filter((each) => each.partition === partition)
    if (here.length === 0)
      return `partition ${partition} of ${count} is not here; name the folders of all log.dirs and brokers that have a part of it`
    if (here.length > 1) return `partition ${partition} is here twice: ${here.map((each) => each.folder).join(' and ')}; name only one`
    partitions.push(here[0] as SourcePartition)
  }
  const config = new Map<string, string>(metadata === null ? [KEEPS_ALL] : [])
  const dropped: { setting: string; reason: string }[] = []
  for (const [setting, value] of known?.config ?? []) {
    try {
      config.set(setting, checkTopicSetting(setting, value))
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      dropped.push({ setting: `${setting}=${value}`, reason: error.message })
    }
  }
  const leaderEpochs = partitions.map(({ partition }) => known?.partitions.get(partition) ?? -1)
  return { name, id: [...ids][0] ?? newId(), partitions, leaderEpochs, config, dropped }
}

export interface ImportProgress {
  readonly file: string
  readonly bytesDone: number
  readonly bytesTotal: number
}

export interface ImportedTopic {
  readonly name: string
  readonly id: Uuid
  readonly partitions: readonly (ImportedLog & { readonly partition: number })[]
}

export interface ImportReport {
  readonly topics: readonly ImportedTopic[]
  readonly refused: readonly RefusedTopic[]
  readonly groups: readonly { readonly group: string; readonly offsets: number }[]
  readonly notes: readonly string[]
}

export interface ImportOptions {
  readonly dataFolder: string
  /** Everything is read and checked, nothing is written. */
  readonly isDryRun: boolean
  readonly onProgress: (progress: ImportProgress) => void
  readonly log: Logger
}

/**
 * Takes topics over, one after another: a topic is copied and checked beside the data, then renamed into place, then entered into the
 * metadata log. A crash before that leaves folders that the next start sets aside, or that the next import makes anew; a topic that is
 * there is there whole. Offsets of groups come last. A data folder that was made for an import which brought nothing is removed again. Throws DATA_FOLDER_LOCKED while a broker runs on the data folder.
 */
export async function runImport(machine: Machine, plan: ImportPlan, options: ImportOptions): Promise<ImportReport> {
  const codecs = new Codecs({ loader: machine.loader })
  const deps: ImportDeps = { disk: machine.disk, clock: machine.clock, codecs, pool: new BufferPool({ maxKeptBytes: 16 * 1024 * 1024 }) }
  const wanted = new Set(plan.topics.map((topic) => topic.name))
  const { groups, faults } = await readGroupOffsets(deps, plan.offsets, (topic) => wanted.has(topic))
  const decided = await readDecidedCommits(deps, plan.transactions)
  const isThere = (await machine.disk.stat(options.dataFolder)) !== null
  if (isThere) await expectStopped(machine, options.dataFolder)
  let isKept = isThere || options.isDryRun
  try {
    const target = options.isDryRun ? null : await Target.open(machine, codecs, options)
    try {
      const run = new ImportRun(deps, plan, options, target, { decided, image: await imageOf(machine, target, isThere, options) })
      try {
        await run.topics()
        const imported = await run.groups(groups)
        return {
          topics: run.imported,
          refused: [...plan.refused, ...run.refused],
          groups: imported,
          notes: [...plan.notes, ...faults, ...run.notes],
        }
      } finally {
        isKept ||= run.imported.length > 0
      }
    } finally {
      await target?.close()
    }
  } catch (error) {
    // Somebody made it at the same moment and works on it.
    isKept ||= isCode(error, 'DATA_FOLDER_LOCKED')
    throw error
  } finally {
    if (!isKept) await removeMade(machine, options.dataFolder)
  }
}

/** A folder that was not there before, and has no topic. What cannot be removed stays: why the import failed is what must be told. */
async function removeMade(machine: Machine, folder: string): Promise<void> {
  const { disk } = machine
  try {
    await expectStopped(machine, folder)
    await disk.removeTree(folder)
    await disk.syncDirectory(directoryOf(folder))
  } catch (error) {
    if (!(error instanceof MoonMQError) && systemCode(error) === undefined) throw error
  }
}

async function imageOf(
  machine: Machine,
  target: Target | null,
  isThere: boolean,
  { dataFolder }: ImportOptions,
): Promise<MetadataImage | null> {
  if (target !== null) return target.data.metadata.image
  return isThere ? (await readMetadata(machine, dataFolder)).image : null
}

/** The data folder that receives, with the broker's rules on top but nobody listening. */
class Target {
  readonly data: Data
  readonly broker: Broker
  readonly nodeId: number

  private constructor(data: Data, broker: Broker, nodeId: number) {
    this.data = data
    this.broker = broker
    this.nodeId = nodeId
  }

  static async open(machine: Machine, codecs: Codecs, { dataFolder, log }: ImportOptions): Promise<Target> {
    const kafka = new Map<string, string>()
    const nodeId = (await readIdentity(machine.disk, dataFolder))?.nodeId ?? NEW_NODE_ID
    const data = await Data.open(
      {
        machine,
        log,
        metrics: NO_METRICS,
        codecs,
        onFatal: (error) => log.error('metadata.failed', 'the metadata log failed', { error: String(error) }),
      },
      {
        folder: dataFolder,
        nodeId,
        kafka,
        groupCommit: { lingerMs: 0, maxWaiters: 1 },
        maxOpenFiles: MAX_OPEN_FILES,
        memoryTopicBytes: MAX_MEMORY_BYTES,
      },
    )
    try {
      const broker = await openBroker({ machine, data, codecs, log, metrics: NO_METRICS }, { nodeId, settings: kafka })
      await broker.loadGroups()
      return new Target(data, broker, nodeId)
    } catch (error) {
      await data.close()
      throw error
    }
  }

  async close(): Promise<void> {
    await this.broker.close()
    await this.data.close()
  }
}

class ImportRun {
  readonly #deps: ImportDeps
  readonly #plan: ImportPlan
  readonly #options: ImportOptions
  readonly #target: Target | null
  readonly #known: { readonly decided: ReadonlySet<number>; readonly image: MetadataImage | null }
  readonly imported: ImportedTopic[] = []
  readonly refused: RefusedTopic[] = []
  readonly notes: string[] = []
  #bytesDone = 0

  constructor(
    deps: ImportDeps,
    plan: ImportPlan,
    options: ImportOptions,
    target: Target | null,
    known: { readonly decided: ReadonlySet<number>; readonly image: MetadataImage | null },
  ) {
    this.#deps = deps
    this.#plan = plan
    this.#options = options
    this.#target = target
    this.#known = known
  }

  async topics(): Promise<void> {
    for (const topic of this.#plan.topics) {
      const bytesBefore = this.#bytesDone
      try {
        await this.#topic(topic)
      } catch (error) {
        if (!(error instanceof MoonMQError)) throw error
        this.refused.push({ topic: topic.name, reason: error.message, isConflict: error.code === 'TOPIC_EXISTS' })
      }
      this.#bytesDone = bytesBefore + topic.partitions.reduce((sum, each) => sum + each.sizeBytes, 0)
    }
  }

  async #topic(topic: TopicToImport): Promise<void> {
    const { disk } = this.#deps
    const { dataFolder } = this.#options
    await this.#expectFree(topic)
    const logs: ImportedLog[] = []
    for (const source of topic.partitions) {
      const staging = this.#target === null ? null : `${dataFolder}/${partitionFolderName(source)}.${topic.id}${STAGING_SUFFIX}`
      if (staging !== null) await beginStaging(disk, staging, topic.id)
      logs.push(await importLog(this.#deps, source, { target: staging, onBytes: (bytes) => this.#read(source, bytes) }))
      if (staging !== null) await disk.syncDirectory(staging)
    }
    if (this.#target !== null) await this.#enter(this.#target, topic, logs)
    this.imported.push({ name: topic.name, id: topic.id, partitions: logs.map((log, partition) => ({ ...log, partition })) })
  }

  /** Nothing that is there is overwritten: not a topic, not a folder that somebody set there. */
  async #expectFree({ name, id, partitions }: TopicToImport): Promise<void> {
    const { image } = this.#known
    if (image?.topics.has(name) || image?.topicsById.has(id)) throw new MoonMQError('TOPIC_EXISTS', { topic: name })
    for (const tp of partitions) {
      const path = `${this.#options.dataFolder}/${partitionFolderName(tp)}`
      if ((await this.#deps.disk.stat(path)) === null) continue
      const reason = 'a folder of this name is there already; start the broker once, which sets aside what belongs to no topic'
      throw new MoonMQError('DATA_DAMAGED', { path, reason })
    }
  }

  /** From staged folders to a topic that is served. */
  async #enter({ data, broker, nodeId }: Target, topic: TopicToImport, logs: readonly ImportedLog[]): Promise<void> {
    const { disk } = this.#deps
    const { dataFolder } = this.#options
    for (const [partition, log] of logs.entries()) {
      await data.logs.beginAt({ topicId: topic.id, partition, offset: log.logStart })
    }
    for (const tp of topic.partitions) {
      const path = `${dataFolder}/${partitionFolderName(tp)}`
      await disk.rename(`${path}.${topic.id}${STAGING_SUFFIX}`, path)
    }
    await disk.syncDirectory(dataFolder)
    const maxProducerId = Math.max(...logs.map((log) => log.maxProducerId))
    const leaderEpochs = logs.map((log, partition) => Math.max(log.lastEpoch, topic.leaderEpochs[partition] ?? -1) + 1)
    const { name, id, config } = topic
    await data.metadata.change((image) => importTopic(image, { name, id, leaderEpochs, config, nodeId, maxProducerId }))
    await broker.settled()
    for (const [partition, log] of logs.entries()) await this.#check(data, topic, partition, log, leaderEpochs[partition] as number)
  }

  /** The log as it is served must be the one that was read; a transaction that nobody can end any more is ended. */
  async #check(data: Data, topic: TopicToImport, partition: number, log: ImportedLog, leaderEpoch: number): Promise<void> {
    const served = data.logs.get({ topic: topic.name, partition })
    const path = `${this.#options.dataFolder}/${topic.name}-${partition}`
    if (
      served === undefined ||
      served.state !== 'online' ||
      served.logEndOffset !== log.endOffset ||
      served.logStartOffset !== log.logStart
    ) {
      const has = served === undefined ? 'it is not open' : `it has the offsets ${served.logStartOffset} to ${served.logEndOffset}`
      throw new MoonMQError('DATA_DAMAGED', { path, reason: `${has}, the source ${log.logStart} to ${log.endOffset}` })
    }
    for (const { producerId, producerEpoch, firstOffset } of log.open) {
      const commit = this.#known.decided.has(producerId)
      const marker = buildEndTxnMarker({ commit, producerId, producerEpoch, coordinatorEpoch: 0, timestampMs: this.#deps.clock.nowMs() })
      const { lastOffset } = served.append(marker, readBatchHeader(marker), { leaderEpoch })
      await served.whenDurable(lastOffset + 1)
      const how = commit ? 'committed, as its coordinator had decided' : 'aborted'
      this.notes.push(
        `${topic.name}-${partition}: the transaction of producer ${producerId} from offset ${firstOffset} on had not ended; it was ${how}`,
      )
    }
  }

  #read({ topic, partition }: SourcePartition, bytes: number): void {
    this.#bytesDone += bytes
    this.#options.onProgress({ file: `${topic}-${partition}`, bytesDone: this.#bytesDone, bytesTotal: this.#plan.bytesTotal })
  }

  /** Offsets of those topics that were taken over; of a topic that was refused they would mean nothing. */
  async groups(groups: ReadonlyMap<string, readonly GroupOffset[]>): Promise<{ group: string; offsets: number }[]> {
    const names = new Set(this.imported.map((topic) => topic.name))
    const done: { group: string; offsets: number }[] = []
    for (const [group, all] of groups) {
      const offsets = all.filter((each) => names.has(each.topic))
      if (offsets.length === 0) continue
      if (this.#target !== null) await this.#commit(this.#target.broker, group, offsets)
      done.push({ group, offsets: offsets.length })
    }
    return done
  }

  async #commit(broker: Broker, group: string, offsets: readonly GroupOffset[]): Promise<void> {
    const values = offsets.map(({ topic, partition, offset, leaderEpoch, metadata }) => ({
      topic,
      partition,
      value: { offset, leaderEpoch, metadata },
    }))
    const request = { group, generation: -1, memberId: '', instanceId: null, offsets: values, durable: true }
    const results = await broker.groups.commit(INTERNAL_CONTEXT, request)
    const failed = results.find((error) => error !== null)
    if (failed !== undefined && failed !== null) this.notes.push(`offsets of group ${group} were not taken over: ${failed.message}`)
  }
}

/** An empty folder that an earlier import may have left half full. */
async function beginStaging(disk: Disk, path: string, topicId: Uuid): Promise<void> {
  await disk.removeTree(path)
  await disk.makeDirectory(path)
  await writeFileAtomically(disk, `${path}/${PARTITION_METADATA_FILE}`, [encodePartitionMetadata(topicId)])
}
