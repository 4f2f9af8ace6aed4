import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'

const newDisk = () => new MemoryDisk({ clock: new VirtualClock() })

describe('planted faults', () => {
  it('hit the nth matching operation, as often as told, until taken away', async () => {
    const disk = newDisk()
    const log = await disk.open('/x.log', 'write')
    const index = await disk.open('/x.index', 'write')
    const remove = disk.fail({ operation: 'write', path: '.log', nth: 2, times: 2, effect: { kind: 'error', code: 'EIO' } })
    const write = () => log.writeNow([Buffer.from('1')], 0)
    write()
    index.writeNow([Buffer.from('1')], 0)
    assert.throws(write, { code: 'EIO', path: '/x.log' })
    await assert.rejects(log.write([Buffer.from('1')], 0), { code: 'EIO' })
    write()
    remove()
    disk.fail({ operation: 'datasync', path: /\.index$/, times: Number.POSITIVE_INFINITY, effect: { kind: 'error', code: 'ENOSPC' } })
    await log.datasync()
    await assert.rejects(index.datasync(), { code: 'ENOSPC' })
    await assert.rejects(index.datasync(), { code: 'ENOSPC' })
    disk.clearFaults()
    await index.datasync()
  })

  it('hit every operation of the disk', async () => {
    const disk = newDisk()
    await disk.makeDirectory('/d')
    const file = await disk.open('/d/a', 'write')
    const every = {
      open: () => disk.open('/d/a', 'read'),
      stat: () => disk.stat('/d/a'),
      list: () => disk.list('/d'),
      makeDirectory: () => disk.makeDirectory('/d/sub'),
      rename: () => disk.rename('/d/a', '/d/b'),
      removeFile: () => disk.removeFile('/d/a'),
      removeTree: () => disk.removeTree('/d'),
      syncDirectory: () => disk.syncDirectory('/d'),
      read: () => file.read(Buffer.alloc(1), 0),
      write: () => file.write([Buffer.alloc(1)], 0),
      datasync: () => file.datasync(),
      truncate: () => file.truncate(0),
      close: () => file.close(),
    } as const
    for (const [operation, run] of Object.entries(every) as [keyof typeof every, () => Promise<unknown>][]) {
      disk.fail({ operation, path: '/d', effect: { kind: 'error', code: 'EMFILE' } })
      await assert.rejects(run(), { code: 'EMFILE' }, operation)
    }
    assert.deepEqual(await disk.list('/d'), [{ name: 'a', kind: 'file' }])
    disk.fail({ operation: 'open', effect: { kind: 'error', code: 'EMFILE' } })
    assert.throws(() => disk.openNow('/d/a', 'read'), { code: 'EMFILE' })
  })

  it('write short, lose writes, and flip bits at rest or on the way', async () => {
    const disk = newDisk()
    const file = await disk.open('/a', 'write')
    disk.fail({ operation: 'write', effect: { kind: 'shortWrite', keepBytes: 4 } })
    assert.throws(() => file.writeNow([Buffer.from('abc'), Buffer.from('def')], 0), { code: 'ENOSPC' })
    assert.equal(disk.peek('/a')?.toString(), 'abcd')
    assert.equal(file.sizeBytes, 4)
    disk.fail({ operation: 'write', effect: { kind: 'lostWrite' } })
    file.writeNow([Buffer.from('efgh')], 4)
    file.writeNow([Buffer.from('ijkl')], 8)
    assert.equal(disk.peek('/a')?.toString(), 'abcd\0\0\0\0ijkl')
    const source = Buffer.from('zz')
    disk.fail({ operation: 'write', effect: { kind: 'bitFlip', bit: 9 } })
    file.writeNow([source], 0)
    assert.deepEqual([...(disk.peek('/a') ?? [])].slice(0, 2), [0x7a, 0x7a ^ 2])
    assert.equal(source.toString(), 'zz')
    disk.fail({ operation: 'read', effect: { kind: 'bitFlip', bit: 0 } })
    const target = Buffer.alloc(1)
    file.readNow(target, 2)
    assert.equal(target[0], 0x63 ^ 1)
    file.readNow(target, 2)
    assert.equal(target[0], 0x63)
    disk.corrupt('/a', 2, 0x80)
    file.readNow(target, 2)
    assert.equal(target[0], 0x63 ^ 0x80)
  })

  it('count operations and bytes by path', async () => {
    const disk = newDisk()
    const file = await disk.open('/a.log', 'write')
    await file.write([Buffer.alloc(10), Buffer.alloc(5)], 0)
    await file.read(Buffer.alloc(100), 3)
    await file.datasync()
    const other = await disk.open('/b.index', 'write')
    other.writeNow([Buffer.alloc(7)], 0)
    assert.deepEqual(disk.counters('.log'), { opens: 1, reads: 1, readBytes: 12, writes: 1, writtenBytes: 15, syncs: 1 })
    assert.equal(disk.counters(/index$/).writtenBytes, 7)
    assert.equal(disk.counters().writtenBytes, 22)
    disk.resetCounters()
    assert.equal(disk.counters().opens, 0)
  })
})
