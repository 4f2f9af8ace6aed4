import { deepEqual, equal, match, ok } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../../src/client/index.ts'
import type { Client } from '../../../src/client/types.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { startTestBroker } from '../../../src/testing/index.ts'

/** As JavaScript may call it: what TypeScript refuses too. */
const given = <T>(value: unknown): T => value as T

/** What is wrong, how it is asked for, and what the error says. */
type Case = readonly [string, (client: Client) => unknown, RegExp]

const RECORDS: readonly Case[] = [
  ['a number as value', (client) => client.producer().send('t', given({ value: 5 })), /value must not be 5: .*JSON\.stringify/],
  [
    'an object as key',
    (client) => client.producer().send('t', given({ key: { id: 1 }, value: 'v' })),
    /key must not be \{ id: 1 \}: give a text/,
  ],
  ['no value', (client) => client.producer().send('t', given({ key: 'k' })), /value is missing: .*null/],
  ['no record', (client) => client.producer().send('t', given(undefined)), /a record is missing: .*\{ key: "a", value: "b" \}/],
  ['a text as record', (client) => client.producer().send('t', given('v')), /a record must not be 'v'/],
  [
    'headers as an object',
    (client) => client.producer().send('t', given({ value: 'v', headers: { a: 'b' } })),
    /headers must not be .*: give a list/,
  ],
  [
    'a header without key',
    (client) => client.producer().send('t', given({ value: 'v', headers: [{ value: 'b' }] })),
    /the key of a header is missing/,
  ],
  [
    'a header with a number',
    (client) => client.producer().send('t', given({ value: 'v', headers: [{ key: 'a', value: 1 }] })),
    /header "a" must not be 1/,
  ],
  [
    'a partition below 0',
    (client) => client.producer().send('t', { value: 'v', partition: -1 }),
    /partition must not be -1: give a whole number from 0/,
  ],
  ['no topic', (client) => client.producer().send(given(undefined), { value: 'v' }), /topic is missing: give its name/],
  ['records that are no list', (client) => client.producer().sendMany('t', given({ value: 'v' })), /records must not be/],
]

const OPTIONS: readonly Case[] = [
  ['acks of Kafka', (client) => client.producer(given({ acks: 1 })), /acks must not be 1: it is "none" or "leader" or "all"/],
  ['a lingering text', (client) => client.producer(given({ lingerMs: '5' })), /lingerMs must not be '5'/],
  ['no topic to read', (client) => client.reader(given({})), /topic is missing/],
  ['nothing to read', (client) => client.reader(given(undefined)), /what reader\(\) is given is missing/],
  ['an isolation', (client) => client.reader(given({ topic: 't', isolation: 'committed' })), /isolation must not be 'committed'/],
  ['no partition', (client) => client.reader({ topic: 't', partitions: [] }), /partitions must not be \[\]/],
  ['a start', (client) => client.reader(given({ topic: 't', from: 5 })), /from must not be 5: it is "earliest"/],
  ['positions', (client) => client.reader(given({ topic: 't', positions: { 0: 1 } })), /positions must not be .*Map/],
  ['no topics', (client) => client.consumer(given({ group: 'g' })), /topics is missing: give a list of names/],
  ['no topic at all', (client) => client.consumer({ group: 'g', topics: [] }), /topics must not be \[\]: a consumer needs a topic/],
  ['topics as a text', (client) => client.consumer(given({ group: 'g', topics: 't' })), /topics must not be 't'/],
  ['no group', (client) => client.pushConsumer(given({ topics: ['t'] })), /group is missing/],
  [
    'a commit',
    (client) => client.consumer(given({ group: 'g', topics: ['t'], commit: 'auto' })),
    /commit must not be 'auto': it is "after" or "manual"/,
  ],
  ['a signal', (client) => client.consumer(given({ group: 'g', topics: ['t'], signal: true })), /signal must not be true/],
  ['a name', (client) => client.transactionalProducer(''), /name of a transactional producer must not be ''/],
  ['a record to commit', (client) => client.consumer({ group: 'g', topics: ['t'] }).commit(given(undefined)), /record is missing/],
]

const ADMIN: readonly Case[] = [
  [
    'options that are a number',
    ({ admin }) => admin.createTopic('u', given(3)),
    /what createTopic\(\) is given must not be 3: .*\{ partitions: 3 \}/,
  ],
  ['partitions as a text', ({ admin }) => admin.createTopic('u', given({ partitions: '3' })), /partitions must not be '3'/],
  [
    'a setting that is a number',
    ({ admin }) => admin.createTopic('u', given({ config: { 'retention.ms': 5 } })),
    /config\["retention\.ms"\] must not be 5: .*text/,
  ],
  ['a topic without name', ({ admin }) => admin.describeTopic(given(undefined)), /topic is missing/],
  ['topics that are no list', ({ admin }) => admin.committedOffsets('g', given('t')), /topics must not be 't'/],
  ['an offset below 0', ({ admin }) => admin.storeOffsets('g', [{ topic: 't', partition: 0, offset: -1 }]), /offset must not be -1/],
  ['half a partition', ({ admin }) => admin.deleteRecords('t', 0.5, 'all'), /partition must not be 0\.5/],
  ['a time', ({ admin }) => admin.listOffsets('t', given({ timestampMs: new Date(0) })), /timestampMs must not be 1970/],
]

for (const [kind, cases] of Object.entries({ records: RECORDS, options: OPTIONS, administration: ADMIN })) {
  test(`wrong arguments, ${kind}: INVALID_REQUEST that names the argument and says what it must be`, async () => {
    await using broker = await startTestBroker()
    await using client = await broker.connect()
    await client.admin.createTopic('t')
    for (const [name, ask, says] of cases) {
      const error = await refusal(async () => ask(client))
      ok(error instanceof MoonMQError, `${name}: ${String(error)}`)
      equal(error.code, 'INVALID_REQUEST', name)
      match(error.message, says, name)
    }
    equal((await client.admin.listTopics()).length, 1)
  })
}

test('wrong arguments of connect', async () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [undefined, /what connect is given is missing: .*address/],
    ['127.0.0.1:9092', /what connect is given must not be '127/],
    [{}, /address is missing: give "host:port"/],
    [{ address: [] }, /address must not be \[\]/],
    [{ address: 9092 }, /address must not be 9092/],
    [{ address: { host: 'a' } }, /address must not be \{ host: 'a' \}/],
    [{ address: 'a:b' }, /"a:b" is not an address: host:port/],
    [{ address: 'a', timeoutMs: '5' }, /timeoutMs must not be '5'/],
    [{ address: 'a', password: 5 }, /password must not be 5/],
  ]
  for (const [options, says] of cases) {
    const error = await refusal(() => connect(given(options)))
    ok(error instanceof MoonMQError, String(error))
    equal(error.code, 'INVALID_REQUEST')
    match(error.message, says)
  }
})

test('what is asked about nothing is answered with nothing', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  const { admin } = client
  deepEqual(await admin.committedOffsets('g', []), [])
  await admin.storeOffsets('g', [])
  await admin.deleteOffsets('g', [])
  deepEqual(await admin.redrive('t', 0, []), { redriven: 0, already: 0, missing: 0 })
  deepEqual(client.partitionReaders({ topic: 't', partitions: [] }), [])
  deepEqual(await client.producer().sendMany('t', []), [])
})

test('a topic that is there may be no error', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  await client.admin.createTopic('t', { partitions: 2 })
  await client.admin.createTopic('t', { partitions: 5, ifNotExists: true })
  equal((await client.admin.describeTopic('t')).partitions.length, 2)
  equal(((await refusal(() => client.admin.createTopic('t'))) as MoonMQError).code, 'TOPIC_EXISTS')
})

async function refusal(act: () => Promise<unknown>): Promise<unknown> {
  try {
    await act()
  } catch (error) {
    return error
  }
  return new Error('it was taken')
}
