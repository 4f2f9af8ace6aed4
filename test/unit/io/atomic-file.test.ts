import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SeededRandom } from '../../../src/core/random.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { directoryOf, makeDirectoryDurably, readSmallFile, writeFileAtomically } from '../../../src/io/atomic-file.ts'
import { deferring } from '../../../src/io/completions.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'

describe('atomic files', () => {
  it('leave the old bytes or the new ones wherever the power goes, and the new ones once written', async () => {
    const seen = new Set<string>()
    for (let seed = 0; seed < 300; seed++) {
      const clock = new VirtualClock()
      const random = new SeededRandom(seed)
      const disk = new MemoryDisk({ clock, completions: deferring(clock) })
      const old = writeFileAtomically(disk, '/a', [Buffer.alloc(1500, 'o')])
      await clock.advance(0)
      await old
      let written = false
      const writing = writeFileAtomically(disk, '/a', [Buffer.alloc(700, 'n'), Buffer.alloc(1300, 'n')]).then(
        () => {
          written = true
        },
        // The power goes in the middle of it.
        () => {},
      )
      for (let steps = random.below(9); steps > 0; steps--) {
        clock.runDeferred()
        for (let i = 0; i < 10; i++) await Promise.resolve()
      }
      const wasWritten = written
      const after = disk.powerCut(random, {}, { clock: new VirtualClock() })
      const bytes = (await readSmallFile(after, '/a', 4000))?.toString() ?? 'none'
      const which = bytes === 'o'.repeat(1500) ? 'old' : bytes === 'n'.repeat(2000) ? 'new' : 'mixed'
      seen.add(`${which}${wasWritten ? ' after the end' : ''}`)
      await clock.advance(0)
      await writing
    }
    assert.deepEqual([...seen].sort(), ['new', 'new after the end', 'old'])
  })

  it('replace what an earlier attempt left, and leave the old file when one fails', async () => {
    const disk = new MemoryDisk({ clock: new VirtualClock() })
    await writeFileAtomically(disk, '/a', [Buffer.from('good')])
    disk.fail({ operation: 'datasync', effect: { kind: 'error', code: 'EIO' } })
    await assert.rejects(writeFileAtomically(disk, '/a', [Buffer.from('a longer text')]), { code: 'EIO' })
    assert.equal(disk.peek('/a')?.toString(), 'good')
    await writeFileAtomically(disk, '/a', [Buffer.from('short')])
    assert.equal(disk.peek('/a')?.toString(), 'short')
  })

  it('are read within a bound that is checked first', async () => {
    const disk = new MemoryDisk({ clock: new VirtualClock() })
    assert.equal(await readSmallFile(disk, '/a', 10), null)
    await writeFileAtomically(disk, '/a', [Buffer.alloc(11)])
    await assert.rejects(readSmallFile(disk, '/a', 10), { code: 'DATA_DAMAGED' })
    assert.equal(disk.counters().readBytes, 0)
    assert.equal((await readSmallFile(disk, '/a', 11))?.length, 11)
    await assert.rejects(readSmallFile(disk, '/', 11), { code: 'EISDIR' })
  })

  it('stand in directories that survive too', async () => {
    const disk = new MemoryDisk({ clock: new VirtualClock() })
    await makeDirectoryDurably(disk, '/data/a/b')
    await makeDirectoryDurably(disk, '/data/a/b')
    await makeDirectoryDurably(disk, '/')
    const after = disk.powerCut(new SeededRandom(1), { writes: 'none', names: 'none' })
    assert.equal((await after.stat('/data/a/b'))?.kind, 'directory')
    assert.equal(directoryOf('/a/b'), '/a')
    assert.equal(directoryOf('/a'), '/')
  })
})
