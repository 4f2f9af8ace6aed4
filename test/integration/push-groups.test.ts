import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import type { Client, GroupChange, PushConsumer, PushConsumerOptions } from '../../src/client/types.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { isCode } from '../../src/core/errors.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { startTestBroker } from '../../src/testing/index.ts'

const PARTITIONS = 4
const turn = () => new Promise((resolve) => setImmediate(resolve))

async function setUp(config: Record<string, string> = {}) {
  const net = new VirtualNet({ clock: new SystemClock() })
  const broker = await startTestBroker({ machine: { net } })
  const client = await connect({ address: broker.address, net })
  await client.admin.createTopic('t', { partitions: PARTITIONS, config })
  return {
    net,
    client,
    async [Symbol.asyncDispose]() {
      await client.close()
      await broker.close()
    },
  }
}

async function send(client: Client, from: number, count: number): Promise<void> {
  const records = Array.from({ length: count }, (_, at) => ({ value: `${from + at}`, partition: (from + at) % PARTITIONS }))
  await client.producer().sendMany('t', records)
}

/** A member that writes down what it sees, until it is closed. */
function member(client: Client, seen: string[], options: Partial<PushConsumerOptions> = {}, each: () => unknown = () => undefined) {
  const consumer: PushConsumer = client.pushConsumer({ group: 'g', topics: ['t'], ...options })
  const running = (async () => {
    for await (const record of consumer) {
      seen.push(String(record.value))
      await each()
    }
  })()
  return { consumer, running }
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await turn()
}

const shares = (...members: { consumer: PushConsumer }[]) =>
  members.map(({ consumer }) => consumer.assignment.flatMap(({ partitions }) => partitions))

const committed = async (client: Client) => (await client.admin.committedOffsets('g', ['t']))[0]?.offsets ?? []
const numbers = (seen: readonly string[]) => [...seen].map(Number).sort((a, b) => a - b)
const range = (count: number) => Array.from({ length: count }, (_, at) => at)

test('push consumers of a group share the partitions, hand them over, and no record is seen twice', async () => {
  await using at = await setUp()
  const seen: string[] = []
  const changes: string[] = []
  const onChange = ({ kind, memberId, partitions }: GroupChange) =>
    void changes.push(`${memberId} ${kind} ${partitions.flatMap((each) => each.partitions).join('')}`)
  const one = member(at.client, seen, { memberId: 'a', onChange }, turn)
  await send(at.client, 0, 200)
  await until(() => seen.length > 20)
  const two = member(at.client, seen, { memberId: 'b', onChange }, turn)
  await until(() => two.consumer.assignment.length > 0)
  await send(at.client, 200, 200)
  // What a loop is in when its consumer is closed would come again.
  await until(async () => (await committed(at.client)).reduce((sum, offset) => sum + offset, 0) === 400)
  assert.deepEqual(shares(one, two), [
    [0, 1],
    [2, 3],
  ])
  assert.equal((await at.client.admin.describeGroup('g')).members.length, 2)
  await one.consumer.close()
  await one.running
  await until(() => shares(two)[0]?.length === 4)
  await send(at.client, 400, 100)
  await until(() => seen.length === 500)
  await two.consumer.close()
  await two.running
  assert.deepEqual(numbers(seen), range(500))
  assert.deepEqual(changes, [
    'a joined ',
    'a assigned 0123',
    'b joined ',
    'a revoked 23',
    'b assigned 23',
    'a left 01',
    'b assigned 01',
    'b left 0123',
  ])
})

test('a partition whose record is being worked on is let go when that is done, with what was done', async () => {
  await using at = await setUp()
  const seen: string[] = []
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  // The first record that it sees belongs to partition 3, which the other member is to get.
  await at.client.producer().send('t', { value: 'x', partition: 3 })
  await at.client.producer().send('t', { value: 'y', partition: 3 })
  const one = member(at.client, seen, { memberId: 'a' }, () => gate)
  await until(() => seen.length === 1)
  const other: string[] = []
  const two = member(at.client, other, { memberId: 'b' })
  await until(() => shares(two)[0]?.includes(2) === true)
  assert.deepEqual(shares(one, two), [[0, 1, 3], [2]])
  go()
  await until(() => other.length === 1)
  assert.deepEqual([seen, other], [['x'], ['y']])
  assert.deepEqual(shares(one, two), [
    [0, 1],
    [2, 3],
  ])
  for (const { consumer, running } of [one, two]) {
    await consumer.close()
    await running
  }
})

test('an ack of a partition that went to another member is told so, a nack comes again there', async () => {
  await using at = await setUp()
  for (const value of ['x', 'y']) await at.client.producer().send('t', { value, partition: 3 })
  const first = at.client.pushConsumer({ group: 'g', topics: ['t'], memberId: 'a', commit: 'manual', rebalanceTimeoutMs: 1000 })
  const each = first[Symbol.asyncIterator]()
  const [x, y] = [(await each.next()).value, (await each.next()).value]
  const other: string[] = []
  const two = member(at.client, other, { memberId: 'b' })
  await until(() => shares(two)[0]?.includes(2) === true)
  // Both are in hand: the first comes again at the other member, and so does the second, which stands behind it.
  assert.deepEqual(await x.nack('not here'), { deadLettered: false, attempts: 0, deadLetterTopic: '' })
  await assert.rejects(y.ack(), (error) => isCode(error, 'GROUP_MEMBER_UNKNOWN'))
  await until(() => other.length === 2)
  assert.deepEqual(other, ['x', 'y'])
  await first.close()
  await two.consumer.close()
  await two.running
})

test('ack is told when it is stored, also over a connection that breaks meanwhile', async () => {
  await using at = await setUp()
  for (const value of ['a', 'b', 'c']) await at.client.producer().send('t', { value, partition: 0 })
  const seen: string[] = []
  for await (const record of at.client.pushConsumer({ group: 'g', topics: ['t'], commit: 'manual' })) {
    seen.push(String(record.value))
    const acked = record.ack()
    at.net.cut()
    await acked
    assert.equal((await committed(at.client))[0], record.offset + 1)
    if (seen.length === 3) break
  }
  assert.deepEqual(seen, ['a', 'b', 'c'])
})

test('a member whose connection breaks when it has only just joined joins again', async () => {
  await using at = await setUp()
  await send(at.client, 0, 8)
  const seen: string[] = []
  let joins = 0
  const onChange = async ({ kind }: GroupChange) => {
    if (kind !== 'joined') return
    joins++
    if (joins !== 2 && joins !== 3) return
    at.net.cut()
    await turn()
  }
  for await (const record of at.client.pushConsumer({ group: 'g', topics: ['t'], onChange })) {
    seen.push(String(record.value))
    if (seen.length === 2) at.net.cut()
    if (seen.length === 8) break
  }
  assert.deepEqual(numbers(seen), range(8))
  assert.ok(joins >= 4, String(joins))
})

test('members that come, go and lose their connections: every record is seen, and all of it is committed', async () => {
  await using at = await setUp()
  const random = new SeededRandom(9)
  const seen: string[] = []
  const members: ReturnType<typeof member>[] = []
  for (let round = 0; round < 12; round++) {
    await send(at.client, round * 50, 50)
    const dice = random.below(3)
    if (dice === 0 || members.length === 0) members.push(member(at.client, seen, { maxRecords: 7 }, turn))
    else if (dice === 1) at.net.cut()
    else {
      const [one] = members.splice(random.below(members.length), 1)
      await one?.consumer.close()
      await one?.running
    }
    const before = seen.length
    await until(() => members.length === 0 || seen.length > before + 10)
  }
  members.push(member(at.client, seen))
  await until(() => new Set(seen).size === 600)
  for (const { consumer, running } of members) {
    await consumer.close()
    await running
  }
  assert.deepEqual(
    (await committed(at.client)).reduce((sum, offset) => sum + offset, 0),
    600,
  )
})
