import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { isCode } from '../../src/core/errors.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { codecOf, isControl, readBatchHeader } from '../../src/record/batch.ts'
import { CODEC, Codecs } from '../../src/record/compression.ts'
import { readRecords, recordsSection } from '../../src/record/record.ts'
import { DEFAULT_POOL_SIZE, type Machine, thisMachine } from '../../src/server/machine.ts'
import { validateDataFolder } from '../../src/server/offline.ts'
import { applyRepair, type MiddleChoice, planDataFolderRepair, type RepairPlan } from '../../src/server/repair.ts'
import { DataFolderLock } from '../../src/storage/lock.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { DataFolder, fillDataFolder, METADATA_FOLDER } from '../support/data-folder.ts'

const FOLDER = '/data'
const clock = new SystemClock()
const codecs = new Codecs({ loader: thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: 1 }).loader })

type Files = Map<string, Buffer>
/** Value by offset, by `topic-partition`. */
type Values = Map<string, Map<number, string>>

let clean: Files
let unclean: Files
/** What the clean folder holds. */
let written: Values

before(async () => {
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
  const disk = new MemoryDisk({ clock })
  const first = await DataFolder.open(disk, FOLDER)
  await fillDataFolder(first)
  await first.close()
  clean = await filesOf(disk, FOLDER)
  written = await valuesIn(disk)
  const other = await planted(clean)
  const second = await DataFolder.open(other, FOLDER)
  await second.store('plain', 0, ['after the stop'])
  unclean = await filesOf(other.processKilled(), FOLDER)
})

async function filesOf(disk: MemoryDisk, path: string, files: Files = new Map()): Promise<Files> {
  for (const entry of await disk.list(path)) {
    const full = `${path}/${entry.name}`
    if (entry.kind === 'directory') await filesOf(disk, full, files)
    else files.set(full, Buffer.from(disk.peek(full) ?? Buffer.alloc(0)))
  }
  return files
}

async function planted(files: Files): Promise<MemoryDisk> {
  const disk = new MemoryDisk({ clock })
  const folders = new Set<string>()
  for (const [path, bytes] of files) {
    folders.add(path.slice(0, path.lastIndexOf('/')))
    await disk.makeDirectory(path.slice(0, path.lastIndexOf('/')))
    const file = await disk.open(path, 'write')
    await file.write([bytes], 0)
    await file.datasync()
    await file.close()
  }
  for (const folder of folders) await disk.syncDirectory(folder)
  await disk.syncDirectory('/')
  return disk
}

/** Another process for each number; those of other numbers are gone. */
function machine(disk: MemoryDisk, pid = 1): Machine {
  return { ...thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: 1 }), disk, host: new FixedHost({ pid }) }
}

/** Opens the folder as a broker does and reads every record of every partition. */
async function valuesIn(disk: MemoryDisk): Promise<Values> {
  const data = await DataFolder.open(disk, FOLDER)
  const found: Values = new Map()
  for (const topic of data.metadata.image.topics.values()) {
    for (const { partition } of topic.partitions)
      found.set(`${topic.name}-${partition}`, await valuesOf(await data.log(topic.name, partition)))
  }
  await data.close()
  return found
}

async function valuesOf(log: PartitionLog): Promise<Map<number, string>> {
  const values = new Map<number, string>()
  for (let next = log.logStartOffset; next < log.logEndOffset; ) {
    const read = await log.read({ offset: next, maxBytes: 1_000_000, minOneBatch: true, limitOffset: log.logEndOffset })
    assert.ok(read.nextOffset > next, `the read goes on behind ${next}`)
    const bytes = Buffer.concat([...read.buffers])
    for (let at = 0; at < bytes.length; ) {
      const header = readBatchHeader(bytes, at)
      const section = codecs.inflate(codecOf(header), recordsSection(bytes, at, header))
      for (const record of readRecords(section, header)) if (!isControl(header)) values.set(record.offset, String(record.value))
      at += header.sizeBytes
    }
    next = read.nextOffset
    read.release()
  }
  return values
}

function pathOf(files: Files, part: RegExp): string {
  const found = [...files.keys()].find((path) => part.test(path))
  assert.ok(found !== undefined, `no file like ${part}`)
  return found
}

function bytesOf(files: Files, part: RegExp): Buffer {
  return files.get(pathOf(files, part)) as Buffer
}

function copyOf(files: Files): Files {
  return new Map([...files].map(([path, bytes]) => [path, Buffer.from(bytes)]))
}

interface Repaired {
  readonly plan: RepairPlan
  readonly values: Values
  readonly files: Files
  readonly disk: MemoryDisk
}

/** Damages a folder, plans, carries the plan out, and expects a folder that the check and a broker take. */
async function repaired(change: (files: Files) => void, options: { from?: Files; middle?: MiddleChoice } = {}): Promise<Repaired> {
  const damaged = copyOf(options.from ?? clean)
  change(damaged)
  const disk = await planted(damaged)
  disk.resetCounters()
  const middle = options.middle ?? 'gap'
  const plan = await planDataFolderRepair(machine(disk), FOLDER, { middle })
  assert.equal(disk.counters().writtenBytes, 0, 'a plan changes nothing')
  await applyRepair(machine(disk), plan, SILENT)
  await expectWhole(disk, middle)
  const files = await filesOf(disk, FOLDER)
  return { plan, files, disk, values: await valuesIn(disk) }
}

async function expectWhole(disk: MemoryDisk, middle: MiddleChoice, pid = 1): Promise<void> {
  const report = await validateDataFolder(machine(disk, pid), FOLDER)
  assert.deepEqual([report.problems, report.repairs], [[], []])
  const again = await planDataFolderRepair(machine(disk, pid), FOLDER, { middle })
  assert.deepEqual([again.partitions, again.root, again.refused], [[], [], []])
}

/** Everything but `lost` is there, at the offsets that it had. */
function expectValues(values: Values, lost: Readonly<Record<string, readonly number[]>> = {}): void {
  for (const [name, expected] of written) {
    const left = new Map([...expected].filter(([offset]) => !(lost[name] ?? []).includes(offset)))
    assert.deepEqual(values.get(name), left, name)
  }
}

const PLAIN = /plain-0\/0{20}\.log$/

test('a damaged batch before the end becomes a gap: all others keep their offsets, its bytes are kept', async () => {
  const { values, files, plan } = await repaired((all) => {
    const bytes = bytesOf(all, PLAIN)
    const size = readBatchHeader(bytes).sizeBytes
    bytes[size + 70] = (bytes[size + 70] as number) ^ 1
  })
  expectValues(values, { 'plain-0': [2, 3] })
  assert.deepEqual(
    plan.partitions.map((each) => [each.topic, each.partition, each.log.steps.map((step) => step.kind)]),
    [['plain', 0, ['drop']]],
  )
  const before = bytesOf(clean, PLAIN)
  const size = readBatchHeader(before).sizeBytes
  const kept = bytesOf(files, new RegExp(`plain-0/0{20}\\.log\\.cut-${size}$`))
  assert.equal(kept.length, readBatchHeader(before, size).sizeBytes)
  assert.equal(kept[70], (before[size + 70] as number) ^ 1)
})

test('what lies before the checksum of a batch is restored from its neighbours, without any loss', async () => {
  const first = readBatchHeader(bytesOf(clean, PLAIN)).sizeBytes
  for (let at = 0; at < 17; at++) {
    const { values, plan } = await repaired((all) => {
      const bytes = bytesOf(all, PLAIN)
      bytes[first + at] = (bytes[first + at] as number) ^ 0x41
    })
    assert.deepEqual(
      plan.partitions.flatMap((each) => each.log.steps.map((step) => step.kind)),
      ['header'],
      `byte ${at}`,
    )
    expectValues(values)
  }
})

test('a torn tail is cut and kept', async () => {
  const torn = Buffer.from('no batch at all')
  const add = (all: Files) => {
    const path = pathOf(all, /plain-0\/.*\.log$/)
    const last =
      [...all.keys()]
        .filter((each) => /plain-0\/.*\.log$/.test(each))
        .sort()
        .at(-1) ?? path
    all.set(last, Buffer.concat([bytesOf(all, new RegExp(last)), torn]))
  }
  const { values, files, plan } = await repaired(add, { from: unclean })
  assert.deepEqual(
    plan.partitions.flatMap((each) => each.log.steps.map((step) => step.kind)),
    ['cut'],
  )
  assert.equal(values.get('plain-0')?.get(60), 'after the stop')
  assert.deepEqual(bytesOf(files, /plain-0\/.*\.cut-/), torn)
})

test('missing files: in the middle, at the beginning, at the end, all of them, and the folder', async () => {
  const logs = (all: Files) => [...all.keys()].filter((path) => /plain-1\/.*\.log$/.test(path)).sort()
  const baseOf = (path: string) => Number(/(\d{20})\.log$/.exec(path)?.[1])
  const names = logs(clean)
  assert.ok(names.length >= 4)
  const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index)
  const end = 60
  const bases = [...names.map(baseOf), end]
  for (const index of [1, names.length - 1, 0]) {
    const { values, disk } = await repaired((all) => void all.delete(names[index] as string))
    expectValues(values, { 'plain-1': range(bases[index] as number, bases[index + 1] as number) })
    const data = await DataFolder.open(disk, FOLDER)
    const log = await data.log('plain', 1)
    assert.equal(log.logEndOffset, end, 'an offset that was given out is never given again')
    assert.equal(log.logStartOffset, index === 0 ? (bases[1] as number) : 0)
    await data.store('plain', 1, ['more'])
    assert.equal((await valuesOf(log)).get(end), 'more')
    await data.close()
  }
  const all = await repaired((files) => {
    for (const name of names) files.delete(name)
  })
  expectValues(all.values, { 'plain-1': range(0, end) })
  const folder = await repaired((files) => {
    for (const path of [...files.keys()]) if (path.includes('/plain-1/')) files.delete(path)
  })
  expectValues(folder.values, { 'plain-1': range(0, end) })
  const data = await DataFolder.open(folder.disk, FOLDER)
  assert.equal((await data.log('plain', 1)).logEndOffset, end)
  await data.close()
})

test('side files that are damaged or missing are built again, and no record is touched', async () => {
  const kinds = [
    /txn-0\/.*\.index$/,
    /txn-0\/.*\.timeindex$/,
    /txn-0\/.*\.txnindex$/,
    /txn-0\/.*\.snapshot$/,
    /txn-0\/leader-epoch-checkpoint$/,
  ]
  for (const kind of kinds) {
    const flipped = await repaired((all) => {
      const bytes = bytesOf(all, kind)
      bytes[Math.floor(bytes.length / 2)] = (bytes[Math.floor(bytes.length / 2)] as number) ^ 0x10
    })
    expectValues(flipped.values)
    const gone = await repaired((all) => void all.delete(pathOf(all, kind)))
    expectValues(gone.values)
  }
  expectValues((await repaired((all) => void all.delete(pathOf(all, /txn-0\/partition\.metadata$/)))).values)
})

test('the root: identity, recovery points, log starts', async () => {
  const identity = await repaired((all) => void all.delete(pathOf(all, /meta\.properties$/)))
  expectValues(identity.values)
  const clusterId = /cluster\.id=(.*)/.exec(bytesOf(clean, /meta\.properties$/).toString())?.[1]
  assert.ok(
    bytesOf(identity.files, /meta\.properties$/)
      .toString()
      .includes(`cluster.id=${clusterId}`),
  )
  for (const name of [/meta\.properties$/, /moonmq-recovery-points$/, /moonmq-log-starts$/]) {
    const { values, files } = await repaired((all) => {
      const bytes = bytesOf(all, name)
      bytes[0] = (bytes[0] as number) ^ 1
      bytes[12] = (bytes[12] as number) ^ 1
    })
    expectValues(values)
    assert.ok(
      [...files.keys()].some((path) => path.includes('.cut-0')),
      'the damaged file is kept',
    )
  }
})

test('a journal that outlived a stop in order goes with its note, whatever that one says', async () => {
  const { disk } = await repaired((files) => {
    files.set(`${FOLDER}/moonmq-journal`, Buffer.alloc(8192))
    files.set(`${FOLDER}/moonmq-journal-note`, Buffer.from('no note'))
  })
  assert.deepEqual([disk.peek(`${FOLDER}/moonmq-journal`), disk.peek(`${FOLDER}/moonmq-journal-note`)], [null, null])
  expectValues(await valuesIn(disk))
})

test('cut instead of a gap: the log ends at the damage, later files are set aside', async () => {
  const first = readBatchHeader(bytesOf(clean, PLAIN)).sizeBytes
  const { values, files, plan } = await repaired(
    (all) => {
      const bytes = bytesOf(all, PLAIN)
      bytes[first + 70] = (bytes[first + 70] as number) ^ 1
    },
    { middle: 'cut' },
  )
  assert.deepEqual([...(values.get('plain-0') ?? []).keys()], [0, 1])
  assert.ok(plan.partitions[0]?.log.steps.some((step) => step.kind === 'set-aside'))
  const bytes = [...clean].filter(([path]) => /plain-0\/.*\.log$/.test(path)).reduce((sum, [, each]) => sum + each.length, 0)
  const left = [...files].filter(([path]) => /plain-0\/.*\.log(\.cut.*)?$/.test(path)).reduce((sum, [, each]) => sum + each.length, 0)
  assert.equal(left, bytes, 'every byte is somewhere')
})

test('the metadata log may lose its end, but nothing is left out of its middle', async () => {
  const part = new RegExp(`${METADATA_FOLDER}/0{20}\\.log$`)
  const damage = (all: Files) => {
    const bytes = bytesOf(all, part)
    bytes[readBatchHeader(bytes).sizeBytes + 80] = (bytes[readBatchHeader(bytes).sizeBytes + 80] as number) ^ 1
  }
  const files = copyOf(clean)
  damage(files)
  const disk = await planted(files)
  const plan = await planDataFolderRepair(machine(disk), FOLDER, { middle: 'gap' })
  assert.deepEqual(
    plan.refused.map((each) => each.name),
    [METADATA_FOLDER],
  )
  assert.match(plan.refused[0]?.reason ?? '', /its records build on each other/)
  const snapshot = await repaired((all) => {
    const bytes = bytesOf(all, /\.checkpoint$/)
    bytes[100] = (bytes[100] as number) ^ 1
  })
  expectValues(snapshot.values)
})

test('a folder in use is refused, one partition can be asked for, a second repair overwrites nothing that was kept', async () => {
  const files = copyOf(clean)
  const flip = (part: RegExp) => {
    const bytes = bytesOf(files, part)
    bytes[70] = (bytes[70] as number) ^ 1
  }
  flip(PLAIN)
  flip(/plain-1\/0{20}\.log$/)
  const disk = await planted(files)
  const host = new FixedHost({ pid: 9, processes: new Map([[9, '1']]) })
  const lock = await DataFolderLock.acquire({ disk, host }, FOLDER)
  const options = { middle: 'gap', only: new Set(['plain-1']) } as const
  await assert.rejects(planDataFolderRepair({ ...machine(disk), host }, FOLDER, options), (error) => isCode(error, 'DATA_FOLDER_LOCKED'))
  await lock.release()
  const plan = await planDataFolderRepair(machine(disk), FOLDER, options)
  assert.deepEqual(
    plan.partitions.map((each) => each.partition),
    [1],
  )
  const kept = await applyRepair(machine(disk), plan, SILENT)
  disk.corrupt(`${FOLDER}/plain-1/00000000000000000000.log`, 30)
  const again = await applyRepair(machine(disk), await planDataFolderRepair(machine(disk), FOLDER, options), SILENT)
  assert.deepEqual(
    [...kept, ...again],
    [`${FOLDER}/plain-1/00000000000000000000.log.cut-0`, `${FOLDER}/plain-1/00000000000000000000.log.cut-0.2`],
  )
  assert.deepEqual(
    (await planDataFolderRepair(machine(disk), FOLDER, { middle: 'gap' })).partitions.map((each) => each.partition),
    [0],
  )
})

test('whatever step of a repair fails, and however the machine goes down, another repair ends it without further loss', async () => {
  const files = copyOf(clean)
  const bytes = bytesOf(files, PLAIN)
  const first = readBatchHeader(bytes).sizeBytes
  bytes[first + 70] = (bytes[first + 70] as number) ^ 1
  files.delete([...files.keys()].filter((path) => /plain-1\/.*\.log$/.test(path)).sort()[1] as string)
  files.delete(pathOf(files, /txn-0\/leader-epoch-checkpoint$/))
  const whole = await planted(files)
  await applyRepair(machine(whole), await planDataFolderRepair(machine(whole), FOLDER, { middle: 'gap' }), SILENT)
  const expected = await valuesIn(whole)
  const random = new SeededRandom(5)
  let failures = 0
  for (const operation of ['write', 'datasync', 'rename', 'removeFile', 'syncDirectory'] as const) {
    for (let nth = 1; nth < 400; nth += 1 + Math.floor(nth / 3)) {
      const disk = await planted(files)
      const plan = await planDataFolderRepair(machine(disk), FOLDER, { middle: 'gap' })
      // From this moment on nothing reaches the disk: what a process does after its end.
      for (const each of ['write', 'datasync', 'rename', 'removeFile', 'syncDirectory', 'truncate'] as const) {
        disk.fail({
          operation: each,
          ...(each === operation ? { nth } : { nth: 1_000_000 }),
          times: 1_000_000,
          effect: { kind: 'error', code: 'EIO' },
        })
      }
      const failed = await applyRepair(machine(disk), plan, SILENT).then(
        () => false,
        () => true,
      )
      if (!failed) break
      failures++
      disk.clearFaults()
      const after = nth % 2 === 0 ? disk.processKilled() : disk.powerCut(random)
      const next = await planDataFolderRepair(machine(after, 2), FOLDER, { middle: 'gap' })
      await applyRepair(machine(after, 2), next, SILENT)
      await expectWhole(after, 'gap', 2)
      assert.deepEqual(await valuesIn(after), expected, `${operation} ${nth}`)
    }
  }
  assert.ok(failures > 25, `${failures} failures`)
})

test('whatever bytes are damaged, the repair leads to a folder that the check takes and a broker serves', async () => {
  for (let seed = 0; seed < 20; seed++) {
    const random = new SeededRandom(seed)
    const { values } = await repaired((all) => {
      const logs = [...all.keys()].filter((path) => /\.log$/.test(path) && !path.includes(METADATA_FOLDER))
      for (let count = 1 + random.below(4); count > 0; count--) {
        const path = logs[random.below(logs.length)] as string
        const bytes = all.get(path) as Buffer
        if (random.below(4) === 0) all.set(path, Buffer.from(bytes.subarray(0, random.below(bytes.length))))
        else if (bytes.length > 0) {
          const at = random.below(bytes.length)
          bytes[at] = (bytes[at] as number) ^ (1 << random.below(8))
        }
      }
    })
    for (const [name, found] of values) {
      for (const [offset, value] of found) assert.equal(value, written.get(name)?.get(offset), `seed ${seed}: ${name} at ${offset}`)
    }
  }
})
