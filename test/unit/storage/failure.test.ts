import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import type { MoonMQError } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { appendTo, openHarness, readAll, store } from '../../support/storage.ts'

const LOG = /\.log$/

function failsWith(code: string) {
  return (error: MoonMQError) => {
    assert.equal(error.code, code)
    assert.equal(error.retriable, true)
    return true
  }
}

test('a failed sync refuses all who wait, and the log takes nothing more', async () => {
  const { log, disk, manager, lines } = await openHarness()
  await store(log, ['kept'])
  disk.fail({ operation: 'datasync', path: LOG, effect: { kind: 'failedSync' } })
  const states: string[] = []
  log.watch((event) => states.push(event))
  appendTo(log, ['a'])
  appendTo(log, ['b'])
  const outcomes = await Promise.allSettled([log.whenDurable(2), log.whenDurable(3), log.whenSynced(3)])
  for (const each of outcomes) {
    assert.equal(each.status, 'rejected')
    failsWith('STORAGE_FAILED')((each as PromiseRejectedResult).reason)
  }
  assert.equal(log.state, 'failed')
  assert.deepEqual(states, ['state'])
  assert.throws(() => appendTo(log, ['c']), failsWith('STORAGE_FAILED'))
  await assert.rejects(log.whenDurable(4), failsWith('STORAGE_FAILED'))
  assert.equal(log.highWatermark, 1)
  assert.deepEqual(await readAll(log, 0, 4096, 1), [[0, 0]])
  assert.ok(lines.some((line) => line.event === 'storage.offline'))
  await manager.close()
  // No clean marker beside a failed log.
  const next = await openHarness({ disk: disk.processKilled() })
  assert.equal(next.manager.wasClean, false)
  await next.manager.close()
})

test('what a failed sync left in doubt is written again before it is served', async () => {
  const { log, disk } = await openHarness()
  await store(log, ['kept'])
  disk.fail({ operation: 'datasync', path: LOG, effect: { kind: 'failedSync' } })
  appendTo(log, ['in doubt'])
  await assert.rejects(log.whenDurable(2))
  await log.reopen(1)
  assert.deepEqual([log.state, log.leaderEpoch, log.logEndOffset, log.highWatermark], ['online', 1, 2, 2])
  await store(log, ['after'], { epoch: 1 })
  const left = disk.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' })
  const { log: again } = await openHarness({ disk: left, boot: 'boot-2' })
  assert.deepEqual(await readAll(again), [
    [0, 0],
    [1, 1],
    [2, 2],
  ])
})

test('the next process writes it again too, before it serves it', async () => {
  const { log, disk } = await openHarness()
  await store(log, ['kept'])
  disk.fail({ operation: 'datasync', path: LOG, effect: { kind: 'failedSync' } })
  appendTo(log, ['in doubt'])
  await assert.rejects(log.whenDurable(2))
  const second = await openHarness({ disk: disk.processKilled() })
  assert.deepEqual([second.log.logEndOffset, second.log.highWatermark], [2, 2])
  const left = second.disk.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' })
  const third = await openHarness({ disk: left, boot: 'boot-2' })
  assert.deepEqual(await readAll(third.log), [
    [0, 0],
    [1, 1],
  ])
})

test('what was acknowledged can be read while the log is down, and after each attempt to open it that failed', async () => {
  const { log, disk } = await openHarness({ config: { segmentBytes: 300, indexIntervalBytes: 0 }, manager: { tailBytes: 0 } })
  for (let index = 0; index < 6; index++) await store(log, ['x'.repeat(60)])
  await log.idle()
  const all = await readAll(log)
  assert.ok(log.segmentCount > 2)
  disk.fail({ operation: 'datasync', path: LOG, effect: { kind: 'failedSync' } })
  appendTo(log, ['lost'])
  await assert.rejects(log.whenDurable(7))
  const read = () => readAll(log, 0, 64 * 1024, 6)
  assert.deepEqual(await read(), all)
  // Each step of the recovery fails once: reading the log, emptying its indexes, making it durable.
  for (const [operation, path] of [
    ['read', LOG],
    ['truncate', /\.index$/],
    ['datasync', /\.timeindex$/],
    ['datasync', LOG],
    ['syncDirectory', /t-0$/],
  ] as const) {
    disk.fail({ operation, path, effect: { kind: 'error', code: 'EMFILE' } })
    await assert.rejects(log.reopen(1), operation)
    disk.clearFaults()
    assert.deepEqual(await read(), all, `after a failed ${operation}`)
    assert.deepEqual(log.abortedTransactions(0, 6), [])
  }
  const reopened = log.reopen(1)
  assert.deepEqual(await read(), all)
  await reopened
  assert.deepEqual([log.state, log.logEndOffset], ['online', 7])
  assert.deepEqual((await readAll(log)).slice(0, 6), all)
})

test('an old epoch is refused after the log was opened again', async () => {
  const { log, disk } = await openHarness()
  await store(log, ['kept'])
  disk.fail({ operation: 'write', path: LOG, effect: { kind: 'shortWrite', keepBytes: 10, code: 'EFBIG' } })
  appendTo(log, ['lost'])
  await assert.rejects(log.whenDurable(2), failsWith('STORAGE_FAILED'))
  await log.reopen(1)
  assert.equal(log.logEndOffset, 1)
  assert.equal(log.cuts.length, 1)
  assert.throws(() => appendTo(log, ['old leader']), failsWith('LEADER_EPOCH_FENCED'))
  await store(log, ['new'], { epoch: 1 })
  assert.deepEqual(log.endOffsetForEpoch(0, -1), { leaderEpoch: 0, endOffset: 1 })
  assert.deepEqual(log.endOffsetForEpoch(1, -1), { leaderEpoch: 1, endOffset: 2 })
})

test('a full disk: the tail is cut to the last whole batch, and the log reopens by itself when there is space', async () => {
  const clock = new VirtualClock()
  const disk = new MemoryDisk({ clock })
  let epoch = 0
  const asked: string[] = []
  const harness = await openHarness({
    disk,
    clock,
    manager: {
      nextLeaderEpoch: async ({ topic, partition }) => {
        asked.push(`${topic}-${partition}`)
        return ++epoch
      },
    },
  })
  const { log, lines } = harness
  appendTo(log, ['kept'])
  await clock.advance(0)
  const noSpace = disk.fail({ operation: 'write', times: 1e9, effect: { kind: 'shortWrite', keepBytes: 7 } })
  appendTo(log, ['lost'])
  const refused = assert.rejects(log.whenDurable(2), failsWith('STORAGE_FULL'))
  await clock.advance(100)
  await refused
  assert.throws(() => appendTo(log, ['refused']), failsWith('STORAGE_FULL'))
  await clock.advance(5_000)
  assert.equal(log.failure !== null, true)
  assert.deepEqual(asked, [])
  noSpace()
  for (let second = 0; second < 60; second++) await clock.advance(1000)
  assert.equal(log.state, 'online')
  assert.deepEqual(asked, ['t-0'])
  assert.deepEqual([log.leaderEpoch, log.logEndOffset], [1, 1])
  assert.equal(log.cuts[0]?.toPosition, (log.cuts[0]?.fromPosition ?? 0) + 7)
  assert.ok(lines.some((line) => line.event === 'storage.reopened'))
  appendTo(log, ['again'], { epoch: 1 })
  await clock.advance(0)
  assert.deepEqual(
    [log.highWatermark, await readAll(log)],
    [
      2,
      [
        [0, 0],
        [1, 1],
      ],
    ],
  )
})

test('a device error keeps the log offline until a restart has verified it', async () => {
  const clock = new VirtualClock()
  const disk = new MemoryDisk({ clock })
  const { log } = await openHarness({ disk, clock, manager: { nextLeaderEpoch: async () => 9 } })
  appendTo(log, ['kept'])
  await clock.advance(0)
  disk.fail({ operation: 'write', path: LOG, effect: { kind: 'error', code: 'EIO' } })
  appendTo(log, ['lost'])
  await clock.advance(3_600_000)
  assert.equal(log.state, 'failed')
  const next = await openHarness({ disk: disk.processKilled({ clock }), clock })
  assert.deepEqual([next.log.state, next.log.logEndOffset], ['online', 1])
})

test('a failed roll, index or epoch file is a failure of the log too', async () => {
  for (const path of [/00000000000000000002\.log$/, /leader-epoch-checkpoint/]) {
    const { log, disk } = await openHarness({ config: { segmentBytes: 200 } })
    disk.fail({ operation: 'open', path, effect: { kind: 'error', code: 'EMFILE' } })
    for (let index = 0; index < 4; index++) appendTo(log, ['x'.repeat(40)], { epoch: 0 })
    await assert.rejects(log.whenDurable(4), failsWith('STORAGE_FAILED'))
    await log.reopen(1)
    await store(log, ['after'], { epoch: 1 })
    const all = await readAll(log)
    assert.equal(all.length, log.logEndOffset)
  }
})

test('the queue is bounded: an append beyond it is refused, and ready tells when there is room', async () => {
  const { PartitionLog } = await import('../../../src/storage/partition-log.ts')
  const { manager, log: first } = await openHarness()
  const folder = first.folder
  await first.close()
  const log = await PartitionLog.open(manager.deps, {
    topic: 't',
    partition: 0,
    topicId: first.topicId,
    folder,
    isFolderThere: false,
    config: first.config,
    load: { wasClean: false, recoveryPoint: 0, txnSeals: [], logStartOffset: 0, maxEpoch: null, hadPowerCut: true },
    maxQueuedBytes: 1000,
  })
  assert.equal(log.ready(), undefined)
  appendTo(log, ['x'.repeat(600)])
  assert.throws(() => appendTo(log, ['x'.repeat(600)]), failsWith('STORAGE_FAILED'))
  const room = log.ready()
  assert.ok(room instanceof Promise)
  await room
  assert.equal(log.queuedBytes, 0)
  await store(log, ['y'.repeat(2000)])
  assert.equal(log.logEndOffset, 2)
  await log.close()
})

test('records without acknowledgement are synced without later traffic', async () => {
  const { log } = await openHarness({ clock: new SystemClock() })
  const moved = new Promise<void>((resolve) => {
    log.watch(() => resolve())
  })
  appendTo(log, ['nobody waits'])
  await moved
  assert.equal(log.highWatermark, 1)
})

test('flush.messages other than 1: durable when written, synced in the background by count and by time', async () => {
  const clock = new VirtualClock()
  const disk = new MemoryDisk({ clock })
  const { log } = await openHarness({ disk, clock, config: { flushMessages: 10, flushMs: 1000 } })
  appendTo(log, ['a'])
  await clock.advance(0)
  assert.deepEqual([log.highWatermark, log.syncedOffset], [1, 0])
  await clock.advance(1000)
  assert.equal(log.syncedOffset, 1)
  for (let index = 0; index < 10; index++) appendTo(log, ['b'])
  await clock.advance(1)
  assert.equal(log.syncedOffset, 11)
  appendTo(log, ['c'])
  await clock.advance(1)
  assert.equal(log.syncedOffset, 11)
  const synced = log.whenSynced(12)
  await clock.advance(1)
  await synced
  appendTo(log, ['d'])
  await clock.advance(1)
  const durable = log.durableOffset
  log.reconfigure({ ...log.config, flushMessages: 1 })
  assert.equal(log.durableOffset, durable)
  await clock.advance(1)
  assert.equal(log.syncedOffset, 13)
})

test('flush settings that change: what waits by the old count or time waits by the new, and nothing durable goes back', async () => {
  const clock = new VirtualClock()
  const { log } = await openHarness({ disk: new MemoryDisk({ clock }), clock, config: { flushMessages: 100, flushMs: 1_000_000 } })
  const bounds = () => [log.highWatermark, log.durableOffset, log.syncedOffset]
  appendTo(log, ['a'])
  await clock.advance(1)
  assert.deepEqual(bounds(), [1, 1, 0])
  log.reconfigure({ ...log.config, flushMs: 500 })
  await clock.advance(499)
  assert.deepEqual(bounds(), [1, 1, 0])
  await clock.advance(2)
  assert.deepEqual(bounds(), [1, 1, 1])
  log.reconfigure({ ...log.config, flushMs: Number.MAX_SAFE_INTEGER })
  for (let index = 0; index < 5; index++) appendTo(log, ['b'])
  await clock.advance(10_000)
  assert.deepEqual(bounds(), [6, 6, 1])
  log.reconfigure({ ...log.config, flushMessages: 5 })
  await clock.advance(1)
  assert.deepEqual(bounds(), [6, 6, 6])
  // Back to durable by default and away again, with bytes on their way.
  appendTo(log, ['c'])
  await clock.advance(1)
  log.reconfigure({ ...log.config, flushMessages: 1 })
  assert.deepEqual(bounds(), [7, 7, 6])
  appendTo(log, ['d'])
  log.reconfigure({ ...log.config, flushMessages: 1000 })
  const durable = log.whenDurable(8)
  await clock.advance(1)
  await durable
  assert.deepEqual(bounds().slice(0, 2), [8, 8])
})
