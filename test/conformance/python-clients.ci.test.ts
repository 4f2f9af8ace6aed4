import assert from 'node:assert/strict'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { exists, hasProgram, laneFolder, run } from '../support/programs.ts'
import { inRoot } from '../support/root.ts'

/** Flows of confluent-kafka-python (librdkafka) and aiokafka (pure Python): groups of every kind, transactions, administration. */

/** The last one is what aiokafka packs snappy, lz4 and zstd with. */
const PACKAGES = ['confluent-kafka==2.16.1', 'aiokafka==0.14.0', 'cramjam==2.14.0']
const INSTALL_LIMIT_MS = 4 * 60_000
const FLOW_LIMIT_MS = 3 * 60_000

const venv = join(laneFolder('python-clients'), 'venv')
const python = join(venv, 'bin', 'python')
let missing: string | null = null

before(async () => {
  const isInstalled = await installed()
  if (isInstalled) return
  const made = await run('python3', ['-m', 'venv', venv], { limitMs: INSTALL_LIMIT_MS })
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...PACKAGES]
  const { code, stderr } = made.code === 0 ? await run(python, pip, { limitMs: INSTALL_LIMIT_MS }) : made
  if (code !== 0) missing = `${PACKAGES.join(', ')} could not be installed (exit ${code}): ${stderr.slice(-500)}`
})

async function installed(): Promise<boolean> {
  if (!exists(python)) return false
  return (await run(python, ['-c', 'import confluent_kafka, aiokafka, cramjam'], { limitMs: INSTALL_LIMIT_MS })).code === 0
}

for (const client of ['confluent', 'confluent-share', 'aiokafka']) {
  test(`the flows of ${client}`, { skip: hasProgram('python3') ? false : 'python3 is not installed' }, async (t) => {
    if (missing !== null) {
      t.skip(missing)
      return
    }
    await using broker = await BrokerProcess.start()
    const flow = inRoot('test', 'conformance', `${client}-flow.py`)
    const { code, stdout, stderr } = await run(python, [flow, broker.address], { limitMs: FLOW_LIMIT_MS })
    for (const line of stdout.trim().split('\n')) t.diagnostic(line)
    assert.equal(code, 0, `${stdout}${stderr}\nthe broker said:\n${broker.log.slice(-4000)}`)
    assert.match(stdout, /^done$/m)
    assert.equal(await broker.stop(), 0, 'the broker stops in order')
  })
}
