import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Failpoint } from '../../../src/core/failpoint.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { systemError } from '../../../src/io/system-error.ts'
import { IN_PROCESS_ONLY } from '../../support/failpoint-plan.ts'
import { appendTo, type LogHarness, openHarness, readAll } from '../../support/storage.ts'

const CONFIG = { segmentBytes: 300, indexIntervalBytes: 0 }
const RECORDS = 12
/** The truncation cuts here: within a segment, with whole ones on both sides. */
const CUT = 5

interface Scenario {
  readonly act: (harness: LogHarness) => Promise<unknown>
  /** First and last record that must be there afterwards. */
  readonly first: number
  readonly last: number
}

const truncates: Scenario = { act: ({ log }) => log.truncateTo(CUT), first: 0, last: CUT - 1 }

/** Each moment that no request of one broker comes to, and what comes to it. */
const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'checkpoint.lowered': truncates,
  'log.truncate.segment-removed': truncates,
  'log.truncate.cut': truncates,
  'segment.remove.emptied': {
    act: async ({ log, disk }) => {
      disk.fail({ operation: 'write', times: Number.POSITIVE_INFINITY, effect: { kind: 'error', code: 'ENOSPC' } })
      log.advanceLogStart(CUT)
      await log.deleteBelow(CUT, { isStartSaved: false })
    },
    first: CUT,
    last: RECORDS - 1,
  },
  'log.reopen.epoch-raised': {
    act: async ({ log, disk }) => {
      disk.fail({ operation: 'write', path: '.log', effect: { kind: 'error', code: 'ENOSPC' } })
      appendTo(log, ['refused'])
    },
    first: 0,
    last: RECORDS - 1,
  },
}

test('every moment that only a log of its own comes to has a scenario', () => {
  // The journal needs several logs: `journal-crash.test.ts`.
  const others = [...IN_PROCESS_ONLY].filter((name) => !name.startsWith('journal.') && !name.startsWith('compaction.'))
  assert.deepEqual(Object.keys(SCENARIOS).sort(), others.sort())
})

for (const [name, { act, first, last }] of Object.entries(SCENARIOS)) {
  for (const way of ['the power goes', 'the process dies'] as const) {
    test(`${way} at ${name}`, async () => {
      const clock = new VirtualClock()
      const disk = new MemoryDisk({ clock })
      let survivor: MemoryDisk | null = null
      const failpoint: Failpoint = (each) => {
        if (each !== name || survivor !== null) return
        survivor = way === 'the power goes' ? disk.powerCut(new SeededRandom(7), {}, { clock }) : disk.processKilled({ clock })
        throw systemError('EIO', name, undefined, 'the end')
      }
      const manager = { nextLeaderEpoch: async () => 1 }
      const harness = await openHarness({ disk, clock, failpoint, config: CONFIG, manager })
      for (let record = 0; record < RECORDS; record++) {
        appendTo(harness.log, [`record ${record} ${'.'.repeat(50)}`])
        await clock.advance(0)
      }
      await harness.manager.checkpoint()
      act(harness).catch(() => {
        // The step fails, as it has to.
      })
      // The attempt to open the log again comes with a timer.
      for (let turn = 0; turn < 50 && survivor === null; turn++) await clock.advance(1000)
      assert.ok(survivor !== null, 'the moment came')

      const boot = way === 'the power goes' ? 'boot-2' : 'boot-1'
      const after = await openHarness({ disk: survivor, clock, config: CONFIG, boot, manager })
      const read = (await readAll(after.log)).map(([offset]) => offset)
      for (let offset = first; offset <= last; offset++) assert.ok(read.includes(offset), `offset ${offset} of ${read.join(' ')}`)
      const end = after.log.logEndOffset
      appendTo(after.log, ['it goes on'], { epoch: 1 })
      await clock.advance(0)
      assert.equal(after.log.highWatermark, end + 1)
      await after.manager.close()
    })
  }
}

test('the power goes while recovery removes the segments behind a torn one', async () => {
  const clock = new VirtualClock()
  let disk = new MemoryDisk({ clock })
  const { log } = await openHarness({ disk, clock, config: CONFIG })
  const sizes: number[] = []
  for (let record = 0; record < RECORDS; record++) {
    appendTo(log, [`record ${record} ${'.'.repeat(50)}`])
    await clock.advance(0)
    sizes.push(log.segmentCount)
  }
  disk = disk.powerCut(new SeededRandom(1), {}, { clock })
  const [, second = ''] = (await disk.list('/data/t-0')).map(({ name }) => name).filter((name) => name.endsWith('.log'))
  disk.corrupt(`/data/t-0/${second}`, 70)
  let deaths = 0
  for (let boot = 2; boot < 10; boot++) {
    let survivor: MemoryDisk | null = null
    const failpoint: Failpoint = (name) => {
      if (name !== 'segment.remove.log-removed' || survivor !== null) return
      survivor = disk.powerCut(new SeededRandom(boot), {}, { clock })
      deaths++
      throw systemError('EIO', name, undefined, 'the end')
    }
    const opened = await openHarness({ disk, clock, config: CONFIG, boot: `boot-${boot}`, failpoint }).catch(() => null)
    if (survivor === null) {
      assert.ok(opened !== null)
      assert.equal(opened.log.logEndOffset, Number.parseInt(second, 10), 'the log ends where the torn segment began')
      assert.ok(deaths > 0, `with ${sizes.at(-1)} segments some had to go`)
      return
    }
    disk = survivor
  }
  assert.fail('the recovery never came to its end')
})
