import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { AllPromises, killEnv, startsWith, tear, verify, walkMoments, workAndCheck } from '../support/kill-walk.ts'

/** Kills of one recovery one after another. */
const RECOVERY_KILLS = 5

// What compaction and the journal bring: `upkeep-failpoints.ci.test.ts`, at the same time.
test('kill -9 at every named moment of requests, starts and stops, and everything acknowledged is there', async (t) => {
  await walkMoments(t, ['work'])
})

test(`a recovery that is killed ${RECOVERY_KILLS} times in a row, then one that is not`, async () => {
  await using broker = await BrokerProcess.start({ env: killEnv })
  const promises = new AllPromises()
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

test('a failpoint that nobody knows stops the start', async () => {
  await assert.rejects(
    BrokerProcess.start({ env: { MOONMQ_FAILPOINT: 'recovery.cutt:kill' } }),
    /there is no moment recovery\.cutt; did you mean recovery\.cut\?/,
  )
})
