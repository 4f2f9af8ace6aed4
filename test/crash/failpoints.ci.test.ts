import assert from 'node:assert/strict'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { variableOf } from '../../src/config/environment.ts'
import { FAILPOINT_NAMES } from '../../src/core/failpoint.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { IN_PROCESS_ONLY, nthsOf, SETTINGS, TURNS } from '../support/failpoint-plan.ts'
import { Promises } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'

/** Kills of one recovery one after another. */
const RECOVERY_KILLS = 5

const env = Object.fromEntries(Object.entries(SETTINGS.kafka).map(([name, value]) => [variableOf(`kafka.${name}`), value]))

/** Half a batch at the end of the active segment of a partition. */
async function tear(broker: BrokerProcess, partition: string): Promise<void> {
  const folder = join(broker.dataDir, partition)
  const last = (await readdir(folder))
    .filter((name) => name.endsWith('.log'))
    .sort()
    .at(-1)
  assert.ok(last !== undefined)
  const file = await open(join(folder, last), 'a')
  await file.write(Buffer.alloc(77, 1))
  await file.close()
}

/** False when it died before it served. */
async function startsWith(broker: BrokerProcess, failpoint: string): Promise<boolean> {
  try {
    await broker.start({ MOONMQ_FAILPOINT: failpoint })
    return true
  } catch (error) {
    assert.match(String(error), /SIGKILL/)
    return false
  }
}

async function verify(broker: BrokerProcess, promises: Promises): Promise<void> {
  await broker.start()
  const kafka = await RawKafka.connect(broker.address)
  try {
    await promises.begin(kafka)
    await promises.check(kafka)
  } finally {
    kafka[Symbol.dispose]()
  }
}

async function work(broker: BrokerProcess, promises: Promises): Promise<void> {
  const kafka = await RawKafka.connect(broker.address)
  try {
    await promises.work(kafka, TURNS)
  } catch (error) {
    // The connection ends a little before the process is seen to have.
    assert.match(String(error), /closed|ECONNRESET|EPIPE/)
  } finally {
    kafka[Symbol.dispose]()
  }
}

test('kill -9 at every moment that has a name, and everything acknowledged is there', async (t) => {
  await using broker = await BrokerProcess.start({ env })
  const promises = new Promises()
  await workAndCheck(broker, promises)
  const missed: string[] = []
  for (const name of FAILPOINT_NAMES) {
    if (IN_PROCESS_ONLY.has(name)) continue
    for (const nth of nthsOf(name)) {
      await t.test(`${name}@${nth}`, async () => {
        await broker.kill()
        await tear(broker, 'plain-0')
        const failpoint = `${name}:kill@${nth}`
        if (await startsWith(broker, failpoint)) {
          await work(broker, promises)
          if ((await broker.stop()) !== null) missed.push(failpoint)
        } else await broker.kill()
        await verify(broker, promises)
      })
    }
  }
  assert.deepEqual(missed, [], 'moments that this work never came to')
})

test(`a recovery that is killed ${RECOVERY_KILLS} times in a row, then one that is not`, async () => {
  await using broker = await BrokerProcess.start({ env })
  const promises = new Promises()
  await workAndCheck(broker, promises)
  await broker.kill()
  await tear(broker, 'plain-0')
  await tear(broker, 'numbered-0')
  const moments = [
    'recovery.indexes-reset:kill@2',
    'recovery.cut:kill@1',
    'recovery.segment-synced:kill@3',
    'file.written:kill@1',
    'recovery.segment-synced:kill@6',
  ]
  assert.equal(moments.length, RECOVERY_KILLS)
  for (const failpoint of moments) {
    assert.equal(await startsWith(broker, failpoint), false, failpoint)
    await broker.kill()
  }
  await verify(broker, promises)
  assert.equal(await broker.stop(), 0)
})

async function workAndCheck(broker: BrokerProcess, promises: Promises): Promise<void> {
  const kafka = await RawKafka.connect(broker.address)
  try {
    await promises.begin(kafka)
    await promises.work(kafka, TURNS)
    await promises.check(kafka)
  } finally {
    kafka[Symbol.dispose]()
  }
}

test('a failpoint that nobody knows stops the start', async () => {
  await assert.rejects(
    BrokerProcess.start({ env: { MOONMQ_FAILPOINT: 'recovery.cutt:kill' } }),
    /there is no moment recovery\.cutt; did you mean recovery\.cut\?/,
  )
})
