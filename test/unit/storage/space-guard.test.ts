import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { SpaceGuard } from '../../../src/storage/space-guard.ts'
import { type RecordedLine, recordingLogger } from '../../support/storage.ts'

const MIB = 1024 * 1024
const RESERVE = '/data/moonmq-reserve'

async function guarded(capacityBytes: number) {
  const clock = new VirtualClock()
  const disk = new MemoryDisk({ clock }, { capacityBytes })
  await disk.makeDirectory('/data')
  const lines: RecordedLine[] = []
  const guard = await SpaceGuard.open({ disk, clock, log: recordingLogger(lines) }, { dataFolder: '/data' })
  const fill = async (bytes: number) => {
    const file = await disk.open('/data/fill', 'write')
    await file.truncate(0)
    if (bytes > 0) await file.write([Buffer.alloc(bytes)], 0)
    await file.close()
  }
  return { clock, disk, guard, fill, events: () => lines.map(({ event }) => event) }
}

test('a volume without a limit is not guarded', async () => {
  const { guard, disk } = await guarded(Number.POSITIVE_INFINITY)
  assert.ok(guard.admit(1e12, false))
  assert.equal(disk.peek(RESERVE), null)
  await guard.close()
})

test('what was appended counts at once: no burst gets into the part that is kept', async () => {
  const { guard } = await guarded(64 * MIB)
  const batch = 256 * 1024
  let admitted = 0
  // Nothing is awaited here, so the volume cannot be looked at again.
  while (guard.admit(batch, false)) admitted += batch
  assert.ok(admitted > 50 * MIB && admitted <= 60 * MIB, `${admitted} of 64 MiB, of which a sixteenth is kept`)
  assert.ok(guard.admit(batch, true), 'what the broker needs goes on')
  await guard.close()
})

test('records are taken again once there is clearly more than is kept', async () => {
  const { guard, fill, clock, events } = await guarded(64 * MIB)
  await fill(61 * MIB)
  await clock.advance(10_000)
  assert.ok(guard.isLow && !guard.admit(1, false) && guard.admit(1, true))
  await fill(58.5 * MIB)
  await clock.advance(1000)
  assert.ok(guard.isLow, 'a little more than the limit is not enough')
  await fill(40 * MIB)
  await clock.advance(1000)
  assert.ok(!guard.isLow && guard.admit(1, false))
  assert.deepEqual(events(), ['storage.space_low', 'storage.space_back'])
  await guard.close()
})

test('the reserve is given up on a disk that is full to the brim, and made again', async () => {
  const { guard, fill, clock, disk, events } = await guarded(64 * MIB)
  assert.equal(disk.peek(RESERVE)?.length, MIB)
  await fill(62.5 * MIB)
  await guard.makeRoom()
  assert.equal(disk.peek(RESERVE), null)
  assert.ok(guard.freeBytes >= MIB)
  assert.deepEqual(events(), ['storage.reserve_given_up', 'storage.space_low'])
  await fill(0)
  await clock.advance(1000)
  assert.equal(disk.peek(RESERVE)?.length, MIB)
  await guard.close()
})
