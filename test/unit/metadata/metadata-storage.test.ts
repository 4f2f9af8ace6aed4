import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { newUuid } from '../../../src/core/uuid.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { readMetadataOffline } from '../../../src/metadata/offline.ts'
import { createTopic, deleteTopic, setConfig } from '../../../src/metadata/plans.ts'
import type { MetadataImage } from '../../../src/metadata/types.ts'
import { DataFolder, METADATA_FOLDER } from '../../support/data-folder.ts'
import { byLane, seedOr } from '../../support/lane.ts'

/** The metadata log over the real partition log, on a disk that forgets what was not synced. */
const FOLDER = '/data'
const clock = new SystemClock()

const create = (random: SeededRandom, name: string, partitions = 1) => {
  const id = newUuid(random)
  return (image: MetadataImage) => createTopic(image, { name, id, partitions, replicationFactor: 1 })
}

function metadataLogBytesRead(disk: MemoryDisk): number {
  return disk.counters(new RegExp(`/${METADATA_FOLDER}/.*\\.log$`)).readBytes
}

test('after a clean stop the bytes read of the metadata log do not grow with it', async () => {
  const random = new SeededRandom(1)
  const read: number[] = []
  for (const topics of [5, 300]) {
    let disk = new MemoryDisk({ clock })
    const first = await DataFolder.open(disk, FOLDER)
    for (let index = 0; index < topics; index++) await first.metadata.change(create(random, `t${index}`, 0 + 1))
    for (let index = 0; index < topics - 1; index++) await first.metadata.change((image) => deleteTopic(image, `t${index}`))
    await first.close()
    disk = disk.processKilled()
    disk.resetCounters()
    const second = await DataFolder.open(disk, FOLDER)
    read.push(metadataLogBytesRead(disk))
    assert.deepEqual([...second.metadata.image.topics.keys()], [`t${topics - 1}`])
    await second.close()
  }
  assert.ok((read[1] ?? 0) <= (read[0] ?? 0) + 4096, `${read}`)
})

test('a leader epoch rises at a start after an unclean stop, and only then', async () => {
  const random = new SeededRandom(1)
  let disk = new MemoryDisk({ clock })
  const epochs: (number | undefined)[] = []
  for (const ending of ['clean', 'killed', 'cut', 'clean', 'clean']) {
    const data = await DataFolder.open(disk, FOLDER, { boot: `boot-${epochs.length}` })
    if (epochs.length === 0) await data.metadata.change(create(random, 't'))
    epochs.push(data.metadata.image.topics.get('t')?.partitions[0]?.leaderEpoch)
    await data.store('t', 0, ['x'])
    if (ending === 'clean') await data.close()
    disk = ending === 'cut' ? disk.powerCut(random) : disk.processKilled()
  }
  assert.deepEqual(epochs, [0, 0, 1, 2, 2])
})

test('topics that come and go do not make the log grow: segments below the older snapshot go, whenever the power does', async () => {
  const random = new SeededRandom(3)
  let disk = new MemoryDisk({ clock })
  const options = { metadataSegmentBytes: 3000, snapshotEveryBytes: 2000 }
  const sizes: number[] = []
  const kept: string[] = []
  for (let round = 0; round < 8; round++) {
    const data = await DataFolder.open(disk, FOLDER, { ...options, boot: `boot-${round}`, seed: round })
    assert.deepEqual([...data.metadata.image.topics.keys()], kept, `round ${round}`)
    for (let index = 0; index < 60; index++) {
      await data.metadata.change(create(random, `r${round}-${index}`, 3))
      if (index > 0) await data.metadata.change((image) => deleteTopic(image, `r${round}-${index}`))
      if (index % 20 === 0) await data.manager.checkpoint()
    }
    kept.push(`r${round}-0`)
    await new Promise(setImmediate)
    await data.manager.checkpoint()
    await data.manager.removed()
    const log = data.manager.get({ topic: '__cluster_metadata', partition: 0 })
    sizes.push(log?.sizeBytes ?? 0)
    if (round % 3 === 0) await data.close()
    disk = round % 3 === 1 ? disk.powerCut(random) : disk.processKilled()
    const { findings, image } = await readMetadataOffline(disk, {
      directory: `${FOLDER}/${METADATA_FOLDER}`,
      clusterId: data.metadata.image.clusterId,
    })
    assert.deepEqual(findings, [], `round ${round}`)
    assert.deepEqual([...(image?.topics.keys() ?? [])], kept)
  }
  assert.ok(Math.max(...sizes) < 20_000, `${sizes}`)
})

/** One life of a broker: changes in flight, then the power goes at any moment. Returns what was acknowledged. */
async function life(
  data: DataFolder,
  random: SeededRandom,
  round: number,
): Promise<{ acknowledged: Map<string, string>; refused: number }> {
  const acknowledged = new Map<string, string>()
  let refused = 0
  const changes: Promise<void>[] = []
  const count = random.below(12)
  for (let index = 0; index < count; index++) {
    const name = `r${round}-t${index}`
    const made = data.metadata.change(create(random, name, 1 + random.below(3)))
    changes.push(
      made.then(
        (topic) => void acknowledged.set(name, topic.id),
        () => void refused++,
      ),
    )
    if (random.below(3) === 0) {
      const changes = new Map([['retention.ms', `${round}`]])
      data.metadata.change((image) => setConfig(image, { resource: 'topic', name, changes })).catch(() => {})
    }
    for (let turn = random.below(4); turn > 0; turn--) await new Promise(setImmediate)
  }
  for (let turn = random.below(8); turn > 0; turn--) await new Promise(setImmediate)
  // What was answered up to now counts; the rest may have reached the disk or not.
  const counted = new Map(acknowledged)
  void Promise.allSettled(changes)
  return { acknowledged: counted, refused }
}

test('whatever a power cut leaves, acknowledged changes are there, epochs never repeat, and log and snapshots agree', async () => {
  const histories = byLane({ quick: 10, ci: 200, full: 1000 })
  for (let history = 0; history < histories; history++) {
    const seed = seedOr(1000 + history)
    const random = new SeededRandom(seed)
    let disk = new MemoryDisk({ clock })
    const expected = new Map<string, string>()
    let lastEpoch = -1
    let lastBrokerEpoch = -1
    for (let round = 0; round < 4; round++) {
      const data = await DataFolder.open(disk, FOLDER, { boot: `boot-${round}`, seed })
      const { image, epoch, broker } = data.metadata
      for (const [name, id] of expected) assert.equal(image.topics.get(name)?.id, id, `seed ${seed}: ${name} is gone`)
      assert.ok(epoch > lastEpoch && broker.epoch > lastBrokerEpoch, `seed ${seed}: epochs ${epoch} and ${broker.epoch} are not new`)
      lastEpoch = epoch
      lastBrokerEpoch = broker.epoch
      const { acknowledged } = await life(data, random, round)
      for (const [name, id] of acknowledged) expected.set(name, id)
      if (random.below(3) === 0) {
        await data.close()
        for (const [name, topic] of data.metadata.image.topics) expected.set(name, topic.id)
      }
      disk = disk.powerCut(random)
      const offline = await readMetadataOffline(disk, { directory: `${FOLDER}/${METADATA_FOLDER}`, clusterId: image.clusterId })
      assert.deepEqual(offline.findings, [], `seed ${seed}`)
    }
  }
})

test('a failing disk under the metadata log stops the broker once, and what was acknowledged before is there at the next start', async () => {
  const faults = [
    { operation: 'datasync', effect: { kind: 'failedSync' } },
    { operation: 'write', effect: { kind: 'error', code: 'EIO' } },
    { operation: 'write', effect: { kind: 'shortWrite', keepBytes: 20, code: 'ENOSPC' } },
  ] as const
  for (const [index, fault] of faults.entries()) {
    const random = new SeededRandom(index)
    const disk = new MemoryDisk({ clock })
    const fatal: Error[] = []
    const data = await DataFolder.open(disk, FOLDER, { onFatal: (error) => void fatal.push(error) })
    await data.metadata.change(create(random, 'kept'))
    disk.fail({ ...fault, path: new RegExp(`/${METADATA_FOLDER}/.*\\.log$`) })
    const outcomes = await Promise.allSettled([data.metadata.change(create(random, 'a')), data.metadata.change(create(random, 'b'))])
    assert.deepEqual(
      outcomes.map((each) => each.status),
      ['rejected', 'rejected'],
    )
    assert.equal(fatal.length, 1)
    assert.deepEqual([...data.metadata.image.topics.keys()], ['kept'])
    const again = await DataFolder.open(disk.powerCut(random), FOLDER, { boot: 'boot-2' })
    assert.ok(again.metadata.image.topics.has('kept'))
    await again.close()
  }
})

test('a start that ends at any of its writes or syncs leaves everything for the next one', async () => {
  let failures = 0
  for (const operation of ['write', 'datasync', 'rename', 'syncDirectory', 'truncate', 'removeFile'] as const) {
    for (let nth = 1; nth <= 7; nth++) {
      const random = new SeededRandom(nth)
      let disk = new MemoryDisk({ clock })
      const first = await DataFolder.open(disk, FOLDER)
      await first.metadata.change(create(random, 't', 2))
      await first.store('t', 0, ['x'])
      if (nth % 2 === 0) await first.close()
      disk = disk.powerCut(random)
      disk.fail({ operation, nth, effect: { kind: 'error', code: 'EIO' } })
      const failed = await DataFolder.open(disk, FOLDER, { boot: 'boot-2' }).then(
        () => false,
        () => true,
      )
      if (failed) failures++
      disk.clearFaults()
      disk = disk.powerCut(random)
      const last = await DataFolder.open(disk, FOLDER, { boot: 'boot-3' })
      const topic = last.metadata.image.topics.get('t')
      assert.equal(topic?.partitions.length, 2, `${operation} ${nth}, failed: ${failed}`)
      assert.equal((await last.log('t', 0)).logEndOffset, 1, `${operation} ${nth}, failed: ${failed}`)
      await last.close()
    }
  }
  assert.ok(failures > 15, `${failures} starts failed`)
})
