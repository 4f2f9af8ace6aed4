import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { EmbeddedBroker } from '../../src/index.ts'
import { startBroker } from '../../src/index.ts'
import type { DiskOperation } from '../../src/io/disk-faults.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { readCompactionNote } from '../../src/storage/compaction/note.ts'
import { JOURNAL_FILE } from '../../src/storage/journal-format.ts'
import { SETTINGS } from '../support/failpoint-plan.ts'
import { promiseKept, STORAGE } from '../support/full-disk.ts'
import { LeapingClock } from '../support/leaping-clock.ts'
import { Promises } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'

/*
 * No space in what a broker does behind its clients: compaction and the journal. Its minutes of waiting are leapt over.
 */

const DATA = '/moonmq-data'
const KEYS = `${DATA}/keys-0`
/** Recovery points are saved and a failed compaction is tried again within it, an idle connection is not closed. */
const LEAP_MS = 61_000
const ATTEMPTS = 300
let nextPid = 1

interface World extends AsyncDisposable {
  readonly clock: LeapingClock
  readonly disk: MemoryDisk
  readonly kafka: RawKafka
  readonly promises: Promises
}

async function open(): Promise<World> {
  const clock = new LeapingClock()
  const disk = new MemoryDisk({ clock })
  const pid = nextPid++
  const host = new FixedHost({ pid, processes: new Map([[pid, '1']]) })
  const broker: EmbeddedBroker = await startBroker({ port: 0, dataDir: DATA, machine: { clock, disk, host }, config: SETTINGS })
  const kafka = await RawKafka.connect(broker.address)
  const promises = new Promises()
  await promises.begin(kafka)
  return {
    ...{ clock, disk, kafka, promises },
    async [Symbol.asyncDispose]() {
      kafka[Symbol.dispose]()
      await broker.close()
    },
  }
}

/** Goes on, with time passing, until something has come about. */
async function until(isSo: () => boolean | Promise<boolean>, what: string, goOn: () => Promise<unknown>, { clock }: World): Promise<void> {
  for (let attempt = 0; !(await isSo()); attempt++) {
    assert.ok(attempt < ATTEMPTS, what)
    await goOn()
    clock.leap(LEAP_MS)
    // The background has its turn.
    await pause(2)
  }
}

/** Keys of which the only record must stay, each in one batch with a record that is written over by the next batch. */
class Keyed {
  readonly kept: string[] = []
  #sent = 0

  async work(kafka: RawKafka): Promise<void> {
    for (let batch = 0; batch < 4; batch++) {
      const number = ++this.#sent
      const stays = { key: `stays ${number}`, value: `1 ${'.'.repeat(150)}` }
      const { errorCode } = await kafka.produce('keys', 0, [stays, { key: 'same', value: `${number} ${'.'.repeat(150)}` }])
      if (errorCode === 0) this.kept.push(stays.key)
    }
  }

  async check(kafka: RawKafka): Promise<void> {
    const keys = (await kafka.readAll('keys', 0)).map(({ key }) => key)
    for (const key of this.kept) assert.equal(keys.filter((each) => each === key).length, 1, key)
    assert.ok(keys.filter((key) => key === 'same').length < this.kept.length, 'what was written over has gone')
  }
}

const cleanedOffset = async ({ disk }: World) => (await readCompactionNote(disk, KEYS))?.cleanedOffset ?? 0

/** Behind the step that decides a swap the log is closed until a recovery has ended it, which needs the same step; its readers try again. */
const COMPACTION: readonly { step: string; operation: DiskOperation; path: RegExp; closesLog?: boolean }[] = [
  { step: 'the note before a compaction', operation: 'write', path: /keys-0\/moonmq-compaction/ },
  { step: 'the rename of the note', operation: 'rename', path: /keys-0\/moonmq-compaction/ },
  { step: 'the file of a compacted segment', operation: 'open', path: /keys-0\/\d+\.log\.cleaned$/ },
  { step: 'a write of a compacted segment', operation: 'write', path: /keys-0\/\d+\.log\.cleaned$/ },
  { step: 'the sync of a compacted segment', operation: 'datasync', path: /keys-0\/\d+\.log\.cleaned$/ },
  { step: 'the offset index of a compacted segment', operation: 'write', path: /keys-0\/\d+\.index\.cleaned$/ },
  { step: 'the time index of a compacted segment', operation: 'write', path: /keys-0\/\d+\.timeindex\.cleaned$/ },
  { step: 'the sync of the index of a compacted segment', operation: 'datasync', path: /keys-0\/\d+\.index\.cleaned$/ },
  { step: 'the rename that decides a swap', operation: 'rename', path: /keys-0\/\d+\.log\.cleaned/ },
  { step: 'the rename of an index behind a swap', operation: 'rename', path: /keys-0\/\d+\.timeindex\.cleaned/, closesLog: true },
  { step: 'the last name of a compacted segment', operation: 'rename', path: /keys-0\/\d+\.log$/, closesLog: true },
]

describe('no space in one step of a compaction: nobody loses anything, and the log is compacted once there is space', {
  concurrency: 4,
}, () => {
  for (const { step, operation, path, closesLog = false } of COMPACTION) {
    it(step, async () => {
      await using world = await open()
      const { disk, kafka, promises } = world
      let hits = 0
      const heal = disk.fail({ operation, path, times: 1e9, effect: { kind: 'error', code: 'ENOSPC' }, onHit: () => hits++ })
      const keyed = new Keyed()
      const work = () => keyed.work(kafka)
      await until(() => hits > 0, 'a compaction came to this step', work, world)
      await work()
      await promises.work(kafka, 3)
      if (closesLog) {
        assert.ok([0, STORAGE].includes((await kafka.fetch('keys', 0, 0)).errorCode), 'clients try again')
        assert.equal((await kafka.produce('plain', 0, [{ value: 'another' }])).errorCode, 0)
        await kafka.readAll('plain', 0)
      } else await promises.check(kafka, { hasOffline: true })
      const before = await cleanedOffset(world)
      heal()
      await until(async () => (await cleanedOffset(world)) > before, 'the log is compacted', work, world)
      await promiseKept(kafka, promises)
      await keyed.check(kafka)
    })
  }
})

const PARTITIONS = 12

/** One batch for each of many partitions in one request: so many files wait together that the journal stands in for them. */
async function produceWide(kafka: RawKafka, turn: number): Promise<void> {
  const records = () => buildBatch([{ key: null, value: Buffer.from(`turn ${turn}`), timestampMs: Date.now() }])
  const partitionData = Array.from({ length: PARTITIONS }, (_, index) => ({ index, records: records() }))
  const topicData = [{ name: 'wide', partitionData }]
  const answer = await kafka.request('Produce', 9, { transactionalId: null, acks: -1, timeoutMs: 30_000, topicData })
  for (const { errorCode, baseOffset } of answer.responses[0]?.partitionResponses ?? []) {
    assert.deepEqual([errorCode, baseOffset], [0, turn], 'nobody notices')
  }
}

const JOURNAL: readonly { step: string; operation: DiskOperation; isMade: boolean }[] = [
  { step: 'the file of the journal', operation: 'open', isMade: false },
  { step: 'the zeros of the journal', operation: 'write', isMade: false },
  { step: 'the first sync of the journal', operation: 'datasync', isMade: false },
  { step: 'a frame of the journal', operation: 'write', isMade: true },
  { step: 'the sync of a frame', operation: 'datasync', isMade: true },
]

describe('no space in one step of the journal: files are synced by themselves, and it is used once there is space', {
  concurrency: 4,
}, () => {
  for (const { step, operation, isMade } of JOURNAL) {
    it(step, async () => {
      await using world = await open()
      const { disk, kafka, promises } = world
      const topics = [{ name: 'wide', numPartitions: PARTITIONS, replicationFactor: 1, assignments: [], configs: [] }]
      const made = await kafka.request('CreateTopics', 7, { topics, timeoutMs: 30_000, validateOnly: false })
      assert.equal(made.topics[0]?.errorCode, 0)
      let turn = 0
      const wide = () => produceWide(kafka, turn++)
      /** The first sync is of the empty journal; each further one is of a frame. */
      const frames = () => disk.counters(JOURNAL_FILE).syncs - 1
      if (isMade) await until(() => frames() > 0, 'the journal is used', wide, world)
      let hits = 0
      const heal = disk.fail({ operation, path: JOURNAL_FILE, times: 1e9, effect: { kind: 'error', code: 'ENOSPC' }, onHit: () => hits++ })
      await until(() => hits > 0, 'the journal came to this step', wide, world)
      for (let more = 0; more < 3; more++) await wide()
      await promises.work(kafka, 3)
      await promises.check(kafka)
      const before = frames()
      heal()
      // Made again, and one frame.
      await until(() => frames() > before + 1, 'the journal is used again', wide, world)
      for (let partition = 0; partition < PARTITIONS; partition++) {
        const read = await kafka.readAll('wide', partition)
        assert.deepEqual(
          read.map(({ offset, value }) => [offset, value]),
          Array.from({ length: turn }, (_, each) => [each, `turn ${each}`]),
        )
      }
      await promiseKept(kafka, promises)
    })
  }
})
