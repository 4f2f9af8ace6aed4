import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import type { EmbeddedBroker } from '../../src/index.ts'
import { startBroker } from '../../src/index.ts'
import type { DiskOperation } from '../../src/io/disk-faults.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { SETTINGS } from '../support/failpoint-plan.ts'
import { fillAndFree, promiseKept, STORAGE } from '../support/full-disk.ts'
import { byLane } from '../support/lane.ts'
import { Promises } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'

const MIB = 1024 * 1024
const DATA = '/moonmq-data'
let nextPid = 1

async function start(disk: MemoryDisk): Promise<EmbeddedBroker> {
  const pid = nextPid++
  const host = new FixedHost({ pid, processes: new Map([[pid, '1']]) })
  return startBroker({ port: 0, dataDir: DATA, machine: { disk, host }, config: SETTINGS })
}

/** The quick lane takes every fourth step. */
const isOfThisLane = (_: unknown, index: number) => index % byLane({ quick: 4, ci: 1, full: 1 }) === 0

test('O29: a volume of 16 MiB is filled: only records are refused, a topic is deleted, it goes on; a start on the full disk deletes nothing', async () => {
  let disk = new MemoryDisk({ clock: new SystemClock() }, { capacityBytes: 16 * MIB })
  let broker = await start(disk)
  await fillAndFree({
    address: () => broker.address,
    freeBytes: async () => (await disk.space(DATA)).freeBytes,
    async crash() {
      const next = disk.processKilled()
      await broker.close().catch(() => {
        // Its disk is gone.
      })
      disk = next
      broker = await start(disk)
    },
  })
  await broker.close()
})

test('somebody else fills the disk to the brim: the reserve lets topics be deleted, and all works again when there is space', async () => {
  const disk = new MemoryDisk({ clock: new SystemClock() }, { capacityBytes: 16 * MIB })
  await using broker = await start(disk)
  using kafka = await RawKafka.connect(broker.address)
  const promises = new Promises()
  await promises.begin(kafka)
  await promises.work(kafka, 12)
  await disk.makeDirectory('/other')
  const filler = await disk.open('/other/file', 'write')
  for (let size = MIB; size >= 512; size /= 2) {
    for (;;) {
      try {
        filler.writeNow([Buffer.alloc(Math.min(size, 128 * 1024))], filler.sizeBytes)
      } catch {
        break
      }
    }
  }
  const { freeBytes } = await disk.space('/')
  assert.ok(freeBytes < 128 * 1024, `${freeBytes} bytes are left`)
  assert.equal((await kafka.produce('plain', 0, [{ value: 'x'.repeat(300_000) }])).errorCode, STORAGE)
  await promises.check(kafka, { hasOffline: true })
  const deleted = await kafka.request('DeleteTopics', 5, { topicNames: ['again'], timeoutMs: 30_000 })
  assert.equal(deleted.responses[0]?.errorCode, 0)
  promises.deletedAgain()
  await filler.truncate(0)
  await filler.close()
  await promiseKept(kafka, promises)
})

/** Every step that writes, by the file that it writes. */
const STEPS: readonly { step: string; operation: DiskOperation; path: RegExp }[] = [
  { step: 'an append', operation: 'write', path: /plain-0\/.*\.log$/ },
  { step: 'the sync of an append', operation: 'datasync', path: /plain-0\/.*\.log$/ },
  { step: 'a roll', operation: 'open', path: /plain-0\/0*[1-9]\d*\.log$/ },
  { step: 'the names of a roll', operation: 'syncDirectory', path: /plain-0$/ },
  { step: 'the offset index', operation: 'write', path: /plain-0\/.*\.index$/ },
  { step: 'the time index', operation: 'open', path: /plain-0\/.*\.timeindex$/ },
  { step: 'the sync of an index', operation: 'datasync', path: /plain-0\/.*index$/ },
  { step: 'a producer snapshot', operation: 'write', path: /\.snapshot\.tmp$/ },
  { step: 'the rename of a snapshot', operation: 'rename', path: /\.snapshot/ },
  { step: 'an append to a compacted topic', operation: 'write', path: /keys-0\/.*\.log$/ },
  { step: 'an append to the offsets topic', operation: 'write', path: /__consumer_offsets-\d\/.*\.log$/ },
  { step: 'a roll of the offsets topic', operation: 'open', path: /__consumer_offsets-\d\/0*[1-9]\d*\.log$/ },
  { step: 'the leader epochs', operation: 'write', path: /leader-epoch-checkpoint\.tmp$/ },
  { step: 'the folder of a new partition', operation: 'makeDirectory', path: /again-\d$/ },
  { step: 'the identity of a new partition', operation: 'write', path: /partition\.metadata/ },
  { step: 'the rename of a deleted folder', operation: 'rename', path: /again-\d$/ },
]

describe('no space in one step: retriable errors, nothing lost, and it works again without a restart', { concurrency: 8 }, () => {
  for (const { step, operation, path } of STEPS.filter(isOfThisLane)) {
    it(step, async () => {
      const disk = new MemoryDisk({ clock: new SystemClock() })
      await using broker = await start(disk)
      using kafka = await RawKafka.connect(broker.address)
      const promises = new Promises()
      await promises.begin(kafka)
      let hits = 0
      const heal = disk.fail({ operation, path, times: 1e9, effect: { kind: 'error', code: 'ENOSPC' }, onHit: () => hits++ })
      await promises.work(kafka, 12)
      assert.ok(hits > 0, 'the work came to this step')
      await promises.check(kafka, { hasOffline: true })
      heal()
      await promiseKept(kafka, promises)
    })
  }
})

const AT_STOP: readonly { step: string; path: RegExp }[] = [
  { step: 'recovery points', path: /moonmq-recovery-points/ },
  { step: 'log starts', path: /moonmq-log-starts/ },
  { step: 'the snapshot of the metadata', path: /\.checkpoint/ },
  { step: 'the marker of the stop', path: /moonmq-clean-shutdown/ },
]

describe('no space while it stops: the next start recovers', () => {
  for (const { step, path } of AT_STOP.filter(isOfThisLane)) {
    it(step, async () => {
      const disk = new MemoryDisk({ clock: new SystemClock() })
      const promises = new Promises()
      const broker = await start(disk)
      const before = await RawKafka.connect(broker.address)
      await promises.begin(before)
      await promises.work(before, 6)
      before[Symbol.dispose]()
      disk.fail({ operation: 'write', path, times: 1e9, effect: { kind: 'error', code: 'ENOSPC' } })
      await broker.close().catch((error: unknown) => assert.match(String(error), /ENOSPC/))
      disk.clearFaults()
      await using again = await start(disk)
      using kafka = await RawKafka.connect(again.address)
      await promises.check(kafka)
    })
  }
})
