import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import type { FailpointName } from '../../../src/core/failpoint.ts'
import { FailpointDisk, failpointFor } from '../../../src/io/failpoints.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'

test('the process dies the nth time that a moment comes, and only then', () => {
  const deaths: number[] = []
  let turn = 0
  const failpoint = failpointFor([{ name: 'checkpoint.written', nth: 3, errorCode: null }], () => void deaths.push(turn))
  for (turn = 1; turn <= 5; turn++) {
    failpoint('checkpoint.written')
    failpoint('recovery.cut')
  }
  assert.deepEqual(deaths, [3])
})

test('a step fails with the error of the system that was asked for', () => {
  const failpoint = failpointFor([{ name: 'recovery.cut', nth: 1, errorCode: 'EIO' }])
  assert.throws(() => failpoint('recovery.cut'), { code: 'EIO', syscall: 'recovery.cut' })
  failpoint('recovery.cut')
})

test('a disk tells of what is renamed and removed', async () => {
  const told: FailpointName[] = []
  const memory = new MemoryDisk({ clock: new SystemClock() })
  const disk = new FailpointDisk(memory, (name) => void told.push(name))
  await disk.makeDirectory('/a')
  await (await disk.open('/a/f.tmp', 'create')).close()
  await disk.rename('/a/f.tmp', '/a/f')
  await disk.removeFile('/a/missing')
  assert.deepEqual(told, ['file.written', 'file.renamed'])
  await disk.removeFile('/a/f')
  await disk.rename('/a', '/b')
  assert.deepEqual(told.slice(2), ['file.removed', 'folder.renamed'])
  assert.deepEqual(await disk.list('/'), [{ name: 'b', kind: 'directory' }])
})
