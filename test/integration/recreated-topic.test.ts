import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import type { Failpoint, FailpointName } from '../../src/core/failpoint.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { FailpointDisk } from '../../src/io/failpoints.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { systemError } from '../../src/io/system-error.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { readRecords, recordsSection } from '../../src/record/record.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic, produceOne } from '../support/fake-broker.ts'
import { byLane } from '../support/lane.ts'

const TOPIC = 'orders'
const PRODUCER = 77
const OLD_RECORDS = 10
const NEW_RECORDS = 5
/** Segments of two records, so that retention leaves files of the old topic that wait to be removed. */
const CONFIG = { 'segment.bytes': '400', 'retention.bytes': '900', 'index.interval.bytes': '0' }

/** What was answered before the power went. */
interface Answered {
  oldId: string
  old: number
  isDeleted: boolean
  newId: string
  new: number
}

const textOf = (life: string, index: number) => `${life} ${index} ${'.'.repeat(100)}`

function send({ broker }: DiskBroker, life: string, sequence: number) {
  const batch = buildBatch([{ key: null, value: Buffer.from(textOf(life, sequence)), timestampMs: Date.now() }], {
    producerId: PRODUCER,
    producerEpoch: 0,
    baseSequence: sequence,
  })
  return produceOne(broker, TOPIC, 0, batch)
}

/** The old topic with records, a producer and removed segments; its deletion; the new one of the same name. */
async function live(running: DiskBroker, answered: Answered): Promise<void> {
  const { broker, data } = running
  answered.oldId = (await createTopic(broker, TOPIC, 1, CONFIG)).id
  for (let index = 0; index < OLD_RECORDS; index++) {
    if ((await send(running, 'old', index)).error === null) answered.old++
  }
  await data.logs.checkpoint()
  data.retention.hurry()
  await data.retention.pass(new AbortController().signal)
  await data.logs.checkpoint()
  await broker.topics.delete(contextOf(), TOPIC)
  answered.isDeleted = true
  answered.newId = (await createTopic(broker, TOPIC, 1, CONFIG)).id
  for (let index = 0; index < NEW_RECORDS; index++) {
    if ((await send(running, 'new', index)).error === null) answered.new++
  }
  await data.logs.checkpoint()
  await running.close()
}

async function values({ broker }: DiskBroker): Promise<string[]> {
  const { earliest, highWatermark } = broker.offsets.bounds(contextOf(), TOPIC, 0)
  const found: string[] = []
  for (let next = earliest; next < highWatermark; ) {
    const fetched = await broker.fetch.fetch(contextOf(), {
      partitions: [{ topic: TOPIC, partition: 0, fetchOffset: next, maxBytes: 1 << 20, currentLeaderEpoch: -1, lastFetchedEpoch: -1 }],
      isolation: 'read_uncommitted',
      maxWaitMs: 0,
      minBytes: 0,
      maxBytes: 1 << 20,
    })
    const { read = null, error = null } = fetched.partitions[0] ?? {}
    assert.ok(read !== null && read.sizeBytes > 0, `a read at ${next}: ${error}`)
    const bytes = Buffer.concat(read.buffers)
    for (let at = 0; at < bytes.length; ) {
      const header = readBatchHeader(bytes, at, bytes.length)
      const records = readRecords(recordsSection(bytes, at, header), header)
      for (const record of records) found.push((record.value ?? Buffer.alloc(0)).toString())
      at += header.sizeBytes
    }
    next = read.nextOffset
    fetched.release()
  }
  return found
}

async function check(disk: MemoryDisk, answered: Answered, where: string): Promise<void> {
  const running = await diskBroker(disk)
  const { broker, data } = running
  await data.settleFolders()
  await data.logs.removed()
  const topic = broker.topics.find(TOPIC)
  const isOld = topic !== undefined && topic.id === answered.oldId
  assert.ok(!(answered.isDeleted && isOld), `${where}: the deletion was answered`)
  if (answered.newId !== '') assert.equal(topic?.id, answered.newId, where)
  if (isOld) {
    const found = await values(running)
    assert.ok(found.at(-1) === undefined || found.every((value) => value.startsWith('old')), where)
    const { logEndOffset } = broker.offsets.bounds(contextOf(), TOPIC, 0)
    assert.ok(logEndOffset >= answered.old, `${where}: ${logEndOffset} of ${answered.old}`)
    await broker.topics.delete(contextOf(), TOPIC)
  }
  if (topic === undefined || isOld) await createTopic(broker, TOPIC, 1, CONFIG)
  const found = await values(running)
  assert.ok(found.length >= answered.new, `${where}: ${found.length} of ${answered.new}`)
  for (const [index, value] of found.entries()) assert.equal(value, textOf('new', index), where)
  const again = await send(running, 'new', found.length)
  assert.deepEqual(
    [again.error, again.baseOffset],
    [null, found.length],
    `${where}: the old producer begins anew, and its first sequence is no repeat`,
  )
  await data.logs.removed()
  const folders = (await disk.list('/data')).map((entry) => entry.name).filter((name) => name.startsWith(TOPIC))
  assert.deepEqual(folders, [`${TOPIC}-0`], where)
  await running.close()
}

describe('O20: a topic deleted and made again under its name', () => {
  it('shows no byte, offset or producer of the old one, whichever step of either the power goes in', async () => {
    const reached = new Set<FailpointName>()
    for (let nth = 0; ; nth += byLane({ quick: 3, ci: 1, full: 1 })) {
      const disk = new MemoryDisk({ clock: new SystemClock() })
      const answered: Answered = { oldId: '', old: 0, isDeleted: false, newId: '', new: 0 }
      let seen = 0
      let survivor: MemoryDisk | null = null
      const failpoint: Failpoint = (name) => {
        if (survivor !== null) throw systemError('EIO', name)
        if (seen++ !== nth) return
        reached.add(name)
        survivor = disk.powerCut(new SeededRandom(nth))
        throw systemError('EIO', name)
      }
      try {
        await live(await diskBroker(new FailpointDisk(disk, failpoint) as unknown as MemoryDisk, {}, failpoint), answered)
      } catch (error) {
        if (survivor === null) throw error
      }
      if (survivor === null) break
      await check(survivor, answered, `moment ${nth}, ${[...reached].at(-1)}`)
    }
    assert.ok(reached.size > 10, `${[...reached]}`)
  })
})
