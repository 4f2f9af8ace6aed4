import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { isCode } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import type { Disk } from '../../../src/io/disk.ts'
import { FixedHost } from '../../../src/io/host.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { readBatchHeader, sealBatch } from '../../../src/record/batch.ts'
import { DEFAULT_POOL_SIZE, type Machine, thisMachine } from '../../../src/server/machine.ts'
import { type ValidateProgress, validateDataFolder } from '../../../src/server/offline.ts'
import { DataFolderLock } from '../../../src/storage/lock.ts'
import type { ValidationReport } from '../../../src/storage/validate.ts'
import { DataFolder, fillDataFolder, METADATA_FOLDER } from '../../support/data-folder.ts'

const FOLDER = '/data'
const clock = new SystemClock()

type Files = Map<string, Buffer>

/** The bytes of a stopped folder, to be planted anew for each case. */
let clean: Files
let unclean: Files

before(async () => {
  const disk = new MemoryDisk({ clock })
  const first = await DataFolder.open(disk, FOLDER)
  await fillDataFolder(first)
  await first.close()
  clean = await filesOf(disk, FOLDER)
  const second = await DataFolder.open(disk, FOLDER)
  await second.store('plain', 0, ['after the stop'])
  unclean = await filesOf(disk.processKilled(), FOLDER)
})

async function filesOf(disk: MemoryDisk, path: string, files: Files = new Map()): Promise<Files> {
  for (const entry of await disk.list(path)) {
    const full = `${path}/${entry.name}`
    if (entry.kind === 'directory') await filesOf(disk, full, files)
    else files.set(full, disk.peek(full) ?? Buffer.alloc(0))
  }
  return files
}

async function planted(files: Files): Promise<MemoryDisk> {
  const disk = new MemoryDisk({ clock })
  for (const [path, bytes] of files) {
    await disk.makeDirectory(path.slice(0, path.lastIndexOf('/')))
    const file = await disk.open(path, 'write')
    await file.write([bytes], 0)
    await file.close()
  }
  return disk
}

function machine(disk: Disk, host = new FixedHost({ pid: 1 })): Machine {
  return { ...thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: 1 }), disk, host }
}

function validate(disk: Disk): Promise<ValidationReport> {
  return validateDataFolder(machine(disk), FOLDER)
}

function pathOf(files: Files, part: RegExp): string {
  const found = [...files.keys()].find((path) => part.test(path))
  assert.ok(found !== undefined, `no file like ${part}`)
  return found
}

async function damaged(change: (files: Files) => void, from = clean): Promise<ValidationReport> {
  const files = new Map([...from].map(([path, bytes]) => [path, Buffer.from(bytes)]))
  change(files)
  return validate(await planted(files))
}

function flip(part: RegExp, position: number): (files: Files) => void {
  return (files) => {
    const bytes = files.get(pathOf(files, part))
    assert.ok(bytes !== undefined && position < bytes.length)
    bytes[position] = (bytes[position] as number) ^ 1
  }
}

function expectProblem(report: ValidationReport, file: RegExp, reason = /./, position?: number): void {
  const found = report.problems.filter((each) => file.test(each.file) && reason.test(each.reason))
  assert.ok(found.length > 0, JSON.stringify(report.problems, null, 1))
  if (position !== undefined) assert.equal(found[0]?.position, position)
}

test('a sound folder has no problem, its totals are those of what was written, and not a byte of it changes', async () => {
  const disk = await planted(clean)
  disk.resetCounters()
  const files = new Set<string>()
  const progress: ValidateProgress[] = []
  const report = await validateDataFolder(machine(disk), FOLDER, (each) => {
    files.add(each.file)
    progress.push(each)
  })
  assert.deepEqual([report.problems, report.repairs, report.notes], [[], [], []])
  assert.equal(report.wasClean, true)
  assert.deepEqual(
    report.topics.map((each) => each.topic),
    ['__cluster_metadata', 'codecs', 'plain', 'txn'],
  )
  const records = (topic: string) => report.topics.find((each) => each.topic === topic)?.partitions.map((each) => each.records)
  assert.deepEqual(records('plain'), [60, 60])
  assert.deepEqual(records('codecs'), [8])
  assert.deepEqual(records('txn'), [12 * 3 * 2 + 24 + 3])
  assert.equal(report.totals.partitions, 5)
  assert.equal(report.totals.segments, files.size)
  assert.ok(report.totals.segments > 10, `${report.totals.segments}`)
  const logBytes = [...clean].filter(([path]) => path.endsWith('.log')).reduce((sum, [, bytes]) => sum + bytes.length, 0)
  assert.equal(report.totals.bytes, logBytes)
  const done = progress.map((each) => each.bytesDone)
  assert.deepEqual(
    done,
    [...done].sort((a, b) => a - b),
    'progress never goes back',
  )
  assert.deepEqual([done.at(-1), progress[0]?.bytesTotal], [logBytes, logBytes])
  assert.equal(disk.counters().writtenBytes, 0)
  assert.deepEqual(await filesOf(disk, FOLDER), clean)
})

test('after kill -9 there is nothing wrong either, only what the next start puts right', async () => {
  const report = await validate(await planted(unclean))
  assert.deepEqual([report.problems, report.wasClean], [[], false])
  const torn = await damaged((files) => {
    const path = [...files.keys()].filter((each) => /plain-0\/.*\.log$/.test(each)).pop() ?? ''
    files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), Buffer.alloc(40, 7)]))
  }, unclean)
  assert.deepEqual(torn.problems, [])
  assert.ok(torn.repairs.some((each) => /plain-0.*\.log$/.test(each.file) && /torn tail/.test(each.reason)))
})

test('every byte of a log that is changed is found, with file and position of its batch', async () => {
  const path = pathOf(clean, /plain-0\/0{20}\.log$/)
  const size = clean.get(path)?.length ?? 0
  const disk = await planted(clean)
  const step = Math.max(1, Math.floor(size / 40))
  for (let position = 0; position < size; position += step) {
    disk.corrupt(path, position, 1 << (position % 8))
    const report = await validate(disk)
    const found = report.problems.filter((each) => path.endsWith(each.file) && each.position !== null)
    assert.ok(
      found.some((each) => (each.position ?? 0) <= position),
      `byte ${position}: ${JSON.stringify(report.problems)}`,
    )
    disk.corrupt(path, position, 1 << (position % 8))
  }
})

test('a batch that was lost from the middle is reported once, and what lies behind it is still read', async () => {
  const path = pathOf(clean, /plain-0\/0{20}\.log$/)
  const whole = (await validate(await planted(clean))).totals.batches
  const report = await damaged(flip(/plain-0\/0{20}\.log$/, 200))
  assert.equal(report.totals.batches, whole - 1)
  assert.equal(report.problems.filter((each) => path.endsWith(each.file)).length, 1)
  expectProblem(report, /plain-0/, /the next whole batch begins at byte/)
})

test('records are looked into through every codec', async () => {
  assert.deepEqual((await validate(await planted(clean))).notes, [])
  // A count that lies in the records part, under a checksum that fits.
  const bad = await damaged((files) => {
    const bytes = files.get(pathOf(files, /plain-1\/0{20}\.log$/)) ?? Buffer.alloc(0)
    const header = readBatchHeader(bytes)
    bytes[64] = (bytes[64] as number) ^ 2
    sealBatch(bytes, 0, header.sizeBytes)
  })
  expectProblem(bad, /plain-1\/0{20}\.log$/, /offset 0: .*record/, 0)
})

test('indexes are compared with the batches, entry by entry', async () => {
  expectProblem(await damaged(flip(/plain-0\/0{20}\.index$/, 11)), /\.index$/, /./, 8)
  expectProblem(await damaged(flip(/plain-0\/0{20}\.index$/, 15)), /\.index$/, /./, 8)
  expectProblem(await damaged(flip(/plain-0\/0{20}\.timeindex$/, 7)), /\.timeindex$/, /./, 0)
  expectProblem(await damaged(flip(/plain-0\/0{20}\.timeindex$/, 11)), /\.timeindex$/, /./, 0)
  const cut = (part: RegExp, by: number) => (files: Files) => {
    const path = pathOf(files, part)
    const bytes = files.get(path) ?? Buffer.alloc(0)
    files.set(path, bytes.subarray(0, bytes.length - by))
  }
  expectProblem(await damaged(cut(/plain-0\/0{20}\.index$/, 3)), /\.index$/, /bytes are left/)
  expectProblem(await damaged(cut(/plain-0\/0{20}\.timeindex$/, 12)), /\.timeindex$/, /largest time of the segment/)
  const pad = (part: RegExp) => (files: Files) => {
    const path = pathOf(files, part)
    files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), Buffer.alloc(24)]))
  }
  expectProblem(await damaged(pad(/plain-0\/0{20}\.index$/)), /\.index$/)
  expectProblem(await damaged(pad(/plain-0\/0{20}\.timeindex$/)), /\.timeindex$/)
  expectProblem(await damaged((files) => void files.delete(pathOf(files, /plain-0\/0{20}\.index$/))), /\.index$/, /missing/)
})

test('the transaction index must tell exactly of the aborted transactions', async () => {
  for (const position of [9, 17, 25]) expectProblem(await damaged(flip(/txn-0\/.*\.txnindex$/, position)), /\.txnindex$/)
  expectProblem(await damaged((files) => void files.delete(pathOf(files, /\.txnindex$/))), /\.txnindex$/, /has no entry/)
})

test('snapshots, epochs, ids and root files are compared with the logs and each other', async () => {
  expectProblem(await damaged(flip(/txn-0\/.*\.snapshot$/, 30)), /\.snapshot$/)
  const text = (part: RegExp, change: (text: string) => string) => (files: Files) => {
    const path = pathOf(files, part)
    files.set(path, Buffer.from(change((files.get(path) ?? Buffer.alloc(0)).toString('latin1')), 'latin1'))
  }
  expectProblem(
    await damaged(text(/plain-0\/leader-epoch-checkpoint$/, () => '0\n1\n5 0\n')),
    /leader-epoch-checkpoint$/,
    /written in epoch 0/,
  )
  expectProblem(await damaged(text(/plain-0\/leader-epoch-checkpoint$/, () => 'x')), /leader-epoch-checkpoint$/)
  expectProblem(
    await damaged(text(/plain-0\/partition\.metadata$/, () => 'version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg')),
    /partition\.metadata$/,
    /metadata log/,
  )
  expectProblem(await damaged(flip(/moonmq-recovery-points$/, 20)), /moonmq-recovery-points$/, /checksum/)
  expectProblem(await damaged(flip(/moonmq-log-starts$/, 20)), /moonmq-log-starts$/, /checksum/)
  expectProblem(await damaged(text(/meta\.properties$/, () => 'version=9\n')), /meta\.properties$/, /version 9/)
})

test('missing folders and segments of acknowledged records are damage, unknown folders are only noted', async () => {
  const without = (part: RegExp) => (files: Files) => {
    for (const path of [...files.keys()]) if (part.test(path)) files.delete(path)
  }
  expectProblem(await damaged(without(/\/plain-1\//)), /^plain-1$/, /the folder is missing/)
  const logs = [...clean.keys()].filter((path) => /plain-0\/.*\.log$/.test(path))
  expectProblem(await damaged((files) => void files.delete(logs[1] ?? '')), /plain-0\/.*\.log$/, /the segment before it ends at offset/)
  const last = logs[logs.length - 1] ?? ''
  expectProblem(await damaged((files) => void files.delete(last)), /^plain-0$/, /was synced/)
  const report = await damaged((files) => {
    files.set('/data/what-0/00000000000000000000.log', Buffer.alloc(3))
    files.set('/data/plain-0/README', Buffer.alloc(3))
    files.set('/data/old-0.AAAAAAAAAAAAAAAAAAAAAg-stray/x', Buffer.alloc(3))
  })
  assert.deepEqual(report.problems, [])
  assert.deepEqual(report.notes.map((each) => each.file).sort(), ['old-0.AAAAAAAAAAAAAAAAAAAAAg-stray', 'plain-0/README', 'what-0'])
})

test('the metadata log is checked as a log, and its snapshots against it', async () => {
  expectProblem(await damaged(flip(new RegExp(`${METADATA_FOLDER}/.*\\.checkpoint$`), 150)), /\.checkpoint$/)
  expectProblem(await damaged(flip(new RegExp(`${METADATA_FOLDER}/0{20}\\.log$`), 150)), /__cluster_metadata-0\/0{20}\.log$/)
  // The state of another offset under a name that promises less.
  const renamed = (back: number) => (files: Files) => {
    const path = pathOf(files, /\.checkpoint$/)
    const bytes = files.get(path) ?? Buffer.alloc(0)
    files.delete(path)
    files.set(
      path.replace(/(\d{20})-/, (_, offset: string) => `${String(Number(offset) - back).padStart(20, '0')}-`),
      bytes,
    )
  }
  expectProblem(await damaged(renamed(2)), /\.checkpoint$/, /not the one that the log leads to/)
  expectProblem(await damaged(renamed(3)), /\.checkpoint$/, /no batch ends before/)
  expectProblem(await damaged(renamed(-1)), /\.checkpoint$/, /the log ends at/)
})

test('a folder in use is refused, and one that is not there', async () => {
  const disk = await planted(clean)
  const living = new FixedHost({ pid: 7, processes: new Map([[7, '1']]) })
  const lock = await DataFolderLock.acquire({ disk, host: living }, FOLDER)
  await assert.rejects(validateDataFolder(machine(disk, living), FOLDER), (error) => isCode(error, 'DATA_FOLDER_LOCKED'))
  await lock.release()
  await assert.rejects(validateDataFolder(machine(disk, living), '/nowhere'), (error) => isCode(error, 'DATA_DAMAGED'))
})

test('whatever is in the files, the check ends with a report', async () => {
  const random = new SeededRandom(3)
  const paths = [...clean.keys()]
  for (let round = 0; round < 25; round++) {
    const report = await damaged((files) => {
      const path = paths[random.below(paths.length)] ?? ''
      const bytes = files.get(path) ?? Buffer.alloc(0)
      const kind = random.below(3)
      if (kind === 0) files.set(path, bytes.subarray(0, random.below(bytes.length + 1)))
      else if (kind === 1) files.set(path, random.bytes(random.below(300)))
      else for (let count = 0; count < 5 && bytes.length > 0; count++) bytes[random.below(bytes.length)] = random.below(256)
    })
    assert.ok(Array.isArray(report.problems))
  }
})
