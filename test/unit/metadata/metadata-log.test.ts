import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCode, type MoonMQError } from '../../../src/core/errors.ts'
import { type Logger, SILENT } from '../../../src/core/logger.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { METADATA_TOPIC_ID, newUuid } from '../../../src/core/uuid.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { controlKindOf, metadataBatch } from '../../../src/metadata/batches.ts'
import { plainImage } from '../../../src/metadata/image.ts'
import { MetadataLog, type MetadataLogOptions } from '../../../src/metadata/metadata-log.ts'
import { allocateProducerIds, createTopic, deleteTopic } from '../../../src/metadata/plans.ts'
import {
  listSnapshots,
  parseSnapshotName,
  readSnapshot,
  type SnapshotId,
  snapshotName,
  writeSnapshot,
} from '../../../src/metadata/snapshot.ts'
import type { MetadataImage } from '../../../src/metadata/types.ts'
import { readBatchHeader } from '../../../src/record/batch.ts'
import { encodeMetadataRecord } from '../../../src/schema/records.ts'
import { FakeLog } from '../../support/fake-log.ts'

const DIRECTORY = '/data/__cluster_metadata-0'
const CLUSTER = newUuid(new SeededRandom(1))
const random = new SeededRandom(2)

interface Rig {
  disk: MemoryDisk
  readonly clock: VirtualClock
  readonly partitionLog: FakeLog
  readonly fatal: MoonMQError[]
  readonly events: string[]
  open(options?: Partial<MetadataLogOptions>): Promise<MetadataLog>
}

async function rig(): Promise<Rig> {
  const clock = new VirtualClock()
  const disk = new MemoryDisk({ clock })
  await disk.makeDirectory(DIRECTORY)
  await disk.syncDirectory('/')
  await disk.syncDirectory('/data')
  const events: string[] = []
  const note = (event: string) => void events.push(event)
  const log: Logger = { ...SILENT, warn: note, error: note, info: note }
  const made: Rig = {
    disk,
    clock,
    partitionLog: new FakeLog('__cluster_metadata', 0, METADATA_TOPIC_ID),
    fatal: [],
    events,
    open(options = {}) {
      const { disk, partitionLog, fatal } = made
      return MetadataLog.open(
        { disk, clock, log, partitionLog, onFatal: (error) => void fatal.push(error) },
        { directory: DIRECTORY, clusterId: CLUSTER, nodeId: 0, incarnationId: newUuid(random), raiseLeaderEpochs: false, ...options },
      )
    },
  }
  return made
}

const create = (name: string, partitions = 1) => {
  const id = newUuid(random)
  return (image: MetadataImage) => createTopic(image, { name, id, partitions, replicationFactor: 1 })
}

/** An image without what each start adds to it. */
function lasting(image: MetadataImage) {
  const { topics, topicsById, brokerConfigs, features, nextProducerId } = plainImage(image)
  return { topics, topicsById, brokerConfigs, features, nextProducerId }
}

test('a new log begins with a leader change, its format and cluster, and the registration whose offset is the broker epoch', async () => {
  const { open, partitionLog } = await rig()
  const metadata = await open({ endPoints: [{ name: 'main', host: 'h', port: 9092, securityProtocol: 0 }], rack: 'r1' })
  const [first, second] = partitionLog.batches.map((batch) => batch.bytes)
  assert.ok(first !== undefined && second !== undefined)
  assert.equal(controlKindOf(first, 0, readBatchHeader(first)), 'leaderChange')
  assert.equal(readBatchHeader(second).recordCount, 3)
  assert.equal(metadata.broker.epoch, 3)
  assert.deepEqual([metadata.broker.rack, metadata.broker.endPoints.length, metadata.broker.fenced], ['r1', 1, false])
  assert.deepEqual([...metadata.image.features], [['metadata.version', 7]])
  assert.equal(metadata.image.nextOffset, 4)
  assert.ok(partitionLog.batches.every((batch) => readBatchHeader(batch.bytes).leaderEpoch === metadata.epoch))
  await metadata.close()
})

test('a change is one batch, and neither seen nor answered before it is synced', async () => {
  const { open, partitionLog } = await rig()
  const metadata = await open()
  const seen: [number, number][] = []
  const stop = metadata.subscribe((before, after) => void seen.push([before.topics.size, after.topics.size]))
  partitionLog.autoSync = false
  const batches = partitionLog.batches.length
  let answered = false
  const change = metadata.change(create('a', 3)).then(() => {
    answered = true
  })
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
  assert.equal(partitionLog.batches.length, batches + 1)
  assert.deepEqual([answered, metadata.image.topics.size, seen.length], [false, 0, 0])
  partitionLog.sync()
  await change
  assert.deepEqual([metadata.image.topics.size, seen], [1, [[0, 1]]])
  stop()
  partitionLog.autoSync = true
  await metadata.change(create('b'))
  assert.equal(seen.length, 1)
  await metadata.close()
})

test('changes run one after another against the committed image; one that is refused leaves no trace', async () => {
  const { open, partitionLog } = await rig()
  const metadata = await open()
  const outcomes = await Promise.allSettled([metadata.change(create('a')), metadata.change(create('a')), metadata.change(create('b'))])
  assert.deepEqual(
    outcomes.map((each) => each.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  const end = partitionLog.logEndOffset
  assert.equal(await metadata.change(() => ({ records: [], result: 42 })), 42)
  const impossible = { name: 'RemoveTopicRecord', version: 0, fields: { topicId: CLUSTER } }
  await assert.rejects(
    metadata.change(() => ({ records: [impossible], result: 0 })),
    (error) => isCode(error, 'INVALID_RECORD'),
  )
  assert.equal(partitionLog.logEndOffset, end)
  await metadata.close()
  await assert.rejects(metadata.change(create('c')), (error) => isCode(error, 'SHUTTING_DOWN'))
})

test('a failed sync stops the broker: the change fails, the image stays, every later change fails, and no snapshot is written', async () => {
  const { open, partitionLog, fatal, disk } = await rig()
  const metadata = await open()
  partitionLog.autoSync = false
  const changes = [metadata.change(create('a')), metadata.change(create('b'))]
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
  partitionLog.fail()
  for (const outcome of await Promise.allSettled(changes)) assert.equal(outcome.status, 'rejected')
  await assert.rejects(metadata.change(create('c')), (error) => isCode(error, 'STORAGE_FAILED'))
  assert.deepEqual([fatal.length, metadata.image.topics.size], [1, 0])
  await metadata.close()
  assert.deepEqual(await listSnapshots(disk, DIRECTORY), [])
})

test('a change that does not fit one batch is refused before anything is written', async () => {
  const { open, partitionLog } = await rig()
  const metadata = await open()
  const end = partitionLog.logEndOffset
  const value = 'x'.repeat(30_000)
  const config = (name: string) => ({ name: 'ConfigRecord', version: 0, fields: { resourceType: 4, resourceName: '', name, value } })
  const records = Array.from({ length: 300 }, (_, index) => config(`k${index}`))
  await assert.rejects(
    metadata.change(() => ({ records, result: 0 })),
    (error) => isCode(error, 'POLICY_VIOLATION'),
  )
  assert.equal(partitionLog.logEndOffset, end)
  await metadata.close()
})

test('after a clean stop the log is read from the snapshot on only, and the state is the same', async () => {
  const made = await rig()
  const metadata = await made.open()
  for (let index = 0; index < 20; index++) await metadata.change(create(`t${index}`, 3))
  await metadata.change((image) => deleteTopic(image, 't3'))
  await metadata.change((image) => allocateProducerIds(image, { nodeId: 0 }))
  await metadata.close()
  assert.deepEqual(await listSnapshots(made.disk, DIRECTORY), [{ endOffset: metadata.image.nextOffset, epoch: metadata.epoch }])
  const reads = made.partitionLog.reads
  const again = await made.open()
  assert.equal(made.partitionLog.reads, reads)
  assert.deepEqual(lasting(again.image), lasting(metadata.image))
  assert.equal(again.epoch, metadata.epoch + 1)
  assert.ok(again.broker.epoch > metadata.broker.epoch)
  assert.equal(made.partitionLog.unreleased, 0)
  await again.close()
})

test('after an unclean stop everything after the newest snapshot is read, and every partition has a new epoch before open resolves', async () => {
  const made = await rig()
  const first = await made.open()
  await first.change(create('a', 2))
  await first.close()
  const second = await made.open()
  await second.change(create('b', 1))
  // No close: the process is gone.
  const third = await made.open({ raiseLeaderEpochs: true })
  assert.deepEqual([...third.image.topics.keys()], ['a', 'b'])
  for (const topic of third.image.topics.values()) for (const each of topic.partitions) assert.equal(each.leaderEpoch, 1)
  await third.close()
  const fourth = await made.open()
  assert.deepEqual(lasting(fourth.image), lasting(third.image))
  await fourth.close()
})

test('a snapshot is written when the log has grown, and only the two newest are kept', async () => {
  const made = await rig()
  const metadata = await made.open({ snapshotEveryBytes: 1500 })
  for (let index = 0; index < 60; index++) {
    await metadata.change(create(`t${index}`))
    for (let turn = 0; turn < 100; turn++) await Promise.resolve()
  }
  const ids = await listSnapshots(made.disk, DIRECTORY)
  assert.equal(ids.length, 2)
  assert.ok((ids[1]?.endOffset ?? 0) > 100)
  const image = await readSnapshot(made.disk, DIRECTORY, ids[1] as SnapshotId, CLUSTER)
  assert.ok(image.topics.size > 50)
  const again = await made.open()
  assert.equal(again.image.topics.size, 60)
  await again.close()
  await metadata.close()
})

test('a damaged snapshot is passed over with a log line for an older one, and without any the whole log is read', async () => {
  const made = await rig()
  const images: MetadataImage[] = []
  for (const name of ['a', 'b', 'c']) {
    const metadata = await made.open()
    await metadata.change(create(name))
    await metadata.close()
    images.push(metadata.image)
  }
  const ids = await listSnapshots(made.disk, DIRECTORY)
  assert.equal(ids.length, 2)
  for (const id of ids.reverse()) {
    made.disk.corrupt(`${DIRECTORY}/${snapshotName(id)}`, 100)
    const metadata = await made.open()
    assert.deepEqual([...metadata.image.topics.keys()], ['a', 'b', 'c'])
    assert.ok(made.events.includes('metadata.snapshot_damaged'))
  }
})

test('records or versions that this version does not know stop the start, naming them and where they are', async () => {
  const unknown: [Buffer, RegExp][] = [
    [encodeMetadataRecord('ClientQuotaRecord', 0, { entity: [], key: 'k', value: 1, remove: false }), /offset 4: .*ClientQuotaRecord/],
    [encodeMetadataRecord('PartitionRecord', 2, { partitionId: 0, directories: [] }), /offset 4: .*PartitionRecord version 2/],
    [Buffer.from([1, 99, 0]), /offset 4: .*record 99/],
    [Buffer.from([2, 2, 0]), /offset 4: .*frame version 2/],
  ]
  for (const [value, text] of unknown) {
    const made = await rig()
    await made.open()
    const batch = metadataBatch([value], 1, { baseOffset: 4, leaderEpoch: 2 })
    made.partitionLog.append(batch, readBatchHeader(batch), { leaderEpoch: 2 })
    await assert.rejects(made.open(), (error) => isCode(error, 'DATA_DAMAGED') && text.test(error.message))
  }
})

test('a log that ends before its snapshot, or belongs to another cluster, is damage', async () => {
  const made = await rig()
  const metadata = await made.open()
  await metadata.change(create('a'))
  await metadata.close()
  await assert.rejects(made.open({ clusterId: newUuid(random) }), (error) => isCode(error, 'DATA_DAMAGED'))
  const shorter = { ...made, partitionLog: new FakeLog('__cluster_metadata', 0, METADATA_TOPIC_ID) }
  const deps = { disk: made.disk, clock: made.clock, log: SILENT, partitionLog: shorter.partitionLog, onFatal() {} }
  const options = { directory: DIRECTORY, clusterId: CLUSTER, nodeId: 0, incarnationId: newUuid(random), raiseLeaderEpochs: false }
  await assert.rejects(MetadataLog.open(deps, options), (error) => isCode(error, 'DATA_DAMAGED') && /ends at offset 0/.test(error.message))
})

// ---- snapshots ------------------------------------------------------------------------------------------------------------

async function imageWithTopics(count: number): Promise<MetadataImage> {
  const metadata = await (await rig()).open()
  for (let index = 0; index < count; index++) await metadata.change(create(`topic-${index}`))
  return metadata.image
}

const ID: SnapshotId = { endOffset: 77, epoch: 3 }

test('a snapshot detects a flipped bit in each byte, every cut and every byte more', async () => {
  const { disk } = await rig()
  const image = await imageWithTopics(1)
  await writeSnapshot(disk, DIRECTORY, { id: ID, image, lastTimestampMs: 5, nowMs: 6 })
  const path = `${DIRECTORY}/${snapshotName(ID)}`
  const bytes = disk.peek(path) ?? Buffer.alloc(0)
  assert.deepEqual(plainImage(await readSnapshot(disk, DIRECTORY, ID, CLUSTER)), { ...plainImage(image), nextOffset: 77 })
  const plant = async (damaged: Buffer) => {
    const file = await disk.open(path, 'write')
    await file.truncate(0)
    await file.write([damaged], 0)
    await file.close()
  }
  for (let at = 0; at < bytes.length; at++) {
    const mask = 1 << ((at * 3) % 8)
    disk.corrupt(path, at, mask)
    await assert.rejects(readSnapshot(disk, DIRECTORY, ID, CLUSTER), (error) => isCode(error, 'DATA_DAMAGED'), `byte ${at} mask ${mask}`)
    disk.corrupt(path, at, mask)
  }
  for (let size = 0; size < bytes.length; size++) {
    await plant(bytes.subarray(0, size))
    await assert.rejects(readSnapshot(disk, DIRECTORY, ID, CLUSTER), (error) => isCode(error, 'DATA_DAMAGED'), `cut to ${size}`)
  }
  await plant(Buffer.concat([bytes, bytes]))
  await assert.rejects(readSnapshot(disk, DIRECTORY, ID, CLUSTER), (error) => isCode(error, 'DATA_DAMAGED') && /footer/.test(error.message))
})

test('a large image takes several batches and comes back whole', async () => {
  const { disk } = await rig()
  const metadata = await (await rig()).open()
  await metadata.change(create('wide', 8_000))
  await writeSnapshot(disk, DIRECTORY, { id: ID, image: metadata.image, lastTimestampMs: 5, nowMs: 6 })
  assert.ok(disk.counters(snapshotName(ID)).writes >= 4)
  const image = await readSnapshot(disk, DIRECTORY, ID, CLUSTER)
  assert.deepEqual(plainImage(image).topics, plainImage(metadata.image).topics)
})

test('a crash at any step of writing a snapshot leaves the state as it was: power cuts with every kind of remains', async () => {
  const operations = ['open', 'truncate', 'write', 'datasync', 'close', 'rename', 'syncDirectory'] as const
  for (const operation of operations) {
    for (let nth = 1; nth <= (operation === 'write' ? 3 : 1); nth++) {
      for (let seed = 0; seed < 6; seed++) {
        const made = await rig()
        const first = await made.open()
        await first.change(create('a', 2))
        await first.close()
        const second = await made.open()
        await second.change(create('b', 2))
        made.disk.fail({
          operation,
          nth,
          path: operation === 'syncDirectory' ? DIRECTORY : 'checkpoint',
          effect: { kind: 'error', code: 'EIO' },
        })
        await second.close()
        assert.ok(made.events.includes('metadata.snapshot_failed'), operation)
        made.disk = made.disk.powerCut(new SeededRandom(seed))
        const third = await made.open()
        assert.deepEqual(lasting(third.image), lasting(second.image), `${operation} ${nth} seed ${seed}`)
        await third.close()
        assert.ok((await made.disk.list(DIRECTORY)).every((entry) => !entry.name.endsWith('.part')))
      }
    }
  }
})

test('snapshot names are those of Kafka', () => {
  assert.equal(snapshotName({ endOffset: 123, epoch: 4 }), '00000000000000000123-0000000004.checkpoint')
  assert.deepEqual(parseSnapshotName('00000000000000000123-0000000004.checkpoint'), { endOffset: 123, epoch: 4 })
  for (const name of [
    '00000000000000000123-0000000004.checkpoint.part',
    '123-4.checkpoint',
    'x',
    '99999999999999999999-0000000004.checkpoint',
  ]) {
    assert.equal(parseSnapshotName(name), null, name)
  }
})
