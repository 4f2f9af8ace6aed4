import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { deferred } from '../../../src/core/deferred.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import type { Disk } from '../../../src/io/disk.ts'
import { MemoryDisk, type MemoryDiskOptions } from '../../../src/io/memory-disk.ts'

const NONE = { writes: 'none', names: 'none' } as const
const ALL = { writes: 'all', names: 'all' } as const

function newDisk(options: MemoryDiskOptions = {}): MemoryDisk {
  return new MemoryDisk({ clock: new VirtualClock() }, options)
}

async function put(disk: Disk, path: string, content: string, sync = true): Promise<void> {
  const file = await disk.open(path, 'write')
  file.writeNow([Buffer.from(content)], 0)
  if (sync) await file.datasync()
  await file.close()
}

describe('power cut of a memory disk: bytes', () => {
  it('keeps what was synced and forgets the rest', async () => {
    const disk = newDisk()
    const file = await disk.open('/a', 'create')
    await disk.syncDirectory('/')
    file.writeNow([Buffer.from('synced')], 0)
    await file.datasync()
    file.writeNow([Buffer.from(' lost')], 6)
    await file.truncate(3)
    const after = disk.powerCut(new SeededRandom(1), NONE)
    assert.equal(after.peek('/a')?.toString(), 'synced')
    const again = after.powerCut(new SeededRandom(1), NONE)
    assert.equal(again.peek('/a')?.toString(), 'synced')
  })

  it('can also keep everything', async () => {
    const disk = newDisk()
    const file = await disk.open('/a', 'create')
    file.writeNow([Buffer.from('abcdef')], 0)
    await file.truncate(3)
    assert.equal(disk.powerCut(new SeededRandom(1), ALL).peek('/a')?.toString(), 'abc')
  })

  it('covers with a sync what was written before it was asked for, once it ends', async () => {
    const arrivals: (() => void)[] = []
    const arrive = () => new Promise<void>((resolve) => arrivals.push(resolve))
    const disk = new MemoryDisk({ clock: new VirtualClock(), completions: { arrive } })
    const file = disk.openNow('/a', 'write')
    const directory = disk.syncDirectory('/')
    arrivals.shift()?.()
    await directory
    file.writeNow([Buffer.from('one')], 0)
    const sync = file.datasync()
    file.writeNow([Buffer.from('two')], 3)
    arrivals.shift()?.()
    await sync
    const pending = assert.rejects(file.datasync(), { code: 'EIO' })
    const after = disk.powerCut(new SeededRandom(1), NONE, { clock: new VirtualClock() })
    assert.equal(after.peek('/a')?.toString(), 'one')
    arrivals.shift()?.()
    await pending
    assert.equal(after.peek('/a')?.toString(), 'one')
  })

  it('keeps any subset of unsynced writes, and tears at sectors of the file', async () => {
    const seen = new Set<string>()
    let torn = 0
    for (let seed = 0; seed < 400; seed++) {
      const disk = newDisk()
      const file = await disk.open('/a', 'create')
      await disk.syncDirectory('/')
      for (let i = 0; i < 3; i++) file.writeNow([Buffer.alloc(1000, 0x61 + i)], i * 1000)
      const bytes = disk.powerCut(new SeededRandom(seed)).peek('/a') ?? Buffer.alloc(0)
      let pattern = ''
      for (let i = 0; i < 3; i++) {
        const part = bytes.subarray(i * 1000, (i + 1) * 1000)
        const kept = part.filter((byte) => byte === 0x61 + i).length
        pattern += kept === 1000 ? 'k' : kept === 0 ? '-' : 't'
        for (const [at, byte] of part.entries()) {
          assert.ok(byte === 0 || byte === 0x61 + i)
          const position = i * 1000 + at
          if (at > 0 && byte !== part[at - 1]) assert.equal(position % 512, 0)
        }
      }
      seen.add(pattern)
      if (pattern.includes('t')) torn++
      assert.ok(pattern.split('t').length <= 2, 'at most one write is torn')
    }
    for (const pattern of ['kkk', '---', 'k--', '-k-', '--k', 'kk-', 'k-k', '-kk']) assert.ok(seen.has(pattern), pattern)
    assert.ok(torn > 50)
  })

  it('draws the same from the same seed', async () => {
    const run = async (seed: number) => {
      const disk = newDisk()
      for (const name of ['b', 'a', 'c']) await put(disk, `/${name}`, name.repeat(2000), false)
      const after = disk.powerCut(new SeededRandom(seed))
      return (await after.list('/')).map(({ name }) => `${name}:${after.peek(`/${name}`)?.toString('base64')}`).join()
    }
    const outcomes = new Set<string>()
    for (let seed = 0; seed < 20; seed++) {
      const outcome = await run(seed)
      assert.equal(await run(seed), outcome)
      outcomes.add(outcome)
    }
    assert.ok(outcomes.size > 5)
  })

  it('makes nothing durable after a failed sync, whatever later syncs report', async () => {
    const disk = newDisk()
    const file = await disk.open('/a', 'create')
    await disk.syncDirectory('/')
    file.writeNow([Buffer.from('aaa')], 0)
    disk.fail({ operation: 'datasync', effect: { kind: 'failedSync' } })
    await assert.rejects(file.datasync(), { code: 'EIO' })
    file.writeNow([Buffer.from('bbb')], 3)
    await file.datasync()
    assert.equal(disk.peek('/a')?.toString(), 'aaabbb')
    assert.equal(disk.powerCut(new SeededRandom(1), ALL).peek('/a')?.toString(), '\0\0\0bbb')
  })
})

describe('power cut of a memory disk: names', () => {
  it('forgets a synced file whose name was not synced', async () => {
    const disk = newDisk()
    await disk.makeDirectory('/d')
    await put(disk, '/d/a', 'x')
    await disk.syncDirectory('/d')
    assert.equal(await disk.powerCut(new SeededRandom(1), NONE).stat('/d'), null)
    const other = newDisk()
    await other.makeDirectory('/d')
    await other.syncDirectory('/')
    await put(other, '/d/a', 'x')
    const after = other.powerCut(new SeededRandom(1), NONE)
    assert.deepEqual(await after.list('/d'), [])
  })

  it('keeps the old file or the new one when a rename was not synced', async () => {
    const seen = new Set<string>()
    for (let seed = 0; seed < 60; seed++) {
      const disk = newDisk()
      await put(disk, '/a', 'old')
      await disk.syncDirectory('/')
      await put(disk, '/a.tmp', 'new')
      await disk.rename('/a.tmp', '/a')
      const after = disk.powerCut(new SeededRandom(seed))
      const names = (await after.list('/')).map(({ name }) => name).join()
      seen.add(`${names}=${after.peek('/a')}`)
    }
    assert.deepEqual([...seen].sort(), ['a,a.tmp=old', 'a=new', 'a=old'])
  })

  it('makes a rename durable with either directory, and never shows a file twice', async () => {
    for (const synced of ['/d', '/e']) {
      const disk = newDisk()
      await disk.makeDirectory('/d')
      await disk.makeDirectory('/e')
      await disk.syncDirectory('/')
      await put(disk, '/d/a', 'x')
      await disk.rename('/d/a', '/e/b')
      await disk.syncDirectory(synced)
      const after = disk.powerCut(new SeededRandom(1), NONE)
      assert.deepEqual(await after.list('/d'), [])
      assert.equal(after.peek('/e/b')?.toString(), 'x')
    }
  })

  it('keeps or revives removed files and trees', async () => {
    const seen = new Set<string>()
    for (let seed = 0; seed < 60; seed++) {
      const disk = newDisk()
      await disk.makeDirectory('/d')
      await put(disk, '/d/a', 'a')
      await put(disk, '/d/b', 'b')
      await disk.syncDirectory('/d')
      await disk.syncDirectory('/')
      await disk.removeTree('/d')
      const after = disk.powerCut(new SeededRandom(seed))
      seen.add((await after.stat('/d')) === null ? 'gone' : (await after.list('/d')).map(({ name }) => name).join())
    }
    assert.deepEqual([...seen].sort(), ['', 'a', 'a,b', 'b', 'gone'])
    const disk = newDisk()
    await put(disk, '/a', 'a')
    await disk.syncDirectory('/')
    await disk.removeFile('/a')
    assert.equal(disk.powerCut(new SeededRandom(1), NONE).peek('/a')?.toString(), 'a')
  })
})

describe('memory disk: the process above it', () => {
  it('keeps written bytes for the next process, and still not on the platter', async () => {
    const disk = newDisk()
    const file = await disk.open('/a', 'create')
    file.writeNow([Buffer.from('abc')], 0)
    const next = disk.processKilled()
    assert.equal(next.peek('/a')?.toString(), 'abc')
    assert.throws(() => file.writeNow([Buffer.from('late')], 0))
    await assert.rejects(disk.open('/b', 'write'), { code: 'EIO' })
    await assert.rejects(disk.list('/'), { code: 'EIO' })
    assert.deepEqual(await next.list('/'), [{ name: 'a', kind: 'file' }])
    assert.equal(next.powerCut(new SeededRandom(1), NONE).peek('/a'), null)
  })

  it('fails what is under way when the power goes', async () => {
    const gate = deferred()
    const disk = new MemoryDisk({ clock: new VirtualClock(), completions: { arrive: () => gate.promise } })
    const opening = assert.rejects(disk.open('/a', 'write'), { code: 'EIO' })
    const after = disk.powerCut(new SeededRandom(1), ALL, { clock: new VirtualClock() })
    gate.resolve()
    await opening
    assert.deepEqual(await after.list('/'), [])
  })
})

describe('memory disk: space', () => {
  it('refuses what does not fit before it changes anything, and gives space back', async () => {
    const disk = newDisk({ capacityBytes: 1 << 20 })
    const file = await disk.open('/a', 'write')
    const part = Buffer.alloc(128 * 1024, 1)
    let size = 0
    assert.throws(
      () => {
        for (;;) {
          file.writeNow([part], size)
          size += part.length
        }
      },
      { code: 'ENOSPC', path: '/a' },
    )
    assert.equal(file.sizeBytes, size)
    assert.equal(disk.peek('/a')?.length, size)
    assert.ok(disk.usedBytes <= 1 << 20)
    await file.truncate(0)
    file.writeNow([part], 0)
    await disk.removeFile('/a')
    const held = disk.usedBytes
    await file.close()
    assert.ok(disk.usedBytes < held)
    assert.equal(disk.usedBytes, 0)
  })

  it('counts small files small, holes not at all, and names too', async () => {
    const disk = newDisk({ capacityBytes: 100_000 })
    for (let i = 0; i < 20; i++) await put(disk, `/f${i}`, 'tiny')
    assert.ok(disk.usedBytes < 20 * 2048)
    await assert.rejects(
      async () => {
        for (let i = 0; ; i++) await disk.makeDirectory(`/d${i}`)
      },
      { code: 'ENOSPC' },
    )
    const sparse = newDisk({ capacityBytes: 1 << 20 })
    const file = await sparse.open('/hole', 'write')
    file.writeNow([Buffer.from('x')], 1 << 30)
    assert.ok(sparse.usedBytes < 1 << 20)
    assert.throws(() => file.writeNow([Buffer.from('x')], 2 ** 45), { code: 'EFBIG' })
    assert.throws(() => file.writeNow([Buffer.from('x')], -1), { code: 'EFBIG' })
  })
})
