import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCode, MoonMQError } from '../../../src/core/errors.ts'
import { MIB } from '../../../src/core/limits.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { Executor } from '../../../src/mql/executor.ts'
import { jsonLines, type Result, textResult } from '../../../src/mql/format.ts'
import type { ConnectTo } from '../../../src/mql/operations.ts'
import { parse } from '../../../src/mql/parser.ts'
import type { ScanLimits } from '../../../src/mql/select.ts'
import { FakeOperations, fakeRecord } from '../../support/fake-operations.ts'

const NOW_MS = 1_000_000

async function session(scan: Partial<ScanLimits> = {}, clock = new VirtualClock(NOW_MS)) {
  const operations = new FakeOperations()
  const asked: ConnectTo[] = []
  const connect = async (to: ConnectTo) => {
    asked.push(to)
    return operations
  }
  const executor = new Executor({ connect, clock }, { session: { host: 'h', port: 1, user: 'u', password: 'p' }, scan })
  await executor.open(new AbortController().signal)
  const run = async (source: string, signal = new AbortController().signal): Promise<Result> => {
    const [parsed] = parse(`${source};`)
    return executor.run((parsed as { statement: Parameters<Executor['run']>[0] }).statement, signal)
  }
  return { operations, executor, asked, clock, run, text: async (source: string) => textResult(await run(source)) }
}

test('statements reach the operations with what they say, and tell what came of it', async () => {
  const { operations, text } = await session()
  const told: readonly (readonly [string, unknown[], RegExp])[] = [
    ['CREATE TOPIC t SET a = 1', ['createTopic', 't', 1, { a: '1' }], /^created topic t with 1 partition\n$/],
    ['ALTER TOPIC t SET a = 1 UNSET b', ['alterTopic', 't', { set: { a: '1' }, unset: ['b'] }], /changed on topic t: a/],
    ['ALTER TOPIC t UNSET b', ['alterTopic', 't', { set: {}, unset: ['b'] }], /has these settings already/],
    ['ALTER TOPIC t PARTITIONS 4', ['growTopic', 't', 4], /topic t has 4 partitions/],
    ['DROP TOPIC t', ['dropTopic', 't'], /dropped topic t/],
    ['DROP GROUP g', ['dropGroup', 'g'], /dropped group g/],
    ['COMMIT t PARTITION 0 OFFSET 3', ['commit', 't', 0, 3], /committed t partition 0: next is offset 3/],
    ['NACK t PARTITION 0 OFFSET 3', ['nack', 't', 0, 3, ''], /comes again; 1 attempt so far/],
    ["NACK t PARTITION 0 OFFSET 3 REASON 'last'", ['nack', 't', 0, 3, 'last'], /moved to t.dlq after 3 attempts/],
    ['HEARTBEAT', ['heartbeat'], /alive/],
    ['BEGIN AS n', ['begin', 'n'], /transaction begun/],
    ['COMMIT', ['endTransaction', true], /transaction committed/],
    ['ROLLBACK', ['endTransaction', false], /transaction rolled back/],
    [
      "PRODUCE INTO t KEY k VALUE v HEADER h '1' PARTITION 1",
      ['produce', 't', { kind: 'produce', key: 'k', value: 'v', headers: [{ key: 'h', value: '1' }], partition: 1 }],
      /stored in t partition 1 offset 7/,
    ],
  ]
  for (const [source, call, answer] of told) {
    assert.match(await text(source), answer, source)
    assert.deepEqual(operations.calls.splice(0), [call], source)
  }
})

test('tables: topics, groups, a topic, a group, offsets with their lag, a membership', async () => {
  const { run, text } = await session()
  assert.equal(await text('LIST TOPICS'), 'TOPIC   PARTITIONS\norders           3\ntopic            1\n')
  assert.equal(await text('LIST GROUPS'), 'GROUP    KIND  STATE   MEMBERS\nbilling  -     Stable        2\n')
  assert.equal(
    await text('DESCRIBE t'),
    'PARTITION  START    END  HIGH WATERMARK  LAST STABLE\n        0  1        6    5               4\n        1  offline  -    -               -\n' +
      'topic t, id id\nsettings: retention.ms=5\n',
  )
  assert.deepEqual(jsonLines(await run('DESCRIBE GROUP g')), [
    '{"topic":"a","partition":3,"committed":5,"member":null}',
    '{"topic":"t","partition":0,"committed":4,"member":"m-1"}',
    '{"topic":"t","partition":1,"committed":null,"member":"m-1"}',
  ])
  assert.match(await text('DESCRIBE GROUP g'), /group g: Stable, 2 members\nwithout partitions: m-2\n$/)
  assert.deepEqual(jsonLines(await run('SHOW OFFSETS FROM t GROUP g')), [
    '{"partition":0,"earliest":2,"latest":9,"highWatermark":8,"lastStable":7,"committed":null,"lag":6}',
    '{"partition":1,"earliest":2,"latest":9,"highWatermark":8,"lastStable":7,"committed":6,"lag":2}',
  ])
  assert.deepEqual(
    jsonLines(await run('SHOW OFFSETS FROM t'))[0],
    '{"partition":0,"earliest":2,"latest":9,"highWatermark":8,"lastStable":7}',
  )
  assert.equal(await text('SHOW GROUP'), 'this session is a member of no group\n')
  assert.match(await text('JOIN GROUP g ON a, b'), /^GROUP +TOPIC +PARTITIONS\ng +a +0, 2\ng +b +0, 2\nmember m-1 of group g\n$/)
  assert.match(await text('SHOW GROUP'), /member m-1/)
  await text('LEAVE')
  assert.match(await text('SHOW GROUP'), /no group/)
})

test('records: fetched, subscribed to, with the topic where others come along, bytes that are no text', async () => {
  const { operations, run, text } = await session()
  assert.equal(await text('FETCH FROM t'), 'nothing in t that the group has not read\n')
  operations.records = [fakeRecord(0, 'a\nb'), fakeRecord(1, null), fakeRecord(2, Buffer.from([0xff]), { topic: 'other' })]
  assert.equal(
    await text('FETCH FROM t LIMIT 3'),
    'TOPIC  PARTITION  OFFSET  KEY  VALUE\nt              0       0  k0   a\\nb\nt              0       1  k1   null\nother          0       2  k2   base64:/w==\n',
  )
  assert.deepEqual(jsonLines(await run('SUBSCRIBE t TIMEOUT 2 LIMIT 2')), [
    '{"partition":0,"offset":0,"key":"k0","value":"a\\nb"}',
    '{"partition":0,"offset":1,"key":"k1","value":null}',
  ])
  assert.deepEqual(operations.calls.at(-1), ['subscribe', 't', '', 2000])
  assert.equal((await run('SUBSCRIBE t LIMIT 0')).rows.length, 0)
  assert.match(jsonLines(await run('SUBSCRIBE t'))[2] ?? '', /"valueBase64":"\/w=="/)
  operations.records = [fakeRecord(0, 'x'.repeat(600))]
  assert.match(await text('FETCH FROM t'), /x{499}…\n$/)
})

const ORDERS = [
  fakeRecord(0, '{"item":"lamp","pieces":12,"tags":[{"n":1}]}', { headers: [{ key: 'trace', value: Buffer.from('a-1') }] }),
  fakeRecord(1, '{"item":"rope","pieces":2,"note":null}', { key: Buffer.from('7'), partition: 1 }),
  fakeRecord(2, 'no json', { key: null, timestampMs: 5000 }),
  fakeRecord(3, null),
  fakeRecord(4, Buffer.from([0xff])),
]

const WHERE: readonly (readonly [string, number[]])[] = [
  ['value.pieces > 10', [0]],
  ['value.pieces <= 12', [0, 1]],
  ["value.pieces = '12'", []],
  ["value.item <> 'lamp'", [1, 2, 3, 4]],
  ['value.note IS NULL', [0, 1, 2, 3, 4]],
  ['value.item IS NOT NULL', [0, 1]],
  ['value IS NULL', [3]],
  ['value.tags[0].n = 1', [0]],
  ['value.tags.length = 1', [0]],
  ['value.__proto__ IS NOT NULL', []],
  ["header.trace LIKE 'a-%'", [0]],
  ["header.trace NOT LIKE 'a-%'", [1, 2, 3, 4]],
  ["value LIKE '%la_p%'", [0]],
  ["value CONTAINS 'o'", [1, 2]],
  ["key IN ('k0', 'k3')", [0, 3]],
  ['key = 7', [1]],
  ['key BETWEEN 6 AND 8', [1]],
  ['key = NULL', [2]],
  ['partition = 1 OR offset >= 4', [1, 4]],
  ['NOT (offset = 0 OR offset = 1) AND size > 2', [2, 4]],
  ["timestamp >= '1970-01-01T00:00:05Z'", [2]],
]

test('SELECT: conditions on key, JSON path, header, time and place', async () => {
  const { operations, run } = await session()
  operations.records = ORDERS
  for (const [where, offsets] of WHERE) {
    const { rows } = await run(`SELECT offset FROM t WHERE ${where}`)
    assert.deepEqual(rows.flat(), offsets, where)
  }
})

test('SELECT: columns, titles, bounds of the scan, counting', async () => {
  const { operations, run, text } = await session()
  operations.records = ORDERS.slice(0, 3)
  assert.equal(
    await text('SELECT offset, value.Item, value.item AS what, value.tags FROM t LIMIT 2'),
    'offset  value.Item  what  value.tags\n     0              lamp  [{"n":1}]\n     1              rope\nthe first 2; there are more (LIMIT)\n',
  )
  assert.deepEqual(jsonLines(await run('SELECT * FROM t LIMIT 1')), [
    '{"partition":0,"offset":0,"timestamp":1000,"key":"k0","value":"{\\"item\\":\\"lamp\\",\\"pieces\\":12,\\"tags\\":[{\\"n\\":1}]}","headers":{"trace":"a-1"}}',
  ])
  assert.match(await text('SELECT timestamp FROM t LIMIT 1'), /1970-01-01T00:00:01\.000Z/)
  assert.deepEqual((await run('SELECT COUNT(*) FROM t WHERE value.pieces > 1')).rows, [[2]])
  assert.equal(await text('SELECT key FROM t WHERE offset = 99'), 'no records among the 3 that were looked at\n')
  operations.calls.length = 0
  await run('SELECT key FROM t PARTITION 1 FROM 10m TO OFFSET 9')
  await run('SELECT key FROM t')
  assert.deepEqual(operations.calls, [
    ['scan', { topic: 't', partitions: [1], from: { timestampMs: NOW_MS - 600_000 }, to: { offset: 9 } }],
    ['scan', { topic: 't', partitions: null, from: 'earliest', to: null }],
  ])
})

test('SELECT stops at the bounds of records, bytes and time, and says where', async () => {
  const few = await session({ maxRecords: 2 })
  few.operations.records = ORDERS
  assert.match(
    await few.text('SELECT offset FROM t WHERE offset = 0'),
    /stopped early, after looking at 2 records, before: partition 0 offset 1, partition 1 offset 2\n$/,
  )
  const small = await session({ maxBytes: 50 })
  small.operations.records = ORDERS
  assert.match(
    await small.text('SELECT COUNT(*) FROM t'),
    /stopped early, after looking at 50 bytes, before: partition 0 offset 1, partition 1/,
  )
  const late = await session({ maxMs: 5_000 })
  late.operations.records = ORDERS
  late.operations.beforeEach = async (record, signal) => {
    if (record.offset === 1) await late.clock.advance(5_000)
    if (signal.aborted) throw new MoonMQError('ABORTED')
  }
  assert.match(
    await late.text('SELECT offset FROM t'),
    /^offset\n +0\nstopped early, after looking at 5 seconds, before: partition 0 offset 1\n$/,
  )
})

test('a SELECT that its person gives up ends with ABORTED', async () => {
  const { operations, run } = await session()
  const stop = new AbortController()
  operations.records = ORDERS
  operations.beforeEach = (_record, signal) => {
    stop.abort()
    if (signal.aborted) throw new MoonMQError('ABORTED')
  }
  await assert.rejects(run('SELECT key FROM t', stop.signal), (error) => isCode(error, 'ABORTED'))
})

test('a SUBSCRIBE that is given up shows what came, as it counts as read', async () => {
  const { operations, run } = await session()
  operations.records = ORDERS.slice(0, 3)
  const stop = new AbortController()
  operations.beforeEach = (record) => {
    if (record.offset === 2) stop.abort()
    if (stop.signal.aborted) throw new MoonMQError('ABORTED')
  }
  assert.equal((await run('SUBSCRIBE t', stop.signal)).rows.length, 2)
  operations.records = ORDERS.slice(2, 3)
  await assert.rejects(run('SUBSCRIBE t', stop.signal), (error) => isCode(error, 'ABORTED'))
})

test('CONNECT keeps what is not said, and closes what was open', async () => {
  const { operations, executor, asked, run, text } = await session()
  assert.match(await text("CONNECT PASSWORD 'x'"), /connected to fake:1/)
  assert.equal(operations.closed, true)
  await run("CONNECT 'other:7' USER w")
  await run('CONNECT PORT 8')
  assert.deepEqual(asked, [
    { host: 'h', port: 1, user: 'u', password: 'p' },
    { host: 'h', port: 1, user: 'u', password: 'x' },
    { host: 'other:7', port: null, user: 'w', password: 'x' },
    { host: 'other:7', port: 8, user: 'w', password: 'x' },
  ])
  assert.match(await text('DISCONNECT'), /disconnected/)
  assert.equal(executor.operations, null)
  await assert.rejects(run('LIST TOPICS'), (error) => isCode(error, 'CONNECT_FAILED') && /CONNECT first/.test(error.message))
  assert.match(await text('HELP FETCH'), /FETCH FROM name/)
  assert.match(await text('HELP'), /PRODUCE INTO name/)
  assert.match(await text('HELP nonsense'), /no help about NONSENSE/)
})

/** Time goes on by a millisecond with every look at it. */
class WornClock extends VirtualClock {
  deferred = 0
  #looks = 0

  override monotonicMs(): number {
    return super.monotonicMs() + this.#looks++
  }

  override defer(run: () => void): void {
    this.deferred++
    const looks = this.#looks
    this.#looks = 0
    void this.advance(looks).then(run)
  }
}

test('SELECT: others get their turn within a long condition and a hostile pattern, and time ends it in the middle of a record', async () => {
  const clock = new WornClock(NOW_MS)
  const { operations, text } = await session({}, clock)
  operations.records = [fakeRecord(0, 'x'), fakeRecord(1, 'x')]
  const long = Array.from({ length: 100 }, (_, at) => `value = 'y${at}'`).join(' OR ')
  assert.match(await text(`SELECT COUNT(*) FROM t WHERE ${long} OR offset = 1`), /^COUNT\s+1\n$/)
  assert.ok(clock.deferred >= 10, String(clock.deferred))
  clock.deferred = 0
  operations.records = [fakeRecord(0, 'a'.repeat(5000))]
  const hostile = `value LIKE '%${'a'.repeat(100)}b'`
  assert.match(await text(`SELECT COUNT(*) FROM t WHERE ${hostile}`), /^COUNT\s+0\n$/)
  assert.ok(clock.deferred >= 10, String(clock.deferred))
  const short = await session({ maxMs: 50 }, new WornClock(NOW_MS))
  short.operations.records = [fakeRecord(0, 'x'), fakeRecord(1, 'x')]
  const told = await short.text(`SELECT COUNT(*) FROM t WHERE offset = 0 OR ${long}`)
  assert.match(told, /^COUNT\s+1\nstopped early, after looking at 0\.05 seconds, before: partition 0 offset 1\n$/)
})

test('SELECT: a part that is named very often is read once, a row that is too long is refused, and so are too many columns', async () => {
  const { operations, run } = await session()
  const value = 'a'.repeat(MIB)
  operations.records = [fakeRecord(0, value)]
  assert.equal((await run('SELECT value AS a, value AS b FROM t')).rows.length, 1)
  const many = Array.from({ length: 1000 }, (_, at) => `value AS v${at}`)
  const error = await run(`SELECT ${many.join(', ')} FROM t`).then(
    () => null,
    (reason: unknown) => reason,
  )
  assert.match(String(error), /partition 0 offset 0 alone has 1048576000 bytes: name fewer columns/)
  await assert.rejects(run(`SELECT ${many.join(', ')}, key FROM t`), /more than 1000 columns/)
})

test('SELECT: JSON that is too deep to be written again is text', async () => {
  const { operations, run } = await session()
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  operations.records = [fakeRecord(0, nested(100_000)), fakeRecord(1, nested(1000)), fakeRecord(2, `["${'[\\"'.repeat(2000)}"]`)]
  const result = await run("SELECT offset FROM t WHERE value[0] IS NOT NULL AND value[0] LIKE '%[%'")
  assert.deepEqual(result.rows, [[1], [2]])
  assert.equal(jsonLines(await run('SELECT value[0] FROM t'))[1], JSON.stringify({ 'value[0]': JSON.parse(nested(999)) }))
})
