import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import type { Disk } from '../../../src/io/disk.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { decodePartitionMetadata, PARTITION_METADATA_FILE } from '../../../src/storage/files.ts'
import { DirectorySyncs } from '../../../src/storage/log-folder.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { DATA_FOLDER, openManager, readAll, store, TOPIC_ID } from '../../support/storage.ts'

const request = (partition: number) => ({ topic: 't', partition, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 })

async function foldersOf(disk: MemoryDisk): Promise<string[]> {
  const entries = await disk.list(DATA_FOLDER)
  return entries.filter((each) => each.kind === 'directory').map((each) => each.name)
}

test('a partition that nobody writes to costs no file, at the start and at the stop either', async () => {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  const manager = await openManager(disk, {})
  for (let partition = 0; partition < 50; partition++) await manager.open(request(partition))
  disk.resetCounters()
  const log = await manager.open(request(50))
  await store(log, ['a'])
  assert.deepEqual(await foldersOf(disk), ['t-50'])
  await manager.close()
  assert.deepEqual(await foldersOf(disk), ['t-50'])
  assert.equal(disk.counters(/t-\d+/).opens, disk.counters('t-50/').opens)
  const again = await openManager(disk, {})
  assert.ok(again.wasClean)
  for (let partition = 0; partition <= 50; partition++) {
    assert.equal((await again.open(request(partition))).logEndOffset, partition === 50 ? 1 : 0)
  }
  await again.close()
})

test('whoever asks for the sync of a directory while one runs shares the next; nobody is told of an earlier one', async () => {
  const ends: (() => void)[] = []
  const syncs = new DirectorySyncs({ syncDirectory: () => new Promise<void>((resolve) => ends.push(resolve)) } as unknown as Disk, '/data')
  const done: string[] = []
  const note = (name: string) => void syncs.sync().then(() => done.push(name))
  note('first')
  for (let count = 0; count < 1000; count++) note('second')
  assert.equal(ends.length, 1)
  ends[0]?.()
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(done, ['first'])
  assert.equal(ends.length, 2)
  note('third')
  ends[1]?.()
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(done.length, 1001)
  assert.equal(ends.length, 3)
})

test('what was acknowledged in a new folder survives a power cut, whatever else was under way', async () => {
  for (let seed = 0; seed < 60; seed++) {
    const disk = new MemoryDisk({ clock: new SystemClock() })
    const manager = await openManager(disk, { boot: 'boot-1' })
    const logs = await Promise.all(Array.from({ length: 6 }, (_, partition) => manager.open(request(partition))))
    const acknowledged = new Set<number>()
    const writes = logs.map((log) =>
      store(log, ['a']).then(
        () => acknowledged.add(log.partition),
        () => {},
      ),
    )
    for (let turns = seed % 30; turns > 0; turns--) await Promise.resolve()
    if (seed % 3 === 0) await Promise.race(writes)
    const known = [...acknowledged]
    const left = disk.powerCut(new SeededRandom(seed))
    const next = await openManager(left, { boot: 'boot-2' })
    for (let partition = 0; partition < 6; partition++) {
      const log = await next.open(request(partition))
      if (known.includes(partition)) assert.deepEqual(await readAll(log), [[0, 0]], `seed ${seed}, partition ${partition}`)
      await store(log, ['b'], { epoch: 1 })
    }
    await next.close()
  }
})

test('a folder that a killed process made and did not sync names its topic after a power cut too', async () => {
  for (const hasLog of [false, true]) {
    const disk = new MemoryDisk({ clock: new SystemClock() })
    const killed = await openManager(disk, { boot: 'boot-1' })
    await store(await killed.open(request(0)), ['a'])
    const folder = `${DATA_FOLDER}/t-0`
    const metadata = `${folder}/${PARTITION_METADATA_FILE}`
    const left = disk.processKilled()
    // As before the first sync: made anew, and nothing of it is durable.
    await left.removeFile(metadata)
    const made = await left.open(metadata, 'write')
    await made.write([Buffer.from(`version: 0\ntopic_id: ${TOPIC_ID}\n`)], 0)
    await made.close()
    if (!hasLog) for (const { name } of await left.list(folder)) if (!metadata.endsWith(name)) await left.removeFile(`${folder}/${name}`)
    const manager = await openManager(left, { boot: 'boot-1' })
    await store(await manager.open(request(0)), ['b'], { epoch: 1 })
    const cut = left.powerCut(new SeededRandom(1), { writes: 'none', names: 'all' })
    assert.equal(decodePartitionMetadata(cut.peek(metadata) ?? Buffer.alloc(0)), TOPIC_ID)
  }
})
