import { MoonMQError } from '../core/errors.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk } from '../io/disk.ts'
import { codecOf, isControl } from '../record/batch.ts'
import { readRecords, recordsSection } from '../record/record.ts'
import { type AnyMetadataRecord, decodeMetadataRecord } from '../schema/records.ts'
import { BufferPool } from '../storage/buffer-pool.ts'
import { parseSegmentFileName } from '../storage/files.ts'
import { scanBatches } from '../storage/scan.ts'
import { CONFIG_RESOURCE, NO_LEADER_CHANGE } from './records.ts'

/** A topic as Kafka's own metadata log knows it. */
export interface KafkaTopic {
  readonly name: string
  readonly id: Uuid
  /** Leader epoch by partition. */
  readonly partitions: ReadonlyMap<number, number>
  readonly config: ReadonlyMap<string, string>
}

export interface KafkaTopics {
  readonly topics: ReadonlyMap<string, KafkaTopic>
  /** Records that this version does not understand; those of topics and settings are among those that it does. */
  readonly unknownRecords: number
}

const SNAPSHOT_FILE = /^(\d{20})-(\d{10})\.checkpoint$/

interface TopicDraft {
  readonly name: string
  readonly id: Uuid
  readonly partitions: Map<number, number>
  readonly config: Map<string, string>
}

/**
 * Topics and their settings by the `__cluster_metadata-0` of a Kafka node: its newest snapshot and the log behind it, as far as both can
 * be read. Kafka has records that MoonMQ's own metadata does not; what says nothing of topics is passed over.
 */
export async function readKafkaTopics(disk: Disk, directory: string): Promise<KafkaTopics> {
  const fold = new KafkaFold()
  const names = (await disk.list(directory)).map((entry) => entry.name)
  const snapshots = names.filter((name) => SNAPSHOT_FILE.test(name)).sort()
  const newest = snapshots[snapshots.length - 1]
  const fromOffset = newest === undefined ? 0 : Number(SNAPSHOT_FILE.exec(newest)?.[1] ?? 0)
  if (newest !== undefined) await fold.file(disk, `${directory}/${newest}`, 0)
  for (const name of names) if (parseSegmentFileName(name)?.kind === 'log') await fold.file(disk, `${directory}/${name}`, fromOffset)
  return { topics: new Map([...fold.topics.values()].map((topic) => [topic.name, topic])), unknownRecords: fold.unknownRecords }
}

class KafkaFold {
  readonly topics = new Map<Uuid, TopicDraft>()
  readonly #pool = new BufferPool({ maxKeptBytes: 0 })
  unknownRecords = 0

  async file(disk: Disk, path: string, fromOffset: number): Promise<void> {
    const file = await disk.open(path, 'read')
    try {
      const rules = { expectedOffset: 0, holesBelow: Number.POSITIVE_INFINITY, epochFor: null, minEpoch: -1, maxEpoch: null }
      await scanBatches(file, this.#pool, { from: 0, to: file.sizeBytes, rules }, (header, _position, bytes, at) => {
        if (isControl(header) || codecOf(header) !== 0) return
        for (const { offset, value } of readRecords(recordsSection(bytes, at, header), header)) {
          if (offset >= fromOffset && value !== null) this.#record(value)
        }
      })
    } finally {
      await file.close()
    }
  }

  #record(value: Buffer): void {
    let record: AnyMetadataRecord
    try {
      record = decodeMetadataRecord(value)
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      this.unknownRecords++
      return
    }
    this.#apply(record)
  }

  #apply(record: AnyMetadataRecord): void {
    switch (record.name) {
      case 'TopicRecord': {
        const { name, topicId: id } = record.fields
        this.topics.set(id, { name, id, partitions: new Map(), config: new Map() })
        break
      }
      case 'RemoveTopicRecord':
        this.topics.delete(record.fields.topicId)
        break
      case 'PartitionRecord':
        this.topics.get(record.fields.topicId)?.partitions.set(record.fields.partitionId, record.fields.leaderEpoch)
        break
      case 'PartitionChangeRecord': {
        const partitions = this.topics.get(record.fields.topicId)?.partitions
        const epoch = partitions?.get(record.fields.partitionId)
        if (epoch !== undefined && record.fields.leader !== NO_LEADER_CHANGE) partitions?.set(record.fields.partitionId, epoch + 1)
        break
      }
      case 'ConfigRecord':
        this.#setting(record.fields)
        break
      default:
    }
  }

  #setting({
    resourceType,
    resourceName,
    name,
    value,
  }: {
    resourceType: number
    resourceName: string
    name: string
    value: string | null
  }): void {
    if (resourceType !== CONFIG_RESOURCE.topic) return
    for (const topic of this.topics.values()) {
      if (topic.name !== resourceName) continue
      if (value === null) topic.config.delete(name)
      else topic.config.set(name, value)
    }
  }
}
