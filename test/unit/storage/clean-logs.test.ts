import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import type { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { ROOT_FILES } from '../../../src/storage/checkpoint.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { SteppedClock } from '../../support/retention.ts'
import { appendTo, DATA_FOLDER, openManager, type RecordedLine, readAll, store, TOPIC_ID } from '../../support/storage.ts'

const PARTITIONS = 20
const config = { ...LOG_CONFIG, segmentBytes: 2000, indexIntervalBytes: 100 }
const request = (partition: number) => ({ topic: 't', partition, topicId: TOPIC_ID, config, maxEpoch: 100 })

/** Logs of one and of many segments, with producers and without, that were closed in order. */
async function closed(clock: VirtualClock = new SteppedClock()): Promise<{ disk: MemoryDisk; clock: VirtualClock }> {
  const disk = new MemoryDisk({ clock })
  const manager = await openManager(disk, { clock })
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const log = await manager.open(request(partition))
    for (let count = 0; count <= partition * 2; count++) {
      const producer = partition % 3 === 0 ? { producerId: 7, producerEpoch: 0, baseSequence: count } : {}
      await store(log, ['x'.repeat(100)], { ...producer, timestampMs: 1_700_000_000_000 + count })
    }
    await log.idle()
  }
  await manager.close()
  return { disk, clock }
}

test('after a stop in order no file of a partition is opened by the start, and none by a stop without work', async () => {
  const { disk, clock } = await closed()
  disk.resetCounters()
  const manager = await openManager(disk, { clock })
  const logs = await Promise.all(Array.from({ length: PARTITIONS }, (_, partition) => manager.open(request(partition))))
  await manager.checkpoint()
  await manager.close()
  assert.equal(disk.counters('/t-').opens, 0)
  for (const log of logs) assert.equal(log.logEndOffset, log.partition * 2 + 1)
})

test('a log opened from its summary is the one that was closed', async () => {
  const { disk, clock } = await closed()
  for (let life = 0; life < 3; life++) {
    const manager = await openManager(disk, { clock })
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const log = await manager.open(request(partition))
      const end = partition * 2 + 1 + life
      assert.deepEqual([log.logStartOffset, log.logEndOffset, log.highWatermark, log.recoveryPoint], [0, end, end, end])
      assert.equal((await readAll(log)).length, end)
      assert.deepEqual(await log.offsetOfMaxTimestamp(), {
        offset: partition * 2,
        timestampMs: 1_700_000_000_000 + partition * 2,
        leaderEpoch: 0,
      })
      const producer = log.producer(7)
      assert.equal(producer?.batches.at(-1)?.lastSequence, partition % 3 === 0 ? partition * 2 : undefined)
      await store(log, ['y'], { timestampMs: 0 })
    }
    await manager.close()
  }
})

test('whatever looks other than it did at the stop makes the start read the log', async () => {
  const changes: Readonly<Record<string, (disk: MemoryDisk) => Promise<unknown>>> = {
    'the log is longer': async (disk) => {
      const file = await disk.open(`${DATA_FOLDER}/t-3/00000000000000000000.log`, 'write')
      await file.write([Buffer.from('torn')], file.sizeBytes)
    },
    'the log was touched': async (disk) => {
      const file = await disk.open(`${DATA_FOLDER}/t-3/00000000000000000000.log`, 'write')
      const byte = Buffer.alloc(1)
      await file.read(byte, 0)
      await file.write([byte], 0)
    },
    'an index is gone': (disk) => disk.removeFile(`${DATA_FOLDER}/t-3/00000000000000000000.index`),
    'a file came': async (disk) => await disk.open(`${DATA_FOLDER}/t-3/note.txt`, 'create'),
    'the summary is damaged': async (disk) => disk.corrupt(`${DATA_FOLDER}/${ROOT_FILES['clean-logs']}`, 20),
    'the summary is gone': (disk) => disk.removeFile(`${DATA_FOLDER}/${ROOT_FILES['clean-logs']}`),
  }
  for (const [name, change] of Object.entries(changes)) {
    const { disk, clock } = await closed()
    await clock.advance(5000)
    await change(disk)
    disk.resetCounters()
    const manager = await openManager(disk, { clock })
    const log = await manager.open(request(3))
    assert.ok(disk.counters('/t-3/').opens > 0, name)
    assert.equal(log.logEndOffset, 7, name)
    assert.equal((await readAll(log)).length, 7, name)
    await manager.close()
  }
})

test('a summary counts once: a crash after the start that used it is recovered from the log', async () => {
  const { disk, clock } = await closed()
  const manager = await openManager(disk, { clock })
  const log = await manager.open(request(3))
  appendTo(log, ['more'])
  await log.whenDurable(8)
  const left = disk.processKilled()
  const lines: RecordedLine[] = []
  const again = await openManager(left, { clock, lines })
  assert.ok(!again.wasClean)
  assert.equal((await again.open(request(3))).logEndOffset, 8)
  await again.close()
  const last = await openManager(left, { clock: new SystemClock() })
  assert.ok(last.wasClean)
  assert.equal((await last.open(request(3))).logEndOffset, 8)
  await last.close()
})

test('logs that were not opened keep their summaries through a stop', async () => {
  const { disk, clock } = await closed()
  const idle = await openManager(disk, { clock })
  await idle.open(request(1))
  await idle.close()
  disk.resetCounters()
  const manager = await openManager(disk, { clock })
  for (let partition = 0; partition < PARTITIONS; partition++) {
    assert.equal((await manager.open(request(partition))).logEndOffset, partition * 2 + 1)
  }
  assert.equal(disk.counters('/t-').opens, 0)
  await manager.close()
})
