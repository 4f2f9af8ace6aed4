import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { crc32c } from '../../../src/core/crc32c.ts'
import { isCode } from '../../../src/core/errors.ts'
import { SeededRandom } from '../../../src/core/random.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { ROOT_FILES } from '../../../src/storage/checkpoint.ts'
import { openIdentity } from '../../../src/storage/identity.ts'
import { readJournal } from '../../../src/storage/journal-content.ts'
import { JOURNAL_BLOCK_BYTES, JOURNAL_FILE } from '../../../src/storage/journal-format.ts'
import { decodeJournalNote, readJournalNote } from '../../../src/storage/journal-note.ts'
import type { LogManager } from '../../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../../src/storage/partition-log.ts'
import { LOG_CONFIG } from '../../support/log-config.ts'
import { appendTo, DATA_FOLDER, openManager, type RecordedLine, readAll, TOPIC_ID } from '../../support/storage.ts'

const JOURNAL = `${DATA_FOLDER}/${JOURNAL_FILE}`
const NOTE = `${DATA_FOLDER}/${ROOT_FILES['journal-note']}`
const COUNT = 6
const CUT = { writes: 'none', names: 'none' } as const

interface Opened {
  readonly disk: MemoryDisk
  readonly manager: LogManager
  readonly logs: PartitionLog[]
  readonly lines: RecordedLine[]
}

async function open(disk: MemoryDisk, boot: string, count = COUNT): Promise<Opened> {
  const lines: RecordedLine[] = []
  const manager = await openManager(disk, {
    lines,
    boot,
    manager: { groupCommit: { journalFrom: 4 }, journalAreaBytes: 16 * JOURNAL_BLOCK_BYTES },
  })
  const logs: PartitionLog[] = []
  for (let partition = 0; partition < count; partition++) {
    logs.push(await manager.open({ topic: 't', partition, topicId: TOPIC_ID, config: LOG_CONFIG, maxEpoch: 100 }))
  }
  return { disk, manager, logs, lines }
}

async function moment(logs: readonly PartitionLog[]): Promise<void> {
  await Promise.all(logs.map((log) => log.whenDurable(appendTo(log, ['x']).lastOffset + 1)))
}

/** One record of each log is in the files, two more are in the journal alone. */
async function used(seed = 1): Promise<Opened> {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  await disk.makeDirectory(DATA_FOLDER)
  await openIdentity({ disk, random: new SeededRandom(seed) }, { folder: DATA_FOLDER, nodeId: 1 })
  const opened = await open(disk, 'boot-1')
  await moment(opened.logs)
  while ((await readJournalNote(disk, DATA_FOLDER)) === null) await new Promise(setImmediate)
  await opened.manager.checkpoint()
  while (opened.logs.some((log) => log.recoveryPoint < 1)) await new Promise(setImmediate)
  for (let round = 0; round < 2; round++) await moment(opened.logs)
  return opened
}

async function replace(disk: MemoryDisk, bytes: Buffer): Promise<void> {
  const file = await disk.open(JOURNAL, 'write')
  await file.truncate(0)
  await file.write([bytes], 0)
  await file.datasync()
  await file.close()
}

const ends = (logs: readonly PartitionLog[]) => Promise.all(logs.map(async (log) => (await readAll(log)).length))
const named = (lines: readonly RecordedLine[]) => lines.filter((line) => line.event === 'storage.end_unknown').length
const reason = (lines: readonly RecordedLine[]) => lines.find((line) => line.event === 'storage.journal_damaged')?.text ?? ''

test('a journal that is gone after a power cut: every log is named until all were, then another one is used', async () => {
  const { disk } = await used()
  const cut = disk.powerCut(new SeededRandom(1), CUT)
  await cut.removeFile(JOURNAL)
  await cut.syncDirectory(DATA_FOLDER)
  // A start that ends before it has opened them all hides nothing.
  const some = await open(cut, 'boot-2', COUNT - 1)
  assert.match(reason(some.lines), /missing/)
  assert.equal(named(some.lines), COUNT - 1)
  await some.manager.checkpoint()
  const again = await open(some.disk.processKilled(), 'boot-2')
  assert.equal(named(again.lines), COUNT)
  assert.deepEqual(await ends(again.logs), Array(COUNT).fill(1))
  await moment(again.logs)
  assert.equal(again.disk.peek(JOURNAL), null)
  await again.manager.checkpoint()
  assert.equal(again.disk.peek(NOTE), null)
  await moment(again.logs)
  while (again.disk.peek(NOTE) === null) await new Promise(setImmediate)
  await again.manager.close()
  assert.equal(again.disk.peek(NOTE), null)
  const last = await open(again.disk.processKilled(), 'boot-2')
  assert.equal(named(last.lines), 0)
  await last.manager.close()
})

test('a journal that is gone after the process was killed: every log is named, since files may have had their bytes later', async () => {
  const { disk } = await used()
  const left = disk.processKilled()
  await left.removeFile(JOURNAL)
  const after = await open(left, 'boot-1')
  assert.match(reason(after.lines), /missing/)
  assert.equal(named(after.lines), COUNT)
  for (const count of await ends(after.logs)) assert.ok(count >= 1 && count <= 3)
  await after.manager.checkpoint()
  assert.equal(left.peek(NOTE), null)
  await after.manager.close()
})

test('the journal of another data folder is not replayed, with a note and without one', async () => {
  const bytes = (await used(2)).disk.peek(JOURNAL)
  assert.ok(bytes !== null)
  for (const hasNote of [true, false]) {
    const { disk } = await used()
    const cut = disk.powerCut(new SeededRandom(1), CUT)
    await replace(cut, bytes)
    if (!hasNote) await cut.removeFile(NOTE)
    const after = await open(cut, 'boot-2')
    assert.match(reason(after.lines), /belongs to the data folder/)
    assert.equal(named(after.lines), hasNote ? COUNT : 0)
    assert.deepEqual(await ends(after.logs), Array(COUNT).fill(1))
    assert.ok(cut.peek(`${JOURNAL}.damaged`)?.equals(bytes))
    await after.manager.close()
  }
})

test('an older copy of the same journal lacks frames that a checkpoint counted', async () => {
  const { disk, manager, logs } = await used()
  const older = Buffer.from(disk.peek(JOURNAL) ?? [])
  await moment(logs)
  await manager.checkpoint()
  await moment(logs)
  const cut = disk.powerCut(new SeededRandom(1), CUT)
  await replace(cut, older)
  const after = await open(cut, 'boot-2')
  assert.match(reason(after.lines), /\d frames were durable, the newest that is there is number \d/)
  assert.equal(named(after.lines), COUNT)
  await after.manager.close()
})

/** Its first and its last block as another version writes them, with the CRC behind the fields that it has. */
function headed(journal: Buffer, version: string, fieldBytes: number): Buffer {
  const block = Buffer.alloc(JOURNAL_BLOCK_BYTES)
  journal.copy(block, 0, 0, fieldBytes)
  block.write(version, 'latin1')
  block.writeUInt32BE(crc32c(block, 0, fieldBytes), fieldBytes)
  return Buffer.concat([block, journal.subarray(JOURNAL_BLOCK_BYTES, -JOURNAL_BLOCK_BYTES), block])
}

test('a journal of the first version, which named no data folder and had no note, is replayed', async () => {
  for (const damagesFirstBlock of [false, true]) {
    const { disk } = await used()
    const cut = disk.powerCut(new SeededRandom(1), CUT)
    const bytes = headed(cut.peek(JOURNAL) ?? Buffer.alloc(0), 'MJH1', 24)
    await replace(cut, damagesFirstBlock ? bytes.fill(0, 0, JOURNAL_BLOCK_BYTES) : bytes)
    await cut.removeFile(NOTE)
    const after = await open(cut, 'boot-2')
    assert.deepEqual(await ends(after.logs), Array(COUNT).fill(3))
    assert.equal(reason(after.lines), '')
    assert.equal(cut.peek(JOURNAL), null)
    await after.manager.close()
  }
})

test('a note of the first version, which told of no logs that were cut, is read; one that is cut short is damage', async () => {
  const { disk } = await used()
  const now = disk.peek(NOTE) ?? Buffer.alloc(0)
  const first = Buffer.concat([now.subarray(0, -8), Buffer.alloc(4)])
  first[5] = 1
  first.writeUInt32BE(crc32c(first, 0, first.length - 4), first.length - 4)
  assert.deepEqual(decodeJournalNote(first, NOTE), decodeJournalNote(now, NOTE))
  const short = Buffer.concat([now.subarray(0, -8), Buffer.alloc(4)])
  short.writeUInt32BE(crc32c(short, 0, short.length - 4), short.length - 4)
  assert.throws(
    () => decodeJournalNote(short, NOTE),
    (error) => isCode(error, 'DATA_DAMAGED'),
  )
  const many = Buffer.from(now)
  many.writeInt32BE(1000, many.length - 8)
  many.writeUInt32BE(crc32c(many, 0, many.length - 4), many.length - 4)
  assert.throws(
    () => decodeJournalNote(many, NOTE),
    (error) => isCode(error, 'DATA_DAMAGED'),
  )
})

test('a journal of a later version stops the start and stays as it is, until its own version has emptied it', async () => {
  for (const hadPowerCut of [true, false]) {
    const { disk } = await used()
    const left = hadPowerCut ? disk.powerCut(new SeededRandom(1), CUT) : disk.processKilled()
    const bytes = headed(left.peek(JOURNAL) ?? Buffer.alloc(0), 'MJH3', 60)
    await replace(left, bytes)
    for (const boot of ['boot-1', 'boot-2']) {
      await assert.rejects(
        open(left, boot),
        (error) => isCode(error, 'DATA_DAMAGED') && /MJH3.*start the MoonMQ that wrote it/.test(error.message),
      )
    }
    assert.ok(left.peek(JOURNAL)?.equals(bytes))
    assert.match((await readJournal(left, DATA_FOLDER))?.reason ?? '', /version MJH3/)
  }
})
