import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { CliContext } from '../../../src/cli/context.ts'
import { EXIT, guarded, UsageError } from '../../../src/cli/context.ts'
import { bytesText, jsonBytes, shown, table } from '../../../src/cli/output.ts'
import { mergeByTimestamp } from '../../../src/client/merge.ts'
import type { ClientRecord } from '../../../src/client/types.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { tableText } from '../../../src/core/text.ts'

function testContext(): CliContext & { readonly lines: string[] } {
  const lines: string[] = []
  return {
    lines,
    out: (text) => lines.push(text),
    err: (text) => lines.push(text),
    stdin: Readable.from([]),
    stdinIsTerminal: false,
    errIsTerminal: false,
    colour: false,
    env: {},
    cwd: '/',
    signal: new AbortController().signal,
  }
}

function record(partition: number, offset: number, timestampMs: number): ClientRecord {
  return { topic: 't', partition, offset, timestampMs, key: null, value: null, headers: [] }
}

async function* stream(...records: ClientRecord[]): AsyncGenerator<ClientRecord> {
  yield* records
}

test('a table counts cells of the terminal: wide characters take two, marks none', () => {
  assert.equal(
    tableText(
      ['A', 'B'],
      [
        ['日本', 1],
        ['e\u0301', 2],
        ['😀', 3],
      ],
    ),
    'A     B\n日本  1\ne\u0301     2\n😀    3\n',
  )
})

test('merge: by time across partitions, by offset within one, equal times by partition', async () => {
  const out: string[] = []
  const sources = [stream(record(0, 0, 10), record(0, 1, 5), record(0, 2, 30)), stream(record(1, 0, 10), record(1, 1, 20)), stream()]
  for await (const each of mergeByTimestamp(sources)) out.push(`${each.partition}:${each.offset}`)
  assert.deepEqual(out, ['0:0', '0:1', '1:0', '1:1', '0:2'])
})

test('merge: ends its sources when the reader has enough', async () => {
  let closed = 0
  async function* endless(partition: number): AsyncGenerator<ClientRecord> {
    try {
      for (let offset = 0; ; offset++) yield record(partition, offset, offset)
    } finally {
      closed++
    }
  }
  for await (const _ of mergeByTimestamp([endless(0), endless(1)])) break
  assert.equal(closed, 2)
})

test('table: columns line up, numbers to the right', () => {
  assert.equal(
    table(
      testContext(),
      ['TOPIC', 'N'],
      [
        ['orders', 5],
        ['a', 1000],
      ],
    ),
    'TOPIC      N\norders     5\na       1000\n',
  )
})

test('bytes: text as text, control characters and other bytes as base64', () => {
  assert.equal(shown(Buffer.from('héllo')), 'héllo')
  assert.equal(shown(null), 'null')
  assert.equal(shown(Buffer.from('\u001b[31m')), 'base64:G1szMW0=')
  assert.equal(shown(Buffer.from([0xff, 0xfe])), 'base64://4=')
  assert.deepEqual(jsonBytes('value', Buffer.from([0xff])), { valueBase64: '/w==' })
  assert.deepEqual(jsonBytes('value', Buffer.from('a\nb')), { value: 'a\nb' })
  assert.equal(bytesText(1536), '1.5 KiB')
  assert.equal(bytesText(5), '5 B')
})

test('errors become a line and an exit code', async () => {
  const context = testContext()
  assert.equal(await guarded(context, () => Promise.reject(new UsageError('--max x: expected'))), EXIT.usage)
  assert.equal(await guarded(context, () => Promise.reject(new MoonMQError('TOPIC_MISSING', { topic: 'x' }))), EXIT.notFound)
  assert.equal(await guarded(context, () => Promise.reject(new Error('odd'))), EXIT.failed)
  assert.deepEqual(context.lines, [
    '--max x: expected\n',
    'moonmq: topic "x" does not exist (TOPIC_MISSING)\nTopics are made with: moonmq topic create NAME\n',
    'moonmq: internal error: odd (INTERNAL)\n',
  ])
})
