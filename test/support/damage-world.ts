import { SeededRandom } from '../../src/core/random.ts'
import type { TopicPartition } from '../../src/core/types.ts'
import type { MemoryDisk } from '../../src/io/memory-disk.ts'
import { AT, readBatchHeader } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch } from '../../src/record/builder.ts'
import { buildEndTxnMarker } from '../../src/record/control.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { compact, roll } from './compaction.ts'
import { type DiskBroker, diskBroker } from './disk-broker.ts'
import { createTopic } from './fake-broker.ts'
import { DATA_FOLDER, recordingLogger } from './storage.ts'

/** How the broker ended before a file was found damaged. */
export type Ending = 'stop' | 'kill' | 'power'

/** Topics of the world: transactions and a numbered producer; compacted; many partitions that share the journal. */
export const PARTITIONS: readonly TopicPartition[] = [
  { topic: 'txn', partition: 0 },
  { topic: 'keys', partition: 0 },
  ...Array.from({ length: 8 }, (_, partition) => ({ topic: 'many', partition })),
]

const SMALL = { 'segment.bytes': '1000', 'index.interval.bytes': '0', 'retention.ms': '-1' }
const NUMBERED = 11
const TRANSACTIONAL = 12

/** What a partition promised: batches by offset without what the broker writes into them, aborted transactions, the numbered producer's last batch. */
export interface Promised {
  readonly batches: ReadonlyMap<number, Buffer>
  readonly endOffset: number
  readonly aborted: string
}

export interface World {
  readonly disk: MemoryDisk
  readonly promised: ReadonlyMap<string, Promised>
  /** Every file as it was at some moment before the last writes, by path. */
  readonly older: ReadonlyMap<string, Buffer>
}

export const nameOf = ({ topic, partition }: TopicPartition): string => `${topic}-${partition}`

/**
 * A broker that did something of everything, with a stop in between, and ended in one of three ways. Everything that it wrote was
 * acknowledged. `beforeLast` may plant faults that hit the last writes.
 */
export async function makeWorld(
  disk: MemoryDisk,
  ending: Ending,
  { beforeLast = () => {} }: { beforeLast?: (disk: MemoryDisk) => void } = {},
): Promise<World> {
  const log = recordingLogger([])
  const older = new Map<string, Buffer>()
  const keep = async () => {
    for (const path of await pathsIn(disk, DATA_FOLDER)) older.set(path, disk.peek(path) ?? Buffer.alloc(0))
  }
  const first = await diskBroker(disk, {}, undefined, { log, boot: 'boot-1' })
  await createTopic(first.broker, 'txn', 1, SMALL)
  await createTopic(first.broker, 'keys', 1, { ...SMALL, 'cleanup.policy': 'compact', 'min.cleanable.dirty.ratio': '0' })
  await createTopic(first.broker, 'many', 8, SMALL)
  const writer = new Writer()
  await writer.work(first, 8)
  await first.data.retention.pass(new AbortController().signal)
  await keep()
  await first.close()
  await keep()
  const second = await diskBroker(disk, {}, undefined, { log, boot: 'boot-1' })
  await writer.work(second, 8)
  await second.data.retention.pass(new AbortController().signal)
  await second.data.logs.checkpoint()
  beforeLast(disk)
  await writer.work(second, 4)
  const promised = new Map<string, Promised>()
  for (const each of PARTITIONS) {
    const log = second.data.logs.get(each)
    if (log !== undefined) promised.set(nameOf(each), await promisedBy(log))
  }
  if (ending === 'stop') await second.close()
  const left = ending === 'power' ? disk.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' }) : disk.processKilled()
  return { disk: left, promised, older }
}

class Writer {
  #sequence = 0
  #transactional = 0
  #round = 0

  async work({ data }: DiskBroker, rounds: number): Promise<void> {
    const append = async (partition: TopicPartition, batch: Buffer) => {
      const log = data.logs.get(partition)
      if (log === undefined) throw new Error(`${nameOf(partition)} is offline`)
      const leaderEpoch = data.metadata.image.topics.get(partition.topic)?.partitions[partition.partition]?.leaderEpoch ?? 0
      const { lastOffset } = log.append(batch, readBatchHeader(batch), { leaderEpoch })
      await log.whenDurable(lastOffset + 1)
    }
    const txn = { topic: 'txn', partition: 0 }
    for (let round = 0; round < rounds; round++) {
      const number = this.#round++
      await append(txn, batchOf(`numbered ${number}`, { producerId: NUMBERED, producerEpoch: 0, baseSequence: this.#sequence++ }))
      const sequence = { producerId: TRANSACTIONAL, producerEpoch: 0, baseSequence: this.#transactional++, transactional: true }
      await append(txn, batchOf(`transaction ${number}`, sequence))
      if (number % 2 === 1) {
        const marker = { commit: number % 4 === 1, producerId: TRANSACTIONAL, producerEpoch: 0, coordinatorEpoch: 1 }
        await append(txn, buildEndTxnMarker({ ...marker, timestampMs: Date.UTC(2026, 0) + number }))
      }
      await append({ topic: 'keys', partition: 0 }, batchOf(`value ${number}`, {}, `key ${number % 3}`))
      await Promise.all(PARTITIONS.slice(2).map((each) => append(each, batchOf(`many ${number} ${each.partition}`))))
    }
    const keys = data.logs.get({ topic: 'keys', partition: 0 })
    if (keys === undefined || this.#round > 16) return
    await roll(keys)
    await compact(data.logs)
  }
}

function batchOf(value: string, options: BatchOptions = {}, key: string | null = null): Buffer {
  const record = { key: key === null ? null : Buffer.from(key), value: Buffer.from(value.padEnd(60, '.')), timestampMs: Date.UTC(2026, 0) }
  return buildBatch([record], options)
}

async function promisedBy(log: PartitionLog): Promise<Promised> {
  const { batches, refused } = await readBatches(log)
  if (refused !== null) throw refused
  return { batches, endOffset: log.highWatermark, aborted: abortedIn(log) }
}

export function abortedIn(log: PartitionLog): string {
  return JSON.stringify(log.abortedTransactions(log.logStartOffset, log.highWatermark))
}

/** Everything that can be read, each batch from the byte behind its checksum on, and the last error that a read met. */
export async function readBatches(log: PartitionLog): Promise<{ batches: Map<number, Buffer>; refused: Error | null }> {
  const batches = new Map<number, Buffer>()
  let refused: Error | null = null
  for (let next = log.logStartOffset; next < log.highWatermark; ) {
    let read: Awaited<ReturnType<PartitionLog['read']>>
    try {
      read = await log.read({ offset: next, maxBytes: 1, minOneBatch: true, limitOffset: log.highWatermark })
    } catch (error) {
      refused = error as Error
      next++
      continue
    }
    if (read.sizeBytes === 0) throw new Error(`nothing was read at offset ${next}, below the high watermark ${log.highWatermark}`)
    for (const bytes of read.buffers) {
      for (let at = 0; at < bytes.length; ) {
        const header = readBatchHeader(bytes, at, bytes.length)
        batches.set(header.baseOffset, Buffer.from(bytes.subarray(at + AT.attributes, at + header.sizeBytes)))
        at += header.sizeBytes
      }
    }
    next = read.nextOffset
    read.release()
  }
  return { batches, refused }
}

/** The file that a kind means in this world, below the data folder; null: there is none after this ending. */
export async function findFile(disk: MemoryDisk, find: (paths: readonly string[]) => string | undefined): Promise<string | null> {
  return find((await pathsIn(disk, DATA_FOLDER)).map((path) => path.slice(DATA_FOLDER.length + 1)).sort()) ?? null
}

/** Without the bytes: the journal alone has many. */
export async function pathsIn(disk: MemoryDisk, folder: string): Promise<string[]> {
  const paths: string[] = []
  for (const entry of await disk.list(folder)) {
    const path = `${folder}/${entry.name}`
    if (entry.kind === 'file') paths.push(path)
    else paths.push(...(await pathsIn(disk, path)))
  }
  return paths
}
