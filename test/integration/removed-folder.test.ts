import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { isCode } from '../../src/core/errors.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { createTopic, produceOne } from '../support/fake-broker.ts'
import { DATA_FOLDER, openHarness, openManager, type RecordedLine, recordingLogger, store } from '../support/storage.ts'

/** Somebody removes folders of a running broker: it must not go on acknowledging into files that have no name. */
function produce({ broker }: DiskBroker, partition: number) {
  const record = { key: null, value: Buffer.from('x'), timestampMs: Date.now() }
  return produceOne(broker, 't', partition, buildBatch([record]))
}

const offline = (lines: readonly RecordedLine[], folder: string) =>
  lines.some(
    ({ level, event, text }) => level === 'error' && (event === 'storage.offline' || event === 'storage.damaged') && text.includes(folder),
  )

test('a partition whose folder is removed is refused its next record, offline, and so after every restart; the rest stays up', async () => {
  for (const end of ['kill', 'stop'] as const) {
    const disk = new MemoryDisk({ clock: new SystemClock() })
    const lines: RecordedLine[] = []
    const first = await diskBroker(disk, {}, undefined, { log: recordingLogger(lines), boot: 'boot-1' })
    await createTopic(first.broker, 't', 2)
    for (const partition of [0, 1]) assert.equal((await produce(first, partition)).baseOffset, 0)
    await disk.removeTree(`${DATA_FOLDER}/t-0`)
    const refused = await produce(first, 0)
    assert.equal(refused.error?.code, 'STORAGE_FAILED')
    assert.ok(offline(lines, 't-0'))
    assert.equal((await produce(first, 1)).baseOffset, 1)
    await first.data.logs.checkpoint()
    let left = disk
    if (end === 'stop') await first.close()
    left = disk.processKilled()
    for (let start = 0; start < 2; start++) {
      const again: RecordedLine[] = []
      const next = await diskBroker(left, {}, undefined, { log: recordingLogger(again), boot: 'boot-1' })
      assert.equal(next.data.logs.get({ topic: 't', partition: 0 }), undefined)
      assert.ok(offline(again, 't-0'), `after a ${end}, start ${start}`)
      assert.ok((await produce(next, 1)).baseOffset >= 2)
      await next.close()
    }
  }
})

test('a folder that is removed while nothing runs is missed a second after its first record, though no checkpoint came', async () => {
  const lines: RecordedLine[] = []
  let tick: () => void = () => {}
  const clock = new SystemClock()
  const early = {
    nowMs: () => clock.nowMs(),
    monotonicMs: () => clock.monotonicMs(),
    defer: (run: () => void) => clock.defer(run),
    setTimer(delayMs: number, fire: () => void, options?: { keepAlive?: boolean }) {
      if (delayMs !== 1000) return clock.setTimer(delayMs, fire, options)
      tick = fire
      return { cancel() {} }
    },
  }
  const one = await openHarness({ clock: early })
  await store(one.log, ['a'])
  tick()
  await one.manager.saveLogStarts()
  const disk = one.disk.processKilled()
  await disk.removeTree(`${DATA_FOLDER}/t-0`)
  const manager = await openManager(disk, { lines })
  const request = { topic: 't', partition: 0, topicId: one.log.topicId, config: one.log.config, maxEpoch: 100 }
  await assert.rejects(manager.open(request), (error) => isCode(error, 'DATA_DAMAGED'))
  assert.ok(offline(lines, 't-0'))
})

test('the whole data folder is removed: every partition refuses its next record', async () => {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  const lines: RecordedLine[] = []
  const running = await diskBroker(disk, {}, undefined, { log: recordingLogger(lines), boot: 'boot-1' })
  await createTopic(running.broker, 't', 2)
  for (const partition of [0, 1]) assert.equal((await produce(running, partition)).baseOffset, 0)
  await disk.removeTree(DATA_FOLDER)
  for (const partition of [0, 1]) assert.equal((await produce(running, partition)).error?.code, 'STORAGE_FAILED')
  for (const name of ['t-0', 't-1']) assert.ok(offline(lines, name))
  await assert.rejects(createTopic(running.broker, 'u', 1))
})
