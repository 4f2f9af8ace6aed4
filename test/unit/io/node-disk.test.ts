import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { NodeDisk } from '../../../src/io/node-disk.ts'

const LIMITED = `
import { NodeDisk } from ${JSON.stringify(new URL('../../../src/io/node-disk.js', import.meta.url).href)}
process.on('SIGXFSZ', () => {})
const file = await new NodeDisk({ poolSize: 4 }).open(process.argv[1], 'write')
const parts = [Buffer.alloc(3000, 1), Buffer.alloc(3000, 2), Buffer.alloc(3000, 3)]
for (const write of [() => file.writeNow(parts, 0), () => file.write(parts, 0)]) {
  try { await write(); console.log('no error') } catch (error) { console.log(error.code, error.path === process.argv[1], file.sizeBytes) }
}
`

describe('NodeDisk', () => {
  it('names the file in an error of a full device', {
    skip: existsSync('/dev/full') ? false : 'this system has no /dev/full',
  }, async () => {
    const file = await new NodeDisk({ poolSize: 1 }).open('/dev/full', 'write')
    assert.throws(() => file.writeNow([Buffer.from('x')], 0), { code: 'ENOSPC', path: '/dev/full' })
    await assert.rejects(file.write([Buffer.from('x'), Buffer.from('y')], 0), { code: 'ENOSPC', path: '/dev/full' })
    assert.equal(file.sizeBytes, 0)
    await file.close()
  })

  it('lists a folder in which links lead to each other', {
    skip: process.platform === 'win32' ? 'making links needs a privilege' : false,
  }, async () => {
    const base = await mkdtemp(join(tmpdir(), 'moonmq-links-'))
    try {
      await symlink(join(base, 'b'), join(base, 'a'))
      await symlink(join(base, 'a'), join(base, 'b'))
      const entries = await new NodeDisk({ poolSize: 1 }).list(base)
      assert.deepEqual(entries, [
        { name: 'a', kind: 'file' },
        { name: 'b', kind: 'file' },
      ])
    } finally {
      await rm(base, { recursive: true, force: true })
    }
  })

  it('refuses a pipe in the place of a file at once', { skip: process.platform === 'win32' ? 'needs mkfifo' : false }, async () => {
    const base = await mkdtemp(join(tmpdir(), 'moonmq-pipe-'))
    try {
      const path = join(base, 'pipe')
      execFileSync('mkfifo', [path])
      const disk = new NodeDisk({ poolSize: 1 })
      for (const access of ['read', 'write'] as const) {
        await assert.rejects(disk.open(path, access), { code: 'ESPIPE', path })
        assert.throws(() => disk.openNow(path, access), { code: 'ESPIPE', path })
      }
    } finally {
      await rm(base, { recursive: true, force: true })
    }
  })

  it('goes on after a short write, to the end or to the error behind it', {
    skip: process.platform === 'win32' ? 'needs ulimit' : false,
  }, async () => {
    const base = await mkdtemp(join(tmpdir(), 'moonmq-short-'))
    try {
      // The shell's unit is 512 bytes: the system cuts the write at 4096 and refuses the rest.
      const run = `ulimit -f 8; exec "$0" --input-type=module -e "$1" "$2"`
      // A run that collects coverage would have the child write its own report under the same limit.
      const env = { ...process.env, NODE_V8_COVERAGE: '' }
      const argv = ['-c', run, process.execPath, LIMITED, join(base, 'a')]
      const out = execFileSync('sh', argv, { encoding: 'utf8', timeout: 20_000, env })
      assert.equal(out, 'EFBIG true 4096\nEFBIG true 4096\n')
    } finally {
      await rm(base, { recursive: true })
    }
  })

  it('follows links to what they lead to, and shows those that lead nowhere', async () => {
    const base = await mkdtemp(join(tmpdir(), 'moonmq-links-'))
    try {
      await symlink(base, join(base, 'dir'))
      await symlink(join(base, 'nowhere'), join(base, 'lost'))
      assert.deepEqual(await new NodeDisk({ poolSize: 4 }).list(base), [
        { name: 'dir', kind: 'directory' },
        { name: 'lost', kind: 'file' },
      ])
    } finally {
      await rm(base, { recursive: true })
    }
  })
})
