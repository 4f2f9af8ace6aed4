import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { cliIn } from '../support/cli.ts'
import { run } from '../support/programs.ts'
import { inRoot } from '../support/root.ts'

/** `npm run smoke`: the log alone, on the machine's disk. */

const root = mkdtempSync(join(tmpdir(), 'moonmq-smoke-test-'))
after(() => rmSync(root, { recursive: true, force: true }))

const smoke = (...args: string[]) => run(process.execPath, [inRoot('dist', 'scripts', 'smoke.js'), ...args], { limitMs: 120_000 })

test('every step passes and says what it did; the data that it leaves can be read', async () => {
  const data = join(root, 'data')
  const { code, stdout, stderr } = await smoke('--data', data, '--records', '60000')
  assert.equal(code, 0, stdout + stderr)
  for (const step of ['append', 'roll', 'read', 'reopen', 'recover', 'delete', 'retain time', 'retain bytes', 'compact', 'validate']) {
    assert.match(stdout, new RegExp(`^${step} `, 'm'))
  }
  assert.equal((await cliIn(root, ['log', 'dump', 'smoke-0', '--data', data, '--batches'])).code, 0)
})

test('a folder that is not empty is refused, and is left alone', async () => {
  const path = join(root, 'mine')
  writeFileSync(path, 'mine')
  const { code, stderr } = await smoke('--data', root)
  assert.equal(code, 2)
  assert.match(stderr, /is not empty/)
})
