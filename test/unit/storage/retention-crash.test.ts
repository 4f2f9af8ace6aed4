import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FailpointName } from '../../../src/core/failpoint.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { HOUR_MS, RetentionWorld, SteppedClock } from '../../support/retention.ts'
import { readAll } from '../../support/storage.ts'

/** A life in which every step of retention happens: by time, by bytes, by start, of all there is, with files that wait and that go. */
async function live(world: RetentionWorld): Promise<void> {
  for (let index = 0; index < 4; index++) await world.put()
  await world.manager.checkpoint()
  world.log.advanceLogStart(2)
  await world.pass()
  await world.put()
  world.log.reconfigure({ ...world.log.config, retentionBytes: 200 })
  await world.live(10 * 60_000)
  await world.live(HOUR_MS)
  await world.put()
  await world.live(2 * HOUR_MS)
  await world.close()
}

interface Cut {
  readonly name: FailpointName
  readonly survivor: MemoryDisk
  readonly stored: number
  readonly boot: string
  readonly clock: SteppedClock
}

/** Lives until the `nth` moment, where the power goes or the process dies. Null: there are not so many moments. */
async function cutAt(nth: number, kind: 'power' | 'kill', seed: number): Promise<Cut | null> {
  const clock = new SteppedClock()
  const disk = new MemoryDisk({ clock })
  let seen = 0
  let stored = 0
  let world: RetentionWorld | null = null
  let cut: { name: FailpointName; survivor: MemoryDisk } | null = null
  const failpoint = (name: FailpointName) => {
    if (cut !== null) throw new Error('it is over')
    if (world !== null) stored = world.log.durableOffset
    if (seen++ !== nth) return
    cut = { name, survivor: kind === 'power' ? disk.powerCut(new SeededRandom(seed)) : disk.processKilled() }
    throw new Error('it is over')
  }
  try {
    world = await RetentionWorld.open({ clock, disk, failpoint })
    await live(world)
  } catch (error) {
    if (cut === null) throw error
  }
  const made = cut as { name: FailpointName; survivor: MemoryDisk } | null
  return made === null ? null : { ...made, stored, clock, boot: kind === 'power' ? 'boot-2' : 'boot-1' }
}

for (const kind of ['power', 'kill'] as const) {
  test(`${kind === 'power' ? 'a power cut' : 'a kill'} at each step of retention leaves a log that is whole, and that retention goes on with`, async () => {
    const reached = new Set<string>()
    for (let nth = 0; ; nth++) {
      const cut = await cutAt(nth, kind, nth)
      if (cut === null) break
      reached.add(cut.name)
      const where = `moment ${nth}, ${cut.name}`
      const world = await RetentionWorld.open({ disk: cut.survivor, clock: cut.clock, boot: cut.boot })
      const bad = world.lines.filter((line) => line.level === 'error' || line.event === 'storage.stray')
      assert.deepEqual(bad, [], where)
      const { log } = world
      assert.ok(log.logEndOffset >= cut.stored, `${where}: ends at ${log.logEndOffset}, ${cut.stored} was durable`)
      let next = log.logStartOffset
      for (const [first, last] of await readAll(log)) {
        assert.equal(first, next, where)
        next = last + 1
      }
      assert.equal(next, log.logEndOffset, where)
      await world.put()
      await world.live(3 * HOUR_MS)
      await world.manager.removed()
      assert.deepEqual([log.logStartOffset, log.sizeBytes], [log.logEndOffset, 0], where)
      const names = await world.names()
      assert.deepEqual(names.filter((name) => name.endsWith('.log')).length, 1, `${where}: ${names}`)
      assert.deepEqual(
        names.filter((name) => name.endsWith('.deleted')),
        [],
        where,
      )
      await world.close()
    }
    for (const name of [
      'retention.started',
      'checkpoint.log-starts-written',
      'log.roll.files-made',
      'segment.remove.log-renamed',
      'segment.remove.renamed',
      'segment.remove.log-removed',
      'retention.clock-written',
    ]) {
      assert.ok(reached.has(name), `${name} was reached`)
    }
  })
}

test('on a full disk the log starts cannot be saved, and old segments go all the same', async () => {
  for (const kind of ['goes on', 'power'] as const) {
    let seen: FailpointName | null = null
    let survivor: MemoryDisk | null = null
    const clock = new SteppedClock()
    const disk = new MemoryDisk({ clock })
    const failpoint = (name: FailpointName) => {
      if (name !== 'segment.remove.emptied') return
      seen = name
      if (kind === 'power') {
        survivor = disk.powerCut(new SeededRandom(7))
        throw new Error('it is over')
      }
    }
    const world = await RetentionWorld.open({ clock, disk, failpoint })
    for (let index = 0; index < 5; index++) await world.put()
    await world.log.idle()
    const full = disk.fail({ operation: 'write', times: Number.POSITIVE_INFINITY, effect: { kind: 'error', code: 'ENOSPC' } })
    world.log.reconfigure({ ...world.log.config, retentionBytes: 200 })
    const usedBytes = disk.usedBytes
    await world.clock.advance(1000)
    await world.pass().catch((error: unknown) => {
      if (survivor === null) throw error
    })
    assert.equal(seen, 'segment.remove.emptied')
    if (kind === 'goes on') {
      assert.ok(disk.usedBytes < usedBytes, 'there is room without a byte written')
      full()
      await world.manager.checkpoint()
      await world.manager.removed()
      assert.deepEqual(
        (await world.names()).filter((name) => name.endsWith('.deleted')),
        [],
      )
      await world.close()
      continue
    }
    const again = await RetentionWorld.open({ clock, disk: survivor as unknown as MemoryDisk, boot: 'boot-2' })
    assert.deepEqual(
      again.lines.filter((line) => line.level === 'error'),
      [],
    )
    assert.equal(again.log.logEndOffset, 5)
    assert.equal((await readAll(again.log)).length, 5 - again.log.logStartOffset)
    await again.close()
  }
})
