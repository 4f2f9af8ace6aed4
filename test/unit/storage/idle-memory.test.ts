import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { SystemClock } from '../../../src/core/clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { appendTo, openManager, TOPIC_ID } from '../../support/storage.ts'

const COUNT = 500
/** Bytes on the heap for a partition that is open and at rest; it costs 9,300. */
const MAX_BYTES_A_LOG = 13_000

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

async function heapBytes(): Promise<number> {
  // What ended in this turn is let go of in the next one.
  for (let round = 0; round < 3; round++) {
    await new Promise(setImmediate)
    collect()
  }
  return process.memoryUsage().heapUsed
}

async function openLogs(disk: MemoryDisk) {
  const manager = await openManager(disk, {})
  const open = (partition: number) => manager.open({ topic: 't', partition, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 })
  const logs = []
  for (let partition = 0; partition < COUNT; partition++) logs.push(await open(partition))
  return { manager, logs }
}

/** Nothing of the logs outlives the call. */
async function bytesALog(disk: MemoryDisk): Promise<number> {
  const before = await heapBytes()
  const { manager, logs } = await openLogs(disk)
  const bytes = ((await heapBytes()) - before) / logs.length
  await Promise.all(logs.map((log) => log.whenDurable(appendTo(log, ['x']).lastOffset + 1)))
  await manager.close()
  return bytes
}

test('a partition that nobody writes to costs some kilobytes of heap', async () => {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  // Until all code is compiled and all of the disk is there.
  for (let round = 0; round < 2; round++) await bytesALog(disk)
  const bytes = await bytesALog(disk)
  assert.ok(bytes > 0 && bytes < MAX_BYTES_A_LOG, `${Math.round(bytes)} bytes for each of ${COUNT} logs`)
})
