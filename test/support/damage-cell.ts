import assert from 'node:assert/strict'
import { SystemClock } from '../../src/core/clock.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { directoryOf } from '../../src/io/atomic-file.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { validateDataFolder } from '../../src/server/offline.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import { abortedIn, type Ending, findFile, makeWorld, nameOf, PARTITIONS, readBatches, type World } from './damage-world.ts'
import { type DiskBroker, diskBroker, machineWith } from './disk-broker.ts'
import { DATA_FOLDER, filesOf, type RecordedLine, recordingLogger } from './storage.ts'

/** A kind of file: which one is hit, and whose other file of the same kind may be put in its place. */
export interface FileKind {
  readonly name: string
  /** Of paths below the data folder, sorted. */
  readonly find: (paths: readonly string[]) => string | undefined
  readonly other?: (paths: readonly string[]) => string | undefined
  /** Partition that suffers; null: the folder as a whole. */
  readonly partition: string | null
}

export const FAULTS = [
  'missing',
  'empty',
  'torn',
  'bit flipped',
  'zeroed',
  'garbage behind',
  'stale copy',
  "another's",
  'lost write',
  'EIO at start',
  'EIO running',
] as const
export type FaultName = (typeof FAULTS)[number]

/** What became of it, from best to worst. Each is checked: nothing that was promised is wrong, and nothing is missing without a word. */
export type Outcome =
  /** Everything is there. */
  | 'whole'
  /** The same, and the log of the broker names the file. */
  | 'said'
  /** The partition goes on without the batches that were hit: reading them is refused by offset. */
  | 'reads refused'
  /** The partition is offline, named with file and reason, its files as they were. */
  | 'offline'
  /** The broker does not start and names the file. */
  | 'no start'
  /** The end of the log was cut, and the broker's log says where. */
  | 'cut'
  /** Consumers of committed records get some of an aborted transaction. */
  | 'ABORTED SHOWN'
  /** Records are missing and nothing tells. */
  | 'SILENT LOSS'

interface Seen {
  readonly outcome: Outcome
  readonly detail: string
}

/** The batch is damaged; the device cannot read it. */
const REFUSALS: ReadonlySet<string> = new Set(['CORRUPT_RECORDS', 'PARTITION_OFFLINE', 'STORAGE_FAILED'])
/** Lines that say that records are gone. */
const LOSSES = new Set(['storage.tail_cut', 'storage.log_missing', 'storage.log_short', 'storage.index_orphaned', 'storage.end_unknown'])
const LOUD = new Set(['warn', 'error'])

async function put(disk: MemoryDisk, path: string, bytes: Buffer): Promise<void> {
  const file = await disk.open(path, 'write')
  await file.truncate(0)
  if (bytes.length > 0) await file.write([bytes], 0)
  await file.datasync()
  await file.close()
  await disk.syncDirectory(directoryOf(path))
}

/** False: there is nothing to do it with. */
async function damage(world: World, kind: FileKind, fault: FaultName, path: string): Promise<boolean> {
  const { disk, older } = world
  const bytes = disk.peek(path) ?? Buffer.alloc(0)
  const replaceWith = async (other: Buffer | undefined | null) => {
    if (other === undefined || other === null || other.equals(bytes)) return false
    await put(disk, path, other)
    return true
  }
  if (fault === 'missing') {
    await disk.removeFile(path)
    await disk.syncDirectory(directoryOf(path))
    return true
  }
  if (fault === 'empty') return replaceWith(Buffer.alloc(0))
  if (fault === 'torn') return replaceWith(bytes.subarray(0, Math.floor((bytes.length * 2) / 3)))
  if (fault === 'bit flipped') {
    if (bytes.length === 0) return false
    disk.corrupt(path, bytes.length >> 1, 4)
    return true
  }
  if (fault === 'zeroed') return replaceWith(Buffer.alloc(bytes.length))
  if (fault === 'garbage behind') {
    const garbage = Buffer.alloc(61)
    const random = new SeededRandom(5)
    for (let at = 0; at < garbage.length; at++) garbage[at] = random.below(256)
    return replaceWith(Buffer.concat([bytes, garbage]))
  }
  if (fault === 'stale copy') return replaceWith(older.get(path))
  if (fault === "another's") {
    const other = kind.other === undefined ? null : await findFile(disk, kind.other)
    return other === null ? false : replaceWith(disk.peek(`${DATA_FOLDER}/${other}`))
  }
  return false
}

function isAbout(line: RecordedLine, what: string): boolean {
  return `${line.text} ${JSON.stringify(line.fields)}`.includes(what)
}

/** Compares a broker with what was promised, partition by partition. */
async function look({ data }: DiskBroker, world: World, kind: FileKind, path: string, lines: readonly RecordedLine[]): Promise<Seen> {
  const loud = lines.filter(({ level }) => LOUD.has(level))
  let seen: Seen = { outcome: 'whole', detail: '' }
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (loud.some((line) => isAbout(line, name) || isAbout(line, directoryOf(path)))) seen = { outcome: 'said', detail: '' }
  for (const each of PARTITIONS) {
    const promised = world.promised.get(nameOf(each))
    if (promised === undefined) continue
    const log = data.logs.get(each)
    const folder = `${DATA_FOLDER}/${nameOf(each)}`
    const mayFail = kind.partition === null || kind.partition === nameOf(each)
    if (log === undefined || log.failure !== null) {
      assert.ok(mayFail, `${nameOf(each)} is offline, and was not touched`)
      assert.ok(
        loud.some((line) => line.level === 'error' && (isAbout(line, folder) || isAbout(line, nameOf(each)))),
        `${nameOf(each)} is offline without a word`,
      )
      seen = { outcome: 'offline', detail: '' }
      continue
    }
    const { batches, refused } = await readBatches(log)
    for (const [offset, bytes] of batches) {
      const original = promised.batches.get(offset)
      assert.ok(original !== undefined, `${nameOf(each)} shows a batch at ${offset} that was never written`)
      assert.ok(original.equals(bytes), `${nameOf(each)} shows a changed batch at ${offset}`)
    }
    if (batches.size === promised.batches.size) {
      assert.equal(log.logEndOffset, promised.endOffset, `the end of ${nameOf(each)}`)
      const aborted = await abortedOnceBuilt(log)
      if (aborted === promised.aborted) continue
      assert.ok(mayFail, `aborted transactions of ${nameOf(each)}, which was not touched`)
      seen = { outcome: aborted === null ? 'reads refused' : 'ABORTED SHOWN', detail: '' }
      continue
    }
    assert.ok(mayFail, `${nameOf(each)} lacks batches, and was not touched`)
    const cut = loud.find((line) => LOSSES.has(line.event) && isAbout(line, folder))
    if (log.logEndOffset >= promised.endOffset) {
      assert.ok(refused instanceof MoonMQError && REFUSALS.has(refused.code), `${nameOf(each)}: ${refused}`)
      seen = { outcome: 'reads refused', detail: '' }
    } else if (cut !== undefined) seen = { outcome: 'cut', detail: cut.text }
    else seen = { outcome: 'SILENT LOSS', detail: `${nameOf(each)} ends at ${log.logEndOffset}, not ${promised.endOffset}` }
  }
  return seen
}

/** Null while the device cannot read the index. */
async function abortedOnceBuilt(log: PartitionLog): Promise<string | null> {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      return abortedIn(log)
    } catch (error) {
      assert.ok(error instanceof MoonMQError && REFUSALS.has(error.code), `${error}`)
      await log.idle()
    }
  }
  return null
}

async function startAndLook(disk: MemoryDisk, world: World, kind: FileKind, path: string, boot: string): Promise<Seen> {
  const lines: RecordedLine[] = []
  let broker: DiskBroker
  try {
    broker = await diskBroker(disk, {}, undefined, { log: recordingLogger(lines), boot })
  } catch (error) {
    const name = path.slice(path.lastIndexOf('/') + 1)
    const text = `${error} ${JSON.stringify((error as { details?: object }).details ?? {})}`
    assert.ok(text.includes(name) || text.includes(directoryOf(path)), `the broker does not start and does not say why: ${text}`)
    return { outcome: 'no start', detail: String(error) }
  }
  try {
    return await look(broker, world, kind, path, lines)
  } finally {
    await broker.close()
  }
}

const worlds = new Map<Ending, Promise<World>>()

/** The same world again and again, each time on a disk of its own. */
async function worldOf(ending: Ending): Promise<World> {
  let made = worlds.get(ending)
  if (made === undefined) {
    made = makeWorld(new MemoryDisk({ clock: new SystemClock() }), ending)
    worlds.set(ending, made)
  }
  const world = await made
  return { ...world, disk: world.disk.copy() }
}

/** One whose last writes to a file were reported and never done; null: nothing was written there. */
async function worldThatLost(ending: Ending, path: string): Promise<World | null> {
  let hits = 0
  const pattern = new RegExp(`${path.replace(/[.+]/g, '\\$&')}(\\.tmp)?$`)
  const beforeLast = (running: MemoryDisk) => {
    running.fail({ operation: 'write', path: pattern, effect: { kind: 'lostWrite' }, onHit: () => hits++ })
  }
  const world = await makeWorld(new MemoryDisk({ clock: new SystemClock() }), ending, { beforeLast })
  return hits === 0 ? null : world
}

/** One cell of the table; null: there is no such file after this ending, or the fault would change nothing. */
export async function runCell(kind: FileKind, fault: FaultName, ending: Ending): Promise<Outcome | null> {
  let world: World | null = await worldOf(ending)
  const found = await findFile(world.disk, kind.find)
  if (found === null) return null
  const path = `${DATA_FOLDER}/${found}`
  if (fault === 'lost write') world = await worldThatLost(ending, path)
  if (world === null) return null
  const boot = ending === 'power' ? 'boot-2' : 'boot-1'
  if (fault === 'EIO at start') {
    const isHit = { value: false }
    const effect = { kind: 'error', code: 'EIO' } as const
    const heal = world.disk.fail({ operation: 'read', path, times: 1_000_000, effect, onHit: () => (isHit.value = true) })
    const seen = await startAndLook(world.disk, world, kind, path, boot)
    heal()
    const after = await startAndLook(world.disk, world, kind, path, boot)
    assert.ok(after.outcome === 'whole' || after.outcome === 'said', `healed, and ${after.outcome}: ${after.detail}`)
    return isHit.value ? seen.outcome : null
  }
  if (fault === 'EIO running') return await eioWhileRunning(world, kind, path, boot)
  if (fault !== 'lost write' && !(await damage(world, kind, fault, path))) return null
  const isFound = await isFoundByValidate(world, kind, path)
  const isLog = kind.name.startsWith('log')
  const before = isLog ? await filesOf(world.disk, directoryOf(path)) : new Map<string, Buffer>()
  const seen = await startAndLook(world.disk, world, kind, path, boot)
  if (seen.outcome === 'offline' && isLog) {
    const after = await filesOf(world.disk, directoryOf(path))
    for (const [name, bytes] of before) {
      if (name.endsWith('.log')) assert.ok(after.get(name)?.equals(bytes), `${name} was changed although it is damaged`)
    }
  }
  assert.ok(isFound || seen.outcome === 'SILENT LOSS', 'validate finds nothing wrong')
  const again = await startAndLook(world.disk, world, kind, path, boot)
  const isBetter = again.outcome === 'whole' || again.outcome === 'said'
  assert.ok(isBetter || again.outcome === seen.outcome || seen.outcome === 'cut', `${seen.outcome}, at the next start ${again.outcome}`)
  return seen.outcome
}

/** Damage in a log is found by `moonmq validate` too, with the byte. */
async function isFoundByValidate(world: World, kind: FileKind, path: string): Promise<boolean> {
  if (!kind.name.startsWith('log')) return true
  const report = await validateDataFolder(machineWith(world.disk), DATA_FOLDER)
  const folder = directoryOf(path).slice(DATA_FOLDER.length + 1)
  const found = [...report.problems, ...report.repairs].filter(({ file }) => file.startsWith(folder))
  return found.length > 0
}

async function eioWhileRunning(world: World, kind: FileKind, path: string, boot: string): Promise<Outcome | null> {
  const lines: RecordedLine[] = []
  const broker = await diskBroker(world.disk, {}, undefined, { log: recordingLogger(lines), boot })
  let isHit = false
  const effect = { kind: 'error', code: 'EIO' } as const
  const onHit = () => {
    isHit = true
  }
  const heal = world.disk.fail({ operation: 'read', path, times: 1_000_000, effect, onHit })
  let outcome: Outcome
  try {
    const errors: unknown[] = []
    for (const each of PARTITIONS) {
      const log = broker.data.logs.get(each)
      assert.ok(log !== undefined)
      const { refused } = await readBatches(log)
      if (refused !== null) errors.push(refused)
      try {
        log.abortedTransactions(log.logStartOffset, log.highWatermark)
        await log.offsetForTimestamp(Date.UTC(2026, 0) + 3, log.highWatermark)
      } catch (error) {
        errors.push(error)
      }
    }
    for (const error of errors) assert.ok(error instanceof MoonMQError && REFUSALS.has(error.code), `${error}`)
    outcome = errors.length > 0 ? 'reads refused' : 'whole'
  } finally {
    heal()
    await broker.close()
  }
  const after = await startAndLook(world.disk, world, kind, path, boot)
  assert.ok(after.outcome === 'whole' || after.outcome === 'said', `healed, and ${after.outcome}: ${after.detail}`)
  return isHit ? outcome : null
}
