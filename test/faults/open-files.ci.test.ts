import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import type { Disk, DiskFile } from '../../src/io/disk.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { LOG_CONFIG } from '../support/log-config.ts'
import { openManager, readAll, store, TOPIC_ID } from '../support/storage.ts'

const LIMIT = 64
const PARTITIONS = 1000
const AT_ONCE = 20

/** Counts the files of partitions that are open at once. */
function counted(disk: MemoryDisk): { disk: Disk; open: () => number; most: () => number } {
  let open = 0
  let most = 0
  const wrapped = new Proxy(disk, {
    get(target, name) {
      if (name !== 'openNow') {
        const value = Reflect.get(target, name, target) as unknown
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      }
      return (path: string, access: 'read' | 'write'): DiskFile => {
        const file = target.openNow(path, access)
        if (!/\.(log|index|timeindex)$/.test(path)) return file
        most = Math.max(most, ++open)
        const close = file.close.bind(file)
        file.close = () => {
          open--
          return close()
        }
        return file
      }
    },
  })
  return { disk: wrapped, open: () => open, most: () => most }
}

test('a thousand partitions are written and read with sixty-four open files', async () => {
  const { disk, open, most } = counted(new MemoryDisk({ clock: new SystemClock() }))
  const manager = await openManager(disk, { manager: { maxOpenFiles: LIMIT, tailBytes: 0, tailBytesPerLog: 0 } })
  const config = { ...LOG_CONFIG, indexIntervalBytes: 0 }
  const logs = await Promise.all(
    Array.from({ length: PARTITIONS }, (_, partition) => manager.open({ topic: 't', partition, topicId: TOPIC_ID, config, maxEpoch: 1 })),
  )
  for (let round = 0; round < 3; round++) {
    for (let from = 0; from < PARTITIONS; from += AT_ONCE) {
      await Promise.all(logs.slice(from, from + AT_ONCE).map((log) => store(log, [`round ${round}`])))
    }
  }
  for (const log of logs)
    assert.deepEqual(await readAll(log), [
      [0, 0],
      [1, 1],
      [2, 2],
    ])
  for (const log of logs.toReversed()) assert.equal((await log.offsetOfMaxTimestamp())?.offset, 0)
  // Only what is written and not synced at the same time goes beyond it.
  assert.ok(most() <= LIMIT + AT_ONCE, `${most()} files were open at once`)
  await manager.close()
  assert.equal(open(), 0)
})

test('a thousand partitions that are written at once keep to twice the budget, and nobody is refused', async () => {
  for (const journalFrom of [0, 8]) {
    const { disk, open, most } = counted(new MemoryDisk({ clock: new SystemClock() }))
    const manager = await openManager(disk, { manager: { maxOpenFiles: LIMIT, groupCommit: { journalFrom } } })
    const config = { ...LOG_CONFIG, segmentBytes: 200 }
    const logs = await Promise.all(
      Array.from({ length: PARTITIONS }, (_, partition) => manager.open({ topic: 't', partition, topicId: TOPIC_ID, config, maxEpoch: 1 })),
    )
    for (let round = 0; round < 3; round++) await Promise.all(logs.map((log) => store(log, ['x'.repeat(80)])))
    assert.ok(most() <= 2.5 * LIMIT, `${most()} files were open at once`)
    await manager.close()
    assert.equal(open(), 0)
  }
})
