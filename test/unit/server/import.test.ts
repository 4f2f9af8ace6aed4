import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { isCode } from '../../../src/core/errors.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { newUuid, ZERO_UUID } from '../../../src/core/uuid.ts'
import { FixedHost } from '../../../src/io/host.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { setConfig } from '../../../src/metadata/plans.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { buildEndTxnMarker } from '../../../src/record/control.ts'
import { encodeCoordinatorKey, encodeCoordinatorValue } from '../../../src/schema/records.ts'
import { type ImportReport, planImport, runImport } from '../../../src/server/import.ts'
import { DEFAULT_POOL_SIZE, type Machine, thisMachine } from '../../../src/server/machine.ts'
import { validateDataFolder } from '../../../src/server/offline.ts'
import { writeOffsets } from '../../../src/storage/checkpoint.ts'
import { decodePartitionMetadata } from '../../../src/storage/files.ts'
import { encodeFrame, encodeHead } from '../../../src/storage/journal-format.ts'
import { DataFolderLock } from '../../../src/storage/lock.ts'
import { DataFolder, fillDataFolder } from '../../support/data-folder.ts'
import { diskWith, filesOf, readAll } from '../../support/storage.ts'

/** Log folders as Kafka leaves them (the layout is the same), taken over on a memory disk. */

const SOURCE = '/kafka'
const DATA = '/data'
const clock = new SystemClock()
let files: Map<string, Buffer>

before(async () => {
  const source = new MemoryDisk({ clock })
  const kafka = await DataFolder.open(source, SOURCE)
  await fillDataFolder(kafka)
  await kafka.create('orders.v1')
  await kafka.store('orders.v1', 0, ['a', 'b', 'c'])
  const changes = new Map([
    ['retention.ms', '86400000'],
    ['cleanup.policy', 'delete'],
    ['made.up', '*'],
    ['segment.bytes', '-5'],
  ])
  await kafka.metadata.change((image) => setConfig(image, { resource: 'topic', name: 'plain', changes }))
  await kafka.create('__consumer_offsets')
  for (const batch of commits()) await kafka.append('__consumer_offsets', 0, batch)
  await kafka.close()
  await writeText(source, `${SOURCE}/log-start-offset-checkpoint`, '0\n2\nplain 0 7\nplain 1 0\n')
  files = await filesOf(source, SOURCE)
})

function commit(group: string, topic: string, partition: number, offset: number | null) {
  const key = encodeCoordinatorKey('group-coordinator', 'OffsetCommitKey', { group, topic, partition })
  const fields = { offset: offset ?? 0, leaderEpoch: 0, metadata: 'm', commitTimestamp: 1_700_000_000_000 }
  const value = offset === null ? null : encodeCoordinatorValue('group-coordinator', 'OffsetCommitValue', 3, fields)
  return { key, value, timestampMs: 1_700_000_000_000 }
}

/** Plain ones, one that was taken away, and two within transactions of which one was aborted. */
function commits(): Buffer[] {
  const transactional = (producerId: number) => ({ producerId, producerEpoch: 0, baseSequence: 0, transactional: true })
  const marker = (producerId: number, isCommit: boolean) =>
    buildEndTxnMarker({ commit: isCommit, producerId, producerEpoch: 0, coordinatorEpoch: 1, timestampMs: 1_700_000_000_000 })
  return [
    buildBatch([commit('readers', 'plain', 0, 9), commit('readers', 'plain', 1, 11), commit('gone', 'plain', 0, 3)]),
    buildBatch([commit('gone', 'plain', 0, null), commit('readers', 'nowhere', 0, 5)]),
    buildBatch([commit('exact', 'plain', 1, 21)], transactional(900)),
    buildBatch([commit('exact', 'plain', 1, 22)], transactional(901)),
    marker(901, false),
    marker(900, true),
  ]
}

async function writeText(disk: MemoryDisk, path: string, text: string): Promise<void> {
  const file = await disk.open(path, 'write')
  await file.truncate(0)
  await file.write([Buffer.from(text)], 0)
  await file.datasync()
  await file.close()
  await disk.syncDirectory(path.slice(0, path.lastIndexOf('/')))
}

function machine(disk: MemoryDisk, pid = 1): Machine {
  return { ...thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: 1 }), disk, host: new FixedHost({ pid }) }
}

interface Options {
  readonly topics?: readonly string[]
  readonly from?: readonly string[]
  readonly isDryRun?: boolean
  readonly pid?: number
}

async function take(disk: MemoryDisk, options: Options = {}): Promise<ImportReport> {
  const { from = [SOURCE], topics = null, isDryRun = false } = options
  const plan = await planImport(machine(disk, options.pid), { from, dataFolder: DATA, topics })
  return runImport(machine(disk, options.pid), plan, { dataFolder: DATA, isDryRun, onProgress: () => {}, log: SILENT })
}

/** A disk of its own with the files of Kafka. */
async function copyOfSource(): Promise<MemoryDisk> {
  const disk = await diskWith(files)
  for (const entry of await disk.list(SOURCE)) if (entry.kind === 'directory') await disk.syncDirectory(`${SOURCE}/${entry.name}`)
  await disk.syncDirectory(SOURCE)
  return disk
}

/** Offsets and epochs stay, so the batches of both are the same byte for byte but for what recovery never touches. */
async function expectSame(disk: MemoryDisk, topics: readonly string[]): Promise<void> {
  const report = await validateDataFolder(machine(disk, 7), DATA)
  assert.deepEqual([report.problems, report.repairs], [[], []])
  const [left, right] = [await DataFolder.open(await copyOfSource(), SOURCE), await DataFolder.open(disk, DATA)]
  for (const name of topics) {
    const topic = left.metadata.image.topics.get(name)
    assert.equal(right.metadata.image.topics.get(name)?.id, topic?.id)
    for (const { partition } of topic?.partitions ?? []) {
      const [from, to] = [await left.log(name, partition), await right.log(name, partition)]
      const expected = (await readAll(from)).filter(([, last]) => last >= to.logStartOffset)
      assert.deepEqual((await readAll(to)).slice(0, expected.length), expected, `${name}-${partition}`)
    }
  }
  await left.close()
  await right.close()
}

test('topics come with ids, records, log starts, settings and the offsets of groups; a second import overwrites nothing', async () => {
  const disk = await copyOfSource()
  const report = await take(disk)
  assert.deepEqual(report.refused, [])
  assert.deepEqual(
    report.topics.map((topic) => topic.name),
    ['codecs', 'orders.v1', 'plain', 'txn'],
  )
  const plain = report.topics.find((topic) => topic.name === 'plain')
  assert.deepEqual(
    plain?.partitions.map((log) => [log.logStart, log.endOffset, log.records]),
    [
      [7, 60, 60],
      [0, 60, 60],
    ],
  )
  assert.deepEqual(
    [...report.groups].sort((a, b) => (a.group < b.group ? -1 : 1)),
    [
      { group: 'exact', offsets: 1 },
      { group: 'readers', offsets: 2 },
    ],
  )
  const data = await DataFolder.open(disk, DATA)
  const topic = data.metadata.image.topics.get('plain')
  assert.deepEqual([...(topic?.config ?? [])].sort(), [
    ['cleanup.policy', 'delete'],
    ['retention.ms', '86400000'],
  ])
  assert.equal((await data.log('plain', 0)).logStartOffset, 7)
  assert.ok((topic?.partitions[0]?.leaderEpoch ?? 0) > 0, 'whoever led it before may have gone on')
  await data.close()
  await expectSame(disk, ['codecs', 'orders.v1', 'plain', 'txn'])
  const again = await take(disk, { pid: 8 })
  assert.deepEqual(
    again.refused.map((each) => each.isConflict),
    [true, true, true, true],
  )
})

test('a dry run reads everything and writes nothing, and knows what is there already', async () => {
  const disk = await copyOfSource()
  disk.resetCounters()
  const dry = await take(disk, { isDryRun: true })
  assert.equal(disk.counters().writtenBytes, 0)
  assert.deepEqual([dry.refused, dry.topics.length, dry.groups.length], [[], 4, 2])
  await take(disk, { topics: ['plain'] })
  const second = await take(disk, { isDryRun: true, pid: 3 })
  assert.deepEqual(
    second.refused.map((each) => [each.topic, each.isConflict]),
    [['plain', true]],
  )
})

test('transactions that nobody can end any more are aborted, so that readers of committed records go on', async () => {
  const disk = await copyOfSource()
  const report = await take(disk, { topics: ['txn'] })
  const open = report.topics[0]?.partitions[0]?.open.length ?? 0
  assert.ok(open > 0)
  assert.equal(report.notes.filter((note) => /had not ended; it was aborted/.test(note)).length, open)
  const data = await DataFolder.open(disk.processKilled(), DATA)
  const log = await data.log('txn', 0)
  assert.equal(log.lastStableOffset, log.logEndOffset)
  assert.ok(data.metadata.image.nextProducerId > (report.topics[0]?.partitions[0]?.maxProducerId ?? 0), 'no id is given a second time')
})

test('single folders of partitions; without metadata nothing is deleted for its age', async () => {
  const disk = await copyOfSource()
  const report = await take(disk, { from: [`${SOURCE}/plain-0`, `${SOURCE}/plain-1`] })
  assert.deepEqual(
    report.topics.map((topic) => [topic.name, topic.partitions.length]),
    [['plain', 2]],
  )
  assert.match(report.notes.join(), /retention\.ms=-1/)
  const data = await DataFolder.open(disk.processKilled(), DATA)
  assert.equal(data.metadata.image.topics.get('plain')?.config.get('retention.ms'), '-1')
  const half = await take(await copyOfSource(), { from: [`${SOURCE}/plain-1`] })
  assert.match(half.refused[0]?.reason ?? '', /partition 0 of 2 is not here/)
})

test('a folder of logs may be called like a partition; log starts of a MoonMQ are taken over as well', async () => {
  const moved = new Map<string, Buffer>()
  for (const [path, bytes] of files) if (!path.endsWith('/log-start-offset-checkpoint')) moved.set(path.replace(SOURCE, '/broker-1'), bytes)
  const disk = await diskWith(moved)
  const topicId = decodePartitionMetadata(moved.get('/broker-1/plain-0/partition.metadata') ?? Buffer.alloc(0)) ?? ZERO_UUID
  await writeOffsets(disk, '/broker-1', 'log-starts', [{ topicId, partition: 0, offset: 9 }])
  const report = await take(disk, { from: ['/broker-1'] })
  assert.deepEqual(report.refused, [])
  const plain = report.topics.find((topic) => topic.name === 'plain')
  assert.deepEqual(
    plain?.partitions.map((log) => log.logStart),
    [9, 0],
  )
})

test('records that only the journal of a MoonMQ has are not left behind in silence, and a MoonMQ that runs is no source', async () => {
  const disk = await copyOfSource()
  await disk.removeFile(`${SOURCE}/moonmq-clean-shutdown`)
  const id = newUuid(new SeededRandom(1))
  const owner = { topic: 'plain', partition: 0, topicId: id }
  const frame = encodeFrame(id, { sequence: 1, oldestLive: 1, entries: [{ kind: 'forget', owner }] })
  const head = encodeHead({ id, areaBytes: frame.length, directoryId: ZERO_UUID })
  const file = await disk.open(`${SOURCE}/moonmq-journal`, 'write')
  await file.write([head, frame, Buffer.alloc(frame.length), head], 0)
  await file.close()
  for (const from of [SOURCE, `${SOURCE}/plain-0`]) {
    await assert.rejects(
      take(disk, { from: [from] }),
      (error) => isCode(error, 'DATA_DAMAGED') && /moonmq log repair \/kafka --yes/.test(error.message),
    )
  }
  await disk.removeFile(`${SOURCE}/moonmq-journal`)
  const host = new FixedHost({ pid: 9, processes: new Map([[9, '1']]) })
  const lock = await DataFolderLock.acquire({ disk, host }, SOURCE)
  const plan = planImport({ ...machine(disk), host }, { from: [SOURCE], dataFolder: DATA, topics: null })
  await assert.rejects(plan, (error) => isCode(error, 'DATA_FOLDER_LOCKED'))
  await lock.release()
  assert.deepEqual((await take(disk)).refused, [])
})

async function change(disk: MemoryDisk, path: string, position: number, bytes: Buffer): Promise<void> {
  const file = await disk.open(path, 'write')
  await file.write([bytes], position)
  await file.datasync()
  await file.close()
}

test('a torn end is left behind; damage, old formats, mixed topics and unknown names are refused, and the others go on', async () => {
  const torn = await copyOfSource()
  const last = (await torn.list(`${SOURCE}/plain-1`)).filter((entry) => entry.name.endsWith('.log')).at(-1)?.name
  const lastPath = `${SOURCE}/plain-1/${last}`
  await change(torn, lastPath, (await torn.stat(lastPath))?.sizeBytes ?? 0, Buffer.from('torn by a crash'))
  const report = await take(torn)
  assert.deepEqual(report.refused, [])
  assert.equal(report.topics.find((topic) => topic.name === 'plain')?.partitions[1]?.tornBytes, 15)
  await expectSame(torn, ['plain'])

  const log = `${SOURCE}/plain-0/00000000000000000000.log`
  const cases: [bytes: Buffer, position: number, reason: RegExp][] = [
    [Buffer.from([0xff]), 80, /plain-0\/0{20}\.log.*byte 0, offset 0/],
    [Buffer.from([0]), 16, /messages of format v0/],
    [Buffer.from([1]), 16, /messages of format v1/],
  ]
  for (const [bytes, position, reason] of cases) {
    const disk = await copyOfSource()
    await change(disk, log, position, bytes)
    const refused = await take(disk)
    assert.deepEqual(
      refused.refused.map((each) => each.topic),
      ['plain'],
    )
    assert.match(refused.refused[0]?.reason ?? '', reason)
    assert.equal(refused.topics.length, 3)
    await expectSame(disk, ['codecs', 'orders.v1', 'txn'])
  }
  const mixed = await copyOfSource()
  await writeText(mixed, `${SOURCE}/plain-0/partition.metadata`, 'version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ')
  assert.match(
    (await take(mixed, { topics: ['plain', 'other', '__consumer_offsets'] })).refused.map((each) => each.reason).join('\n'),
    /different topics.*\n.*no such topic\n.*of the broker itself/,
  )
})

test('a data folder in use is refused', async () => {
  const disk = await copyOfSource()
  await disk.makeDirectory(DATA)
  const host = new FixedHost({ pid: 9, processes: new Map([[9, '1']]) })
  await using _lock = await DataFolderLock.acquire({ disk, host }, DATA)
  const plan = await planImport({ ...machine(disk), host }, { from: [SOURCE], dataFolder: DATA, topics: null })
  const options = { dataFolder: DATA, isDryRun: false, onProgress: () => {}, log: SILENT }
  await assert.rejects(runImport({ ...machine(disk), host }, plan, options), (error) => isCode(error, 'DATA_FOLDER_LOCKED'))
})

test('a data folder that was made for an import which brought nothing is gone again, one that was there stays', async () => {
  const disk = await copyOfSource()
  disk.fail({ operation: 'rename', path: `${DATA}/`, nth: 1, times: 1_000_000, effect: { kind: 'error', code: 'EIO' } })
  await take(disk).catch(() => null)
  disk.clearFaults()
  assert.equal(await disk.stat(DATA), null)
  assert.deepEqual((await take(disk, { topics: ['absent'] })).topics, [])
  assert.equal(await disk.stat(DATA), null)
  await take(disk)
  await take(disk, { topics: ['absent'] })
  assert.notEqual(await disk.stat(DATA), null)
  assert.ok((await take(disk)).refused.every((each) => each.isConflict))
})

test('wherever an import is cut short, what is there is whole, and the next import brings the rest', async () => {
  const random = new SeededRandom(11)
  let cutShort = 0
  for (let nth = 1; nth < 400; nth += 1 + Math.floor(nth / 2)) {
    const disk = await copyOfSource()
    const kinds = ['write', 'datasync', 'rename', 'syncDirectory', 'removeFile', 'truncate'] as const
    const main = kinds[nth % 4] as (typeof kinds)[number]
    for (const each of kinds) {
      disk.fail({
        operation: each,
        path: DATA,
        ...(each === main ? { nth } : { nth: 1_000_000 }),
        times: 1_000_000,
        effect: { kind: 'error', code: 'EIO' },
      })
    }
    const isWhole = await take(disk).then(
      (report) => report.refused.length === 0,
      () => false,
    )
    disk.clearFaults()
    if (!isWhole) cutShort++
    const after = nth % 2 === 0 ? disk.processKilled() : disk.powerCut(random)
    const next = await take(after, { pid: 2 })
    assert.deepEqual(
      next.refused.filter((each) => !each.isConflict && !/start the broker once/.test(each.reason)),
      [],
      `${main} ${nth}`,
    )
    const there = [...next.topics.map((topic) => topic.name), ...next.refused.filter((each) => each.isConflict).map((each) => each.topic)]
    await expectSame(after, there)
  }
  assert.ok(cutShort > 5, `${cutShort} were cut short`)
})
