import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { ZERO_UUID } from '../../src/core/uuid.ts'
import { NodeDisk } from '../../src/io/node-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { writeCleanLogs } from '../../src/storage/clean-logs.ts'
import { writeCompactionNote } from '../../src/storage/compaction/note.ts'
import { encodeFrame, encodeHead, JOURNAL_FILE } from '../../src/storage/journal-format.ts'
import { writeJournalNote } from '../../src/storage/journal-note.ts'
import { writeRetentionNote } from '../../src/storage/retention-note.ts'
import { cliIn } from '../support/cli.ts'
import { writeStoredFolder } from '../support/stored-folder.ts'

/** The commands that read files without a broker, run in this process on a folder of the machine's disk. */

const root = mkdtempSync(join(tmpdir(), 'moonmq-offline-'))
const folder = join(root, 'data')

before(() => writeStoredFolder(folder))
after(() => rmSync(root, { recursive: true, force: true }))

const cli = (...argv: string[]) => cliIn(root, argv)

function lines(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

test('dump: every record of a partition once and in order, by its folder, its name or its files', async () => {
  const whole = await cli('log', 'dump', 'data/orders-0', '--json')
  assert.equal(whole.code, 0, whole.err)
  const offsets = lines(whole.out).map((line) => line['offset'])
  assert.deepEqual(
    offsets,
    Array.from({ length: 1270 }, (_, index) => index),
  )
  const named = await cli('log', 'dump', 'orders-0', '--data', 'data', '--json')
  assert.equal(named.out, whole.out)
  const files = readdirSync(join(folder, 'orders-0')).filter((name) => name.endsWith('.log'))
  assert.ok(files.length > 1)
  const single = await cli('log', 'dump', ...files.map((name) => `data/orders-0/${name}`), '--json')
  assert.equal(single.out, whole.out)
})

test('dump: a range of offsets, a number of lines, and batches', async () => {
  const range = lines((await cli('log', 'dump', 'data/orders-0', '--from', '700', '--to', '710', '--json')).out)
  assert.deepEqual(
    range.map((line) => line['offset']),
    [700, 701, 702, 703, 704, 705, 706, 707, 708, 709],
  )
  assert.equal(lines((await cli('log', 'dump', 'data/orders-0', 'data/dense-0', '--json', '-n', '7')).out).length, 7)
  const batches = lines((await cli('log', 'dump', 'data/orders-0', '--batches', '--json')).out)
  assert.equal(
    batches.reduce((sum, batch) => sum + Number(batch['recordCount']), 0),
    1270,
  )
  assert.deepEqual([...new Set(batches.map((batch) => batch['codec']))].sort(), ['gzip', 'lz4', 'none', 'snappy', 'zstd'])
})

test('dump: transactions show their ends, internal topics what they say, side files their entries', async () => {
  const payments = await cli('log', 'dump', 'data/payments-0', '--side-files')
  assert.equal(payments.code, 0, payments.out)
  assert.match(payments.out, /control abort of producer 501 epoch 1 +\{"coordinatorEpoch":4\}/)
  assert.match(payments.out, /control commit of producer 502/)
  assert.match(payments.out, /aborted +producer 501 +offsets 46-54/)
  assert.match(payments.out, /producer 500 +epoch 1 +coordinator epoch 4 +open transaction from 43/)
  assert.match(payments.out, /epoch 3 +from offset 0/)
  assert.match((await cli('log', 'dump', 'data/__consumer_offsets-0')).out, /OffsetCommit +\{"key":\{"group":"group-0","topic":"orders"/)
  assert.match((await cli('log', 'dump', 'data/__transaction_state-0')).out, /TransactionLog +\{"key":\{"transactionalId":"tx-0"\}/)
  const metadata = await cli('log', 'dump', 'data/__cluster_metadata-0', '--side-files')
  assert.match(metadata.out, /TopicRecord +\{"version":0,"name":"payments"/)
  assert.match(metadata.out, /control snapshotFooter/)
  assert.match((await cli('log', 'dump', 'data/moonmq-recovery-points', 'data/moonmq-clean-shutdown')).out, /stopped in order at 20/)
})

test('dump: the journal, and the notes of retention, of compaction and of the last stop', async () => {
  const disk = new NodeDisk({ poolSize: 4 })
  const own = join(root, 'own')
  await disk.makeDirectory(own)
  const id = 'AAAAAAAAQACAAAAAAAAAAQ'
  await writeRetentionNote(disk, own, {
    clock: { wallMs: 1_700_000_000_000, believedMs: 1_600_000_000_000, steadyMs: 5000 },
    known: [{ topicId: id, partition: 3, baseOffset: 40, sinceSteadyMs: 70 }],
  })
  await writeCompactionNote(disk, own, { holesBelow: 90, cleanedOffset: 80, nextHorizonMs: 1_700_000_000_000 })
  const times = { folderModifiedMs: 1, activeModifiedMs: 2, indexEntries: null, timeIndexEntries: null, maxTimestamp: null }
  const rest = { bytesSinceIndexEntry: 0, epochs: [{ leaderEpoch: 2, startOffset: 5 }], producers: Buffer.alloc(0) }
  const clean = {
    topicId: id,
    partition: 1,
    logStartOffset: 5,
    endOffset: 9,
    segments: [{ baseOffset: 5, sizeBytes: 700 }],
    ...times,
    ...rest,
  }
  await writeCleanLogs(disk, own, 1_700_000_000_000, [clean])
  const owner = { topic: 'orders', partition: 7, topicId: id }
  const records = { kind: 'records', owner, segmentBase: 0, position: 100, startOffset: 4, endOffset: 6, syncedOffset: 4 } as const
  const frame = encodeFrame(id, {
    sequence: 8,
    oldestLive: 8,
    entries: [
      { ...records, parts: [Buffer.alloc(10)], sizeBytes: 10 },
      { kind: 'epochs', owner, epochs: [{ leaderEpoch: 3, startOffset: 4 }] },
      { kind: 'forget', owner },
    ],
  })
  const head = encodeHead({ id, areaBytes: frame.length, directoryId: ZERO_UUID })
  writeFileSync(join(own, JOURNAL_FILE), Buffer.concat([head, frame, Buffer.alloc(frame.length), head]))
  await writeJournalNote(disk, own, { journalId: id, throughFrame: 8, forgotten: [] })
  const files = ['moonmq-retention-clock', 'moonmq-compaction', 'moonmq-clean-logs', 'moonmq-journal-note', 'moonmq-journal'].map(
    (name) => `own/${name}`,
  )
  const text = await cli('log', 'dump', ...files)
  assert.equal(text.code, 0, text.err)
  assert.match(text.out, /clock 2023-11-14T22:13:20\.000Z +believed 2020-09-13T12:26:40\.000Z/)
  assert.match(text.out, /impossible times .* partition 3 +segment 40/)
  assert.match(text.out, /holes below offset 90 +compacted below offset 80/)
  assert.match(text.out, /partition 1 +offsets 5 to 9 +segments 1 +bytes 700/)
  assert.match(text.out, /journal AAAAAAAAQACAAAAAAAAAAQ +durable through frame 8/)
  assert.match(text.out, /frame 8 +bytes 4096 +entries 3/)
  assert.match(text.out, /orders-7 .*offsets 4 to 5 +10 bytes for segment 0 at byte 100/)
  assert.match(text.out, /orders-7 .*epochs 3 from 4/)
  assert.match(text.out, /orders-7 .*forget/)
  const kinds = lines((await cli('log', 'dump', ...files, '--json')).out).map((line) => line['kind'])
  assert.deepEqual(kinds, [
    'retention-clock',
    'impossible-times',
    'compaction',
    'clean-logs',
    'clean-log',
    'journal-note',
    'frame',
    'records',
    'epochs',
    'forget',
  ])
})

test('repair: a folder without a metadata log gets no empty one, and what is no data folder is said to be none', async () => {
  const lost = join(root, 'lost')
  cpSync(folder, lost, { recursive: true })
  rmSync(join(lost, '__cluster_metadata-0'), { recursive: true })
  const repair = await cli('log', 'repair', 'lost', '--yes')
  assert.equal(repair.code, 1)
  assert.match(repair.out, /not repaired __cluster_metadata-0: the metadata log is missing.*moonmq import/)
  assert.ok(!readdirSync(lost).includes('__cluster_metadata-0'))
  mkdirSync(join(root, 'nothing'))
  // What the journal holds gets into the logs all the same: an import of them needs it.
  const journal = join(lost, JOURNAL_FILE)
  writeFileSync(journal, '')
  rmSync(join(lost, 'moonmq-clean-shutdown'))
  assert.equal((await cli('log', 'repair', 'lost', '--yes')).code, 1)
  assert.equal(existsSync(journal), false)
  // The data folder may be called like a partition.
  cpSync(folder, join(root, 'broker-1'), { recursive: true })
  const alike = await cli('log', 'repair', 'broker-1')
  assert.match(alike.out, /^not repaired orders-0: /m)
  const nothing = await cli('log', 'repair', 'nothing')
  assert.equal(nothing.code, 3)
  assert.match(nothing.err, /nothing is no data folder/)
})

test('dump: large values are cut with a note, bytes that are no text are shown as such, control characters never reach a terminal', async () => {
  const path = join(root, 'values.log')
  const record = (value: Buffer) => ({ key: Buffer.from('k\u001b[2J'), value, timestampMs: 1 })
  writeFileSync(path, buildBatch([record(Buffer.alloc(5000, 'x')), record(Buffer.from([0xff, 0xfe, 1])), record(Buffer.from('größe'))]))
  const { out } = await cli('log', 'dump', 'values.log', '--max-value-bytes', '10')
  assert.match(out, /value "xxxxxxxxxx"… \(5000 bytes, 10 shown\)/)
  assert.match(out, /value 0xfffe01/)
  assert.match(out, /value "größe"/)
  assert.ok(!out.includes('\u001b'))
  const hex = await cli('log', 'dump', 'values.log', '--hex', '--json', '--max-value-bytes', '2')
  assert.deepEqual(lines(hex.out)[0]?.['valueHex'], '7878')
  assert.deepEqual([lines(hex.out)[0]?.['valueBytes'], lines(hex.out)[0]?.['valueCut']], [5000, true])
})

test('dump: damage is reported with its byte, and the batches behind it are shown', async () => {
  const copy = join(root, 'damaged-0')
  cpSync(join(folder, 'orders-0'), copy, { recursive: true })
  const path = join(copy, '00000000000000000000.log')
  const bytes = readFileSync(path)
  bytes.writeUInt8((bytes[700] as number) ^ 1, 700)
  writeFileSync(path, bytes)
  const text = await cli('log', 'dump', 'damaged-0', '--batches')
  assert.equal(text.code, 1)
  assert.match(
    text.out,
    /!! damaged at byte 394: the checksum does not fit the bytes; 636 bytes are no batch, the next whole batch begins at byte 1030/,
  )
  assert.match(text.out, /no batch has the offsets 15 to 41/)
  assert.match(text.out, /offsets 42-81 +byte 1030/)
  const json = lines((await cli('log', 'dump', 'damaged-0', '--json')).out)
  assert.deepEqual(
    json.filter((line) => line['kind'] === 'damage').map((line) => line['position']),
    [394],
  )
  assert.equal(json.filter((line) => line['kind'] === 'record').length, 1270 - 27)
})

test('dump: what is not there or is no log is refused with an exit code that says so', async () => {
  const missing = await cli('log', 'dump', 'nothing-0')
  assert.equal(missing.code, 3)
  assert.match(missing.err, /no file or folder nothing-0/)
  const root = await cli('log', 'dump', 'data')
  assert.equal(root.code, 2)
  assert.match(root.err, /it holds the partitions .*orders-0/)
  assert.equal((await cli('log', 'dump', 'data/orders-0', '--decode', 'letters')).code, 2)
})

test('validate: a summary with counts by kind, progress on request only', async () => {
  const quiet = await cli('validate', 'data')
  assert.equal(quiet.code, 1, 'the folder has no identity')
  assert.equal(quiet.err, '')
  assert.match(quiet.out, /302 batches read in/)
  assert.match(quiet.out, /problems: \d in meta\.properties/)
  const told = await cli('validate', '--data', 'data', '--progress', '--json')
  assert.match(told.err, /^\d+ % of .* __\w+-\d+/)
  const report = JSON.parse(told.out)
  assert.equal(report.ok, false)
  assert.deepEqual(Object.keys(report.kinds), ['problems', 'repairs', 'notes'])
  assert.equal(typeof report.elapsedMs, 'number')
})
