import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { variableOf } from '../../src/config/environment.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { createTopic } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'

/** Of the package libfaketime: calls of the clock go through it, and it adds what a file says. */
const LIBRARY = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib64/faketime/libfaketime.so.1',
  '/usr/lib/faketime/libfaketime.so.1',
].find((path) => existsSync(path))
const DAY_MS = 86_400_000
const COUNT = 40
const CONFIG = {
  'segment.bytes': '1024', // A start believes that up to a day passed, whatever the clock says.
  'retention.ms': `${2 * DAY_MS}`,
  'cleanup.policy': 'delete',
}

async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadlineMs = performance.now() + 60_000
  while (!(await isSo())) {
    assert.ok(performance.now() < deadlineMs, what)
    await pause(20)
  }
}

async function fill(kafka: RawKafka, topic: string, timestampMs: number): Promise<void> {
  await createTopic(kafka, topic, 1, CONFIG)
  for (let index = 0; index < COUNT; index++) {
    const { errorCode } = await kafka.produce(topic, 0, [{ value: `${index} ${'.'.repeat(200)}`, timestampMs }])
    assert.equal(errorCode, 0)
  }
}

async function held(broker: BrokerProcess, topic: string): Promise<number> {
  using kafka = await RawKafka.connect(broker.address)
  return (await kafka.readAll(topic, 0)).length
}

test('the clock of the machine jumps ten years ahead and back, live and over a restart, and nothing that is new is deleted', async (t) => {
  if (LIBRARY === undefined) {
    t.skip('libfaketime is not installed')
    return
  }
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-clock-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'offset')
  await writeFile(file, '+0d')
  await using broker = await BrokerProcess.start({
    env: {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      // Timers go on, as those of a machine do whose date is set.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      [variableOf('kafka.log.initial.task.delay.ms')]: '0',
      [variableOf('kafka.log.retention.check.interval.ms')]: '20',
    },
  })
  {
    using kafka = await RawKafka.connect(broker.address)
    await fill(kafka, 'new', Date.now())
    await fill(kafka, 'old', Date.now() - 3 * DAY_MS)
  }
  // Retention is at work: what is old goes, but perhaps for the segment that is written to.
  await until(async () => (await held(broker, 'old')) < COUNT / 2, 'retention takes what is old')
  const jumps = (direction: string) => broker.log.split(`jumped ${direction} by`).length - 1
  await writeFile(file, '+3650d')
  await until(() => jumps('ahead') === 1, 'the jump ahead is seen')
  await writeFile(file, '+0d')
  // Told by a later pass than the one that saw the clock ahead, which so has ended.
  await until(() => jumps('back') === 1, 'the jump back is seen')
  assert.equal(await held(broker, 'new'), COUNT)
  assert.equal(await broker.stop(), 0)
  await writeFile(file, '+3650d')
  await broker.start()
  await until(() => jumps('ahead') === 2, 'the start sees the jump')
  await writeFile(file, '+0d')
  await until(() => jumps('back') === 2, 'the jump back is seen')
  assert.equal(await held(broker, 'new'), COUNT)
  assert.equal(await broker.stop(), 0)
})
