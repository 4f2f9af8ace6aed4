import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { CliContext } from '../../../src/cli/context.ts'
import { EXIT, run } from '../../../src/cli/main.ts'

/** Runs a command with the working folder `cwd`; what it writes is kept. */
async function call(cwd: string, ...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const written = { out: '', err: '' }
  const context: CliContext = {
    out: (text) => {
      written.out += text
    },
    err: (text) => {
      written.err += text
    },
    stdin: Readable.from([]),
    stdinIsTerminal: false,
    errIsTerminal: false,
    colour: false,
    env: { MOONMQ_LOGGING__LOG_TO_STDERR: 'false' },
    cwd,
    signal: new AbortController().signal,
  }
  return { code: await run(context, argv), ...written }
}

test('what the system refuses is said in words with the place, never as an internal error', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-cli-'))
  const taken = createServer().listen(0, '127.0.0.1')
  try {
    await new Promise((resolve) => taken.once('listening', resolve))
    const { port } = taken.address() as { port: number }
    const file = join(folder, 'file')
    await writeFile(file, '')
    const start = (...argv: string[]) => call(folder, 'start', '--http', 'off', '--memory', '--listen', '127.0.0.1:0', ...argv)
    const cases: [{ code: number; out: string; err: string }, number, RegExp][] = [
      [await call(folder, 'config', '--config', folder), EXIT.usage, /moonmq-cli-.* cannot be read: it is a directory \(EISDIR\)/],
      [await start('--ready-file', join(folder, 'none', 'ready')), EXIT.usage, /ready cannot be written: it does not exist \(ENOENT\)/],
      [await start('--listen', `127.0.0.1:${port}`), EXIT.usage, /cannot listen on 127\.0\.0\.1:\d+ .*the address is in use/],
      [await call(folder, 'start', '--data', join(file, 'data'), '--listen', '127.0.0.1:0'), EXIT.failed, /file.*: it is not a directory/],
    ]
    for (const [{ code, out, err }, expected, words] of cases) {
      assert.match(err, words)
      assert.doesNotMatch(err, /internal/i)
      assert.deepEqual([code, out], [expected, ''])
    }
  } finally {
    taken.close()
    await rm(folder, { recursive: true })
  }
})
