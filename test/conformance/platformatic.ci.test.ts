import assert from 'node:assert/strict'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { exists, laneFolder, run } from '../support/programs.ts'
import { inRoot } from '../support/root.ts'

/**
 * @platformatic/kafka against the broker. It needs a newer Node than the broker does, so both come from the registry into the lane's own
 * folder and the flow runs there.
 */

const PACKAGES = ['node@24.9.0', '@platformatic/kafka@2.12.1']
const INSTALL_LIMIT_MS = 5 * 60_000
const FLOW_LIMIT_MS = 2 * 60_000

const folder = laneFolder('platformatic')
const node = join(folder, 'node_modules', 'node', 'bin', 'node')
let missing: string | null = null

before(async () => {
  if (exists(node) && exists(join(folder, 'node_modules', '@platformatic', 'kafka', 'package.json'))) return
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n')
  const { code, stderr } = await run('npm', ['install', '--no-audit', '--no-fund', '--prefix', folder, ...PACKAGES], {
    limitMs: INSTALL_LIMIT_MS,
  })
  if (code !== 0) missing = `${PACKAGES.join(' and ')} could not be installed (exit ${code}): ${stderr.slice(-500)}`
})

test('@platformatic/kafka produces, consumes and administers', async (t) => {
  if (missing !== null) {
    t.skip(missing)
    return
  }
  const flow = join(folder, 'platformatic-flow.mjs')
  copyFileSync(inRoot('test', 'conformance', 'platformatic-flow.mjs'), flow)
  await using broker = await BrokerProcess.start()
  const { code, stdout, stderr } = await run(node, [flow, broker.address], { limitMs: FLOW_LIMIT_MS, cwd: folder })
  for (const line of stdout.trim().split('\n')) t.diagnostic(line)
  assert.equal(code, 0, `${stdout}${stderr}\nthe broker said:\n${broker.log.slice(-4000)}`)
  assert.match(stdout, /^done$/m)
  assert.equal(await broker.stop(), 0, 'the broker stops in order')
})
