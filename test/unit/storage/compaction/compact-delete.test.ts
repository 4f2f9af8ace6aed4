import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../../../../src/core/random.ts'
import type { PartitionLog } from '../../../../src/storage/partition-log.ts'
import { validateLogs } from '../../../../src/storage/validate.ts'
import { CODECS, COMPACTED, compact, put, readBatches, roll } from '../../../support/compaction.ts'
import { HOUR_MS, MINUTE_MS, RetentionWorld, type RetentionWorldOptions } from '../../../support/retention.ts'
import { DATA_FOLDER, TOPIC_ID } from '../../../support/storage.ts'

const BOTH = { ...COMPACTED, isDeleted: true, retentionMs: HOUR_MS, fileDeleteDelayMs: 0 }
const open = (options: RetentionWorldOptions = {}) => RetentionWorld.open({ ...options, config: { ...BOTH, ...options.config } })

/** Offset and text of every record but fillers. */
async function recordsOf(log: PartitionLog): Promise<[number, string][]> {
  const batches = await readBatches(log)
  return batches.flatMap(({ records }) =>
    records.filter(({ key }) => key !== '-filler-').map(({ offset, key, value }): [number, string] => [offset, `${key}=${value}`]),
  )
}

/** One round: keys that every round writes over, and one of its own. */
async function write({ log, clock }: RetentionWorld, round: number): Promise<void> {
  const timestampMs = clock.nowMs()
  for (const key of ['a', 'b', `only${round}`]) put(log, [{ key, value: `${round}`, timestampMs }])
  // Fills the segment with records of the same time.
  const segments = log.segmentCount
  while (log.segmentCount === segments) put(log, [{ key: '-filler-', value: 'x'.repeat(200), timestampMs }])
  await log.whenSynced(log.logEndOffset)
  await log.idle()
}

async function expectSound({ disk, clock }: RetentionWorld): Promise<void> {
  const known = { topic: 't', partition: 0, topicId: TOPIC_ID, leaderEpoch: 100 }
  const report = await validateLogs({ disk, clock, codecs: CODECS }, { folder: DATA_FOLDER, known: [known] })
  assert.deepEqual(
    report.problems.filter(({ file }) => file !== 'meta.properties'),
    [],
  )
}

test('compact,delete: keys are compacted, what is too old goes even where it is the last of its key, and offsets stay', async () => {
  const world = await open()
  const { log, manager, clock } = world
  for (const round of [1, 2]) await write(world, round)
  await compact(manager)
  const early = await recordsOf(log)
  assert.deepEqual(
    early.map(([, text]) => text),
    ['only1=1', 'a=2', 'b=2', 'only2=2'],
  )
  await clock.advance(50 * MINUTE_MS)
  await world.pass()
  assert.deepEqual(await recordsOf(log), early, 'nothing is too old')
  await write(world, 3)
  await compact(manager)
  const middle = await recordsOf(log)
  assert.deepEqual(
    middle.map(([, text]) => text),
    ['only1=1', 'only2=2', 'a=3', 'b=3', 'only3=3'],
  )
  const { cleanedOffset } = log.compaction.note
  await clock.advance(20 * MINUTE_MS)
  await world.pass()
  assert.ok(log.logStartOffset > 0, 'the oldest segments have gone')
  const late = await recordsOf(log)
  assert.deepEqual(late, middle.slice(2), 'what stays has its offsets')
  assert.equal(log.compaction.note.cleanedOffset, cleanedOffset, 'what was compacted stays so')
  for (const round of [4, 5]) await write(world, round)
  await compact(manager)
  assert.deepEqual(
    (await recordsOf(log)).map(([, text]) => text),
    ['only3=3', 'only4=4', 'a=5', 'b=5', 'only5=5'],
  )
  const [start, end, left] = [log.logStartOffset, log.logEndOffset, await recordsOf(log)]
  await world.close()
  await expectSound(world)
  const again = await open({ clock, disk: world.disk })
  assert.deepEqual([again.log.logStartOffset, again.log.logEndOffset, await recordsOf(again.log)], [start, end, left])
  await again.close()
})

test('compact,delete: an idle log is emptied by its time, keys and tombstones and all, and goes on behind its end', async () => {
  const world = await open()
  const { log, manager, clock } = world
  await write(world, 1)
  put(log, [{ key: 'a', value: null, timestampMs: clock.nowMs() }])
  await roll(log)
  await compact(manager)
  const end = log.logEndOffset
  await world.live(2 * HOUR_MS)
  assert.deepEqual([log.logStartOffset, log.logEndOffset, log.sizeBytes], [end, end, 0])
  await compact(manager)
  assert.equal(put(log, [{ key: 'a', value: 'new', timestampMs: clock.nowMs() }]), end)
  await log.whenSynced(log.logEndOffset)
  assert.deepEqual(await recordsOf(log), [[end, 'a=new']])
  await world.close()
  await expectSound(world)
})

test('compact,delete: by bytes, with the power cut between a compaction and the retention behind it', async () => {
  for (let seed = 1; seed <= 10; seed++) {
    const world = await open({ config: { retentionMs: -1, retentionBytes: 6000 } })
    for (let round = 1; round <= 6; round++) await write(world, round)
    await compact(world.manager)
    const before = await recordsOf(world.log)
    await world.pass()
    const start = world.log.logStartOffset
    const disk = world.disk.powerCut(new SeededRandom(seed))
    await world.close().catch(() => {
      // Its disk is gone.
    })
    const again = await open({ disk, clock: world.clock, boot: `boot-${seed + 1}`, config: { retentionMs: -1, retentionBytes: 6000 } })
    assert.ok(again.log.logStartOffset <= start, 'nothing is deleted that was not')
    const stays = before.filter(([offset]) => offset >= start)
    assert.deepEqual((await recordsOf(again.log)).slice(-stays.length), stays)
    await again.pass()
    await compact(again.manager)
    assert.deepEqual(
      await recordsOf(again.log),
      stays.filter(([offset]) => offset >= again.log.logStartOffset),
    )
    await again.close()
    await expectSound(again)
  }
})
