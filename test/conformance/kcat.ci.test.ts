import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { exists, hasProgram, laneFolder, run } from '../support/programs.ts'

/** kcat (librdkafka) through a suite of steps that is kept outside of the project: metadata, codecs, acks, groups, offset queries. */

const suites = process.env.MOONMQ_SUITES
const script = suites === undefined ? null : join(suites, 'kcat.sh')
/** Every step but those of transactions and of login, which this version does not have. */
const STEPS = '^([^p]|produce-([^t]|to))'
const LIMIT_MS = 5 * 60_000

function missing(): string | false {
  if (script === null) return 'MOONMQ_SUITES does not name the folder with kcat.sh'
  if (!exists(script)) return `there is no ${script}`
  return hasProgram('kcat') ? false : 'kcat is not installed'
}

test('every step of the kcat suite passes', { skip: missing() }, async (t) => {
  await using broker = await BrokerProcess.start()
  const env = { SUITES_DIR: laneFolder('suites') }
  const { code, stdout, stderr } = await run('bash', [script as string, broker.address, STEPS], { limitMs: LIMIT_MS, env })
  t.diagnostic(stdout.trim().split('\n').at(-1) ?? '')
  assert.equal(code, 0, `${stdout}${stderr}\nthe broker said:\n${broker.log.slice(-4000)}`)
  const [, passed, failed] = /^(\d+) passed, (\d+) failed/m.exec(stdout) ?? []
  assert.equal(failed, '0')
  assert.ok(Number(passed) >= 33, `only ${passed} steps ran`)
  assert.equal(await broker.stop(), 0, 'the broker stops in order')
})
