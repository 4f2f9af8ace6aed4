import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAILPOINT_NAMES, type Failpoint, type FailpointName } from '../../src/core/failpoint.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { systemError } from '../../src/io/system-error.ts'
import type { LogManager } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { validateLogs } from '../../src/storage/validate.ts'
import { CODECS, COMPACTED, compact, endTransaction, MovableClock, put, readBatches, roll } from '../support/compaction.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { DATA_FOLDER, openHarness, type RecordedLine, TOPIC_ID } from '../support/storage.ts'

const MOMENTS = FAILPOINT_NAMES.filter((name) => name.startsWith('compaction.'))
const ROUNDS = byLane({ quick: 2, ci: 2, full: 100 })

/** Several segments with keys written over, tombstones, transactions of both ends, and a part that was compacted before. */
async function fill(log: PartitionLog, manager: LogManager, clock: MovableClock): Promise<void> {
  let sequence = 0
  const write = (round: number) => {
    for (let key = 0; key < 6; key++) {
      put(log, [
        { key: `k${key}`, value: `${round} ${'.'.repeat(60)}` },
        { key: `only${round}-${key}`, value: 'stays' },
      ])
    }
    put(log, [{ key: `k${round % 6}`, value: null }])
    for (const commit of [true, false]) {
      put(log, [{ key: `t${commit}`, value: `${round}` }], {
        transactional: true,
        producerId: 5,
        producerEpoch: 0,
        baseSequence: sequence++,
      })
      endTransaction(log, 5, commit)
    }
  }
  for (let round = 0; round < 4; round++) write(round)
  await roll(log)
  await compact(manager, { clock })
  for (let round = 4; round < 8; round++) write(round)
  await roll(log)
  await log.whenSynced(log.logEndOffset)
  await log.idle()
  await manager.checkpoint()
}

/** What a reader who sees committed records makes of the log: the latest value of each key, tombstones left out. */
async function stateOf(log: PartitionLog): Promise<Map<string, string>> {
  const aborted = log.abortedTransactions(log.logStartOffset, log.highWatermark)
  const state = new Map<string, string>()
  for (const batch of await readBatches(log)) {
    if ((batch.attributes & 0x20) !== 0) continue
    const isAborted = (batch.attributes & 0x10) !== 0 && aborted.some((each) => isWithin(each, batch.producerId, batch.baseOffset, markers))
    for (const { key, value } of isAborted ? [] : batch.records) {
      if (value === null) state.delete(key ?? '')
      else state.set(key ?? '', value)
    }
  }
  return state
}

/** Each transaction of `fill` has one batch, and its marker follows at once. */
const markers = 2
function isWithin(each: { producerId: number; firstOffset: number }, producerId: number, offset: number, length: number): boolean {
  return each.producerId === producerId && offset >= each.firstOffset && offset < each.firstOffset + length
}

async function prepared(failpoint: Failpoint, clock: MovableClock) {
  const disk = new MemoryDisk({ clock })
  const harness = await openHarness({ disk, clock, failpoint, config: COMPACTED, manager: { nextLeaderEpoch: async () => 1 } })
  await fill(harness.log, harness.manager, clock)
  return harness
}

async function expectSound(disk: MemoryDisk, clock: MovableClock): Promise<void> {
  const known = { topic: 't', partition: 0, topicId: TOPIC_ID, leaderEpoch: 100 }
  const report = await validateLogs({ disk, clock, codecs: CODECS }, { folder: DATA_FOLDER, known: [known] })
  assert.deepEqual(
    report.problems.filter(({ file }) => file !== 'meta.properties'),
    [],
  )
}

async function afterDeath(
  disk: MemoryDisk,
  boot: string,
  clock: MovableClock,
  expected: Map<string, string>,
  sequence: number,
): Promise<void> {
  await expectSound(disk, clock)
  const { log, manager } = await openHarness({ disk, clock, boot, config: COMPACTED })
  assert.deepEqual(await stateOf(log), expected)
  assert.equal(log.producer(5)?.batches.at(-1)?.lastSequence, sequence)
  const names = (await disk.list(`${DATA_FOLDER}/t-0`)).map(({ name }) => name)
  assert.deepEqual(
    names.filter((name) => /cleaned|swap/.test(name)),
    [],
  )
  await compact(manager, { clock })
  assert.deepEqual(await stateOf(log), expected)
  assert.equal(log.compaction.note.cleanedOffset, log.segments.at(-1)?.baseOffset)
  await manager.close()
  await expectSound(disk, clock)
  const again = await openHarness({ disk, clock, boot, config: COMPACTED })
  assert.deepEqual(await stateOf(again.log), expected)
  await again.manager.close()
}

for (const way of ['the power goes', 'the process dies'] as const) {
  for (const name of MOMENTS) {
    test(`${way} at ${name}, each time that it comes`, async () => {
      for (let round = 1; round <= ROUNDS; round++) {
        for (let nth = 1, isReached = true; isReached; nth++) isReached = await dieAt(name, nth, way, seedOr(round) * 100 + nth)
      }
    })
  }
}

async function dieAt(name: FailpointName, nth: number, way: string, seed: number): Promise<boolean> {
  const clock = new MovableClock()
  let survivor: MemoryDisk | null = null
  let isArmed = false
  let seen = 0
  const { disk, log, manager } = await prepared((each) => {
    if (survivor !== null) throw systemError('EIO', each, undefined, 'the end')
    if (!isArmed || each !== name || ++seen < nth) return
    survivor = way === 'the power goes' ? disk.powerCut(new SeededRandom(seed), {}, { clock }) : disk.processKilled({ clock })
    throw systemError('EIO', name, undefined, 'the end')
  }, clock)
  const expected = await stateOf(log)
  const sequence = log.producer(5)?.batches.at(-1)?.lastSequence ?? -1
  isArmed = true
  await compact(manager, { clock }).catch((error: unknown) => {
    if (survivor === null) throw error
  })
  if (survivor === null) {
    assert.ok(nth > 1, `${name} never came`)
    await manager.close()
    return false
  }
  await afterDeath(survivor, way === 'the power goes' ? 'boot-2' : 'boot-1', clock, expected, sequence)
  return true
}

const OPERATIONS = ['open', 'write', 'datasync', 'rename', 'removeFile', 'syncDirectory', 'truncate', 'list', 'stat'] as const

for (const code of ['ENOSPC', 'EIO'] as const) {
  for (const operation of OPERATIONS) {
    test(`${code} in any ${operation} of a compaction loses nothing, and once it is over the log is compacted`, async () => {
      for (let nth = 1, isReached = true; isReached; nth++) isReached = await failAt(operation, code, nth)
    })
  }
}

async function failAt(operation: (typeof OPERATIONS)[number], code: string, nth: number): Promise<boolean> {
  const clock = new MovableClock()
  const { disk, log, manager } = await prepared(() => {}, clock)
  const expected = await stateOf(log)
  const disarm = disk.fail({ operation, path: '/t-0', nth, effect: { kind: 'error', code } })
  const lines: RecordedLine[] = []
  await compact(manager, { clock, lines })
  disarm()
  const isReached = lines.some(({ event }) => event === 'storage.not_compacted')
  if (log.state === 'failed') await log.reopen(1)
  assert.deepEqual(await stateOf(log), expected, `${operation} ${nth}`)
  await compact(manager, { clock })
  assert.deepEqual(await stateOf(log), expected)
  assert.equal(log.compaction.note.cleanedOffset, log.segments.at(-1)?.baseOffset)
  await manager.close()
  await expectSound(disk, clock)
  return isReached
}
