import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, test } from 'node:test'
import { buildBatch } from '../../src/record/builder.ts'
import { type DumpTool, dumpToolMissing, filesOf, openDumpTool } from '../support/kafka-dump.ts'
import { inRoot } from '../support/root.ts'
import { writeStoredFolder } from '../support/stored-folder.ts'

/** Kafka's dump tool reads what storage and metadata wrote: the judge that shares no code with them. */

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Kafka's dump tool: ${missing}`
const folder = mkdtempSync(join(tmpdir(), 'moonmq-dump-'))
let tool: DumpTool

before(async () => {
  if (skip !== false) return
  tool = await openDumpTool(inRoot('test', 'conformance', 'pom.xml'))
  await writeStoredFolder(folder)
})

after(() => rmSync(folder, { recursive: true, force: true }))

/** Records that are not what their topic holds. */
const PLANTED: readonly (readonly [option: string, record: { key: Buffer | null; value: Buffer | null }])[] = [
  ['--offsets-decoder', { key: Buffer.from('000100', 'hex'), value: null }],
  ['--offsets-decoder', { key: Buffer.from('7fff0000', 'hex'), value: null }],
  ['--transaction-log-decoder', { key: Buffer.from('0000', 'hex'), value: null }],
  ['--cluster-metadata-decoder', { key: null, value: Buffer.from('01630000', 'hex') }],
  ['--cluster-metadata-decoder', { key: null, value: Buffer.from('0102', 'hex') }],
]

const PLAIN = ['orders-0', 'dense-0', 'stamped-0', 'payments-0']
const ALL = [...PLAIN, 'latest-0', '__consumer_offsets-0', '__transaction_state-0', '__cluster_metadata-0']

function files(kind: keyof ReturnType<typeof filesOf>, folders: readonly string[] = ALL): string[] {
  return folders.flatMap((name) => filesOf(join(folder, name))[kind])
}

async function expectClean(paths: readonly string[], options: readonly string[]): Promise<string> {
  assert.ok(paths.length > 0, 'no file to dump')
  const { text, findings } = await tool.dump(paths, options)
  assert.deepEqual(findings, [])
  for (const path of paths) assert.ok(text.includes(`Dumping ${path}`), `nothing was said of ${path}`)
  return text
}

test('logs with their records', { skip }, async () => {
  assert.ok(files('log', ['orders-0']).length >= 3, 'there are several segments')
  const text = await expectClean(files('log', PLAIN), ['--deep-iteration'])
  for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) assert.ok(text.includes(`compresscodec: ${codec}`), codec)
  assert.match(text, /isControl: true/)
  await expectClean(files('log', PLAIN), ['--print-data-log'])
})

test('offsets and groups', { skip }, async () => {
  const text = await expectClean(files('log', ['__consumer_offsets-0']), ['--offsets-decoder'])
  assert.match(text, /offset_commit|OffsetCommit|"group":"group-1"/i)
})

test('transactions', { skip }, async () => {
  const text = await expectClean(files('log', ['__transaction_state-0']), ['--transaction-log-decoder'])
  assert.match(text, /tx-1/)
})

test('the metadata log and its snapshots', { skip }, async () => {
  const paths = [...files('log', ['__cluster_metadata-0']), ...files('checkpoint', ['__cluster_metadata-0'])]
  assert.ok(paths.some((path) => path.endsWith('.checkpoint')))
  const text = await expectClean(paths, ['--cluster-metadata-decoder'])
  for (const record of ['TOPIC_RECORD', 'PARTITION_RECORD', 'CONFIG_RECORD', 'REMOVE_TOPIC_RECORD', 'REGISTER_BROKER_RECORD'])
    assert.ok(text.includes(`"${record}"`), record)
  for (const control of ['LeaderChange', 'SnapshotHeader', 'SnapshotFooter']) assert.ok(text.includes(control), control)
})

test('offset and time indexes, entry by entry and as a broker checks them at its start', { skip }, async () => {
  const paths = [...files('index'), ...files('timeindex')]
  const text = await expectClean(paths, [])
  assert.ok((text.match(/^offset: \d+ position: \d+/gm) ?? []).length > 50, 'there are entries')
  await expectClean(paths, ['--index-sanity-check'])
  await expectClean(files('index'), ['--verify-index-only'])
})

test('producer snapshots and aborted transactions', { skip }, async () => {
  assert.match(await expectClean(files('snapshot'), []), /producerId: 50[012]/)
  assert.match(await expectClean(files('txnindex', ['payments-0']), []), /producerId: 50[012]/)
})

test('the judge finds what is planted', { skip }, async () => {
  const copy = mkdtempSync(join(tmpdir(), 'moonmq-dump-broken-'))
  try {
    cpSync(join(folder, 'orders-0'), copy, { recursive: true })
    const name = readdirSync(copy).find((each) => each.endsWith('.log'))
    assert.ok(name)
    const judge = async (damaged: string, change: (bytes: Buffer) => void, options: readonly string[]) => {
      const path = join(copy, damaged)
      const whole = readFileSync(path)
      const bytes = Buffer.from(whole)
      change(bytes)
      writeFileSync(path, bytes)
      const { findings } = await tool.dump([path], options)
      writeFileSync(path, whole)
      assert.notDeepEqual(findings, [], damaged)
    }
    await judge(name, (bytes) => void bytes.writeUInt8((bytes[80] as number) ^ 1, 80), ['--deep-iteration'])
    const stem = basename(name, '.log')
    await judge(`${stem}.index`, (bytes) => void bytes.writeUInt32BE(bytes.readUInt32BE(0) + 1, 0), [])
    await judge(`${stem}.timeindex`, (bytes) => void bytes.writeUInt32BE(bytes.readUInt32BE(8) + 1, 8), [])
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
})

test('the judge finds a record that its decoder cannot read', { skip }, async () => {
  const copy = mkdtempSync(join(tmpdir(), 'moonmq-dump-records-'))
  try {
    const path = join(copy, '00000000000000000000.log')
    for (const [option, record] of PLANTED) {
      writeFileSync(path, buildBatch([{ ...record, timestampMs: 1_700_000_000_000 }]))
      const { findings } = await tool.dump([path], [option])
      assert.notDeepEqual(findings, [], option)
    }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
})
