import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ShareAcks } from '../../../../src/broker/ports.ts'
import type { Metrics } from '../../../../src/core/counters.ts'
import { deferred } from '../../../../src/core/deferred.ts'
import { MetricsRegistry } from '../../../../src/obs/metrics.ts'
import { readBatchHeader } from '../../../../src/record/batch.ts'
import { buildBatch } from '../../../../src/record/builder.ts'
import { readRecords, recordsSection } from '../../../../src/record/record.ts'
import { contextOf, createTopic, type FakeBroker, fakeBroker, NOW_MS, produceOne } from '../../../support/fake-broker.ts'
import { acksOf, ShareMember, setGroup } from '../../../support/share-member.ts'

const GROUP = 'workers'
const ASSIGNMENT_INTERVAL = 'group.share.assignment.interval.ms'

interface World extends FakeBroker {
  produce(...values: string[]): Promise<void>
  member(id: string, group?: string): Promise<ShareMember>
}

/** A topic `jobs` and a group that begins at its first record. */
async function world(settings: Record<string, string> = {}, topic: Record<string, string> = {}, metrics?: Metrics): Promise<World> {
  const fake = await fakeBroker({ settings: new Map(Object.entries({ [ASSIGNMENT_INTERVAL]: '0', ...settings })) }, metrics)
  await fake.broker.loadGroups()
  await createTopic(fake.broker, 'jobs', 1, topic)
  await setGroup(fake.broker, GROUP, { 'share.auto.offset.reset': 'earliest' })
  return {
    ...fake,
    async produce(...values) {
      const records = values.map((value) => ({ key: Buffer.from(`k-${value}`), value: Buffer.from(value), timestampMs: NOW_MS }))
      const { error } = await produceOne(fake.broker, 'jobs', 0, buildBatch(records))
      assert.equal(error, null)
    },
    async member(id, group = GROUP) {
      const member = new ShareMember(fake.broker, group, id)
      await member.join('jobs')
      return member
    },
  }
}

/** What stands in the dead-letter topic: values and the headers that tell where they came from. */
function deadLetters({ logs }: World, topic = 'jobs.dlq'): { value: string; headers: Record<string, string> }[] {
  return logs.at(topic, 0).batches.flatMap(({ bytes }) => {
    const header = readBatchHeader(bytes)
    return [...readRecords(recordsSection(bytes, 0, header), header)].map(({ value, headers }) => ({
      value: String(value),
      headers: Object.fromEntries(headers.map(({ key, value: text }) => [key.replace('moonmq.dlq.', ''), String(text)])),
    }))
  })
}

const values = (records: readonly { value: string }[]) => records.map(({ value }) => value)

describe('records of a share group', () => {
  it('go to whoever comes first, once each, and not again when they were accepted', async () => {
    const broker = await world()
    const [a, b] = [await broker.member('a'), await broker.member('b')]
    await a.heartbeat()
    await broker.produce('1', '2', '3')
    assert.deepEqual(values(await a.poll()), ['1', '2', '3'])
    assert.deepEqual(await b.poll(), [])
    await a.ack('accept')
    await a.endSession()
    assert.deepEqual(await b.poll(), [])
    assert.equal(broker.logs.at('jobs', 0).unreleased, 0)
  })

  it('are only answered for when the answer is on disk, and given again when the state could not be written', async () => {
    const fake = await world({ 'share.coordinator.state.topic.num.partitions': '1' })
    const a = await fake.member('a')
    await fake.produce('1')
    await a.poll()
    const state = fake.logs.at('__share_group_state', 0)
    state.autoSync = false
    let isAnswered = false
    const answer = a.ack('accept').finally(() => {
      isAnswered = true
    })
    await fake.clock.advance(100)
    assert.equal(isAnswered, false)
    state.fail()
    await assert.rejects(answer, { code: 'COORDINATOR_NOT_AVAILABLE' })
  })

  it('are waited for, and come the moment that they are written', async () => {
    const { broker, clock, ...more } = await world()
    const a = await more.member('a')
    const waiting = a.poll({ maxWaitMs: 10_000 })
    await clock.advance(1000)
    await more.produce('late')
    assert.deepEqual(values(await waiting), ['late'])
    assert.equal(clock.monotonicMs(), 1000)
    const nothing = a.poll({ maxWaitMs: 500 })
    await clock.advance(500)
    assert.deepEqual(await nothing, [])
    await broker.close()
  })

  it('come back when the connection is lost, when the session ends, and when the lock is over', async () => {
    const { clock, ...more } = await world()
    const [a, b] = [await more.member('a'), await more.member('b')]
    await more.produce('1')
    await a.poll()
    const waiting = b.poll({ maxWaitMs: 60_000 })
    await clock.advance(1)
    a.drop()
    assert.deepEqual(
      (await waiting).map(({ deliveries }) => deliveries),
      [2],
    )
    await b.endSession()
    const c = await more.member('c')
    assert.deepEqual(
      (await c.poll()).map(({ deliveries }) => deliveries),
      [3],
    )
    const d = await more.member('d')
    const later = d.poll({ maxWaitMs: 60_000 })
    await clock.advance(30_000)
    assert.deepEqual(
      (await later).map(({ deliveries }) => deliveries),
      [4],
    )
    await assert.rejects(c.ack('accept'), { code: 'INVALID_RECORD_STATE' })
  })

  it('stay with a member that renews its lock', async () => {
    const { clock, ...more } = await world()
    const [a, b] = [await more.member('a'), await more.member('b')]
    await more.produce('1')
    await a.poll()
    await clock.advance(29_000)
    await a.ack('renew')
    await clock.advance(29_000)
    assert.deepEqual(await b.poll(), [])
    await a.ack('accept')
    await setGroup(more.broker, GROUP, { 'share.renew.acknowledge.enable': 'false' })
    await more.produce('2')
    await a.poll()
    await assert.rejects(a.ack('renew'), { code: 'INVALID_REQUEST' })
  })

  it('that are answered for in a way that nobody can read stay with their member, whose next answer counts', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await fake.produce('1')
    await a.poll()
    const { topicId, partition } = a.held[0] ?? { topicId: '', partition: -1 }
    const batches = [{ first: 0, last: 0, types: ['gap'] as const }]
    const partitions = [{ topicId, partition, batches, unreadable: 'of type 7' }]
    const request = { group: GROUP, memberId: 'a', isRenewal: false, sessionEpoch: a.sessionEpoch, partitions }
    const { errors } = await fake.broker.share.acknowledge(a.context, request)
    assert.equal(errors[0]?.code, 'INVALID_REQUEST')
    a.sessionEpoch++
    await a.ack('accept')
  })

  it('are not given out before there are as many bytes as the member waits for, or its wait is over', async () => {
    const broker = await world()
    const [a, b] = [await broker.member('a'), await broker.member('b')]
    await broker.produce('1')
    let given: string[] | null = null
    const waiting = a.poll({ maxWaitMs: 1000, minBytes: 400 }).then((records) => {
      given = values(records)
    })
    await broker.clock.advance(500)
    assert.equal(given, null, 'one record is not enough')
    assert.deepEqual(values(await b.poll()), ['1'], 'nor does the wait keep it from others')
    await b.ack('release')
    await broker.produce('2'.repeat(400))
    await broker.clock.advance(0)
    await waiting
    assert.deepEqual(given, ['1', '2'.repeat(400)])
    await a.ack('accept')
    await broker.produce('3')
    const late = a.poll({ maxWaitMs: 1000, minBytes: 400 })
    await broker.clock.advance(1000)
    assert.deepEqual(values(await late), ['3'], 'what there is when the wait is over')
  })

  it('are answered at once to who waits for no byte, records or not', async () => {
    const broker = await world()
    const a = await broker.member('a')
    assert.deepEqual(await a.poll({ maxWaitMs: 60_000, minBytes: 0 }), [])
  })

  it('of a transaction that was aborted, or control records, are passed over', async () => {
    const { broker, logs, ...more } = await world()
    await setGroup(broker, GROUP, { 'share.isolation.level': 'read_committed' })
    const a = await more.member('a')
    await more.produce('before')
    const log = logs.at('jobs', 0)
    log.openTransactionAt = 1
    await more.produce('hidden')
    assert.deepEqual(values(await a.poll()), ['before'])
    log.openTransactionAt = undefined
    assert.deepEqual(values(await a.poll()), ['hidden'])
  })
})

describe('metrics of share groups', () => {
  it('count deliveries, acknowledgements and locks that were over', async () => {
    const registry = new MetricsRegistry()
    const broker = await world({}, {}, registry)
    const total = (name: string) => registry.samples(name).reduce((sum, { value }) => sum + value, 0)
    const a = await broker.member('a')
    await broker.produce('1', '2', '3')
    const [first, ...rest] = await a.poll()
    assert.ok(first !== undefined)
    await a.ack('accept', [first])
    assert.deepEqual([total('moonmq_share_delivered_total'), total('moonmq_share_acknowledged_total')], [3, 1])
    await broker.clock.advance(30_001)
    assert.equal(total('moonmq_share_locks_expired_total'), rest.length)
    await a.poll()
    assert.equal(total('moonmq_share_delivered_total'), 5)
  })
})

describe('a dead letter of a share group', () => {
  it('is kept with where it came from before its record counts as done', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await fake.produce('good', 'bad')
    const [good, bad] = await a.poll()
    assert.ok(good !== undefined && bad !== undefined)
    await a.ack('accept', [good])
    await a.ack('reject', [bad])
    await fake.clock.advance(0)
    assert.deepEqual(deadLetters(fake), [
      {
        value: 'bad',
        headers: {
          topic: 'jobs',
          partition: '0',
          offset: '1',
          timestamp: String(NOW_MS),
          group: GROUP,
          attempts: '1',
          reason: 'a consumer rejected it',
          at: String(NOW_MS),
        },
      },
    ])
    const [positions] = await fake.broker.share.positions(contextOf(), GROUP, null)
    assert.deepEqual(positions?.partitions, [{ partition: 0, error: null, startOffset: 2, lag: 0 }])
  })

  it('comes after the last delivery that the group allows', async () => {
    const fake = await world()
    await setGroup(fake.broker, GROUP, { 'share.delivery.count.limit': '2' })
    const a = await fake.member('a')
    await fake.produce('poison')
    for (const deliveries of [1, 2]) {
      assert.deepEqual(
        (await a.poll()).map((record) => record.deliveries),
        [deliveries],
      )
      await a.ack('release')
    }
    await fake.clock.advance(0)
    assert.deepEqual(await a.poll(), [])
    assert.deepEqual(
      deadLetters(fake).map(({ value, headers }) => [value, headers.attempts, headers.reason]),
      [['poison', '2', 'it was delivered 2 times and never accepted']],
    )
  })

  it('is not made where the topic says so, nor of a dead letter', async () => {
    const fake = await world({}, { 'moonmq.dlq.enable': 'false' })
    const a = await fake.member('a')
    await fake.produce('unwanted')
    await a.poll()
    await a.ack('reject')
    await fake.clock.advance(0)
    assert.equal(fake.broker.topics.find('jobs.dlq'), undefined)
    assert.equal((await fake.broker.share.positions(contextOf(), GROUP, null))[0]?.partitions[0]?.startOffset, 1)

    await createTopic(fake.broker, 'other.dlq')
    const b = new ShareMember(fake.broker, GROUP, 'b')
    await b.join('other.dlq')
    await produceOne(fake.broker, 'other.dlq', 0, buildBatch([{ key: null, value: Buffer.from('x'), timestampMs: NOW_MS }]))
    await b.poll()
    await b.ack('reject')
    await fake.clock.advance(0)
    assert.equal(fake.broker.topics.find('other.dlq.dlq'), undefined)
  })

  it('becomes durable after the note that it is on its way, and before the note that it is done', async () => {
    const fake = await world({ 'share.coordinator.state.topic.num.partitions': '1' })
    await createTopic(fake.broker, 'jobs.dlq')
    const a = await fake.member('a')
    await fake.produce('bad')
    await a.poll()
    const [state, letters] = [fake.logs.at('__share_group_state', 0), fake.logs.at('jobs.dlq', 0)]
    state.autoSync = false
    letters.autoSync = false
    const stored = state.batches.length
    const answer = a.ack('reject')
    await fake.clock.advance(100)
    assert.deepEqual([state.batches.length, letters.batches.length], [stored + 1, 0])
    state.sync()
    await answer
    await fake.clock.advance(100)
    assert.deepEqual([state.batches.length, letters.batches.length], [stored + 1, 1])
    letters.sync()
    await fake.clock.advance(100)
    assert.deepEqual([state.batches.length, letters.batches.length], [stored + 2, 1])
  })

  it('goes where its group says', async () => {
    const fake = await world()
    await setGroup(fake.broker, GROUP, { 'errors.deadletterqueue.topic.name': 'dlq.workers' })
    const a = await fake.member('a')
    await fake.produce('bad')
    await a.poll()
    await a.ack('reject')
    await fake.clock.advance(0)
    assert.deepEqual(values(deadLetters(fake, 'dlq.workers')), ['bad'])
    assert.equal(fake.broker.topics.find('jobs.dlq'), undefined)
  })

  it('goes nowhere that the broker does not allow', async () => {
    const fake = await world({ 'errors.deadletterqueue.topic.name.prefix': 'dlq.' })
    const name = (value: string) => setGroup(fake.broker, GROUP, { 'errors.deadletterqueue.topic.name': value })
    await assert.rejects(name('workers'), { code: 'CONFIG_INVALID' })
    await name('dlq.workers')
    await name('')
  })

  it('of a record that is as large as its topic takes fits with what is added', async () => {
    const fake = await world({}, { 'max.message.bytes': '2000' })
    const a = await fake.member('a')
    await fake.produce('x'.repeat(940))
    await a.poll()
    await a.ack('reject')
    await fake.clock.advance(0)
    assert.equal(deadLetters(fake)[0]?.value.length, 940)
    assert.equal(fake.broker.topics.get('jobs.dlq').config.get('cleanup.policy'), 'delete')
  })

  it('is not lost when the group is moved while an earlier one is on its way', async () => {
    const fake = await world()
    await createTopic(fake.broker, 'jobs.dlq')
    const letters = fake.logs.at('jobs.dlq', 0)
    letters.autoSync = false
    const a = await fake.member('a')
    await fake.produce('bad')
    await a.poll()
    await a.ack('reject')
    await fake.clock.advance(100)
    assert.equal(letters.batches.length, 1)
    await a.leave()
    await a.endSession()
    await fake.produce('worse')
    await fake.broker.share.alterPositions(contextOf(), GROUP, [{ topic: 'jobs', partitions: [{ partition: 0, offset: 1 }] }])
    await a.join('jobs')
    assert.deepEqual(values(await a.poll()), ['worse'])
    await a.ack('reject')
    letters.autoSync = true
    letters.sync()
    await fake.clock.advance(100)
    assert.deepEqual(values(deadLetters(fake)), ['bad', 'worse'])
    assert.equal((await fake.broker.share.positions(contextOf(), GROUP, null))[0]?.partitions[0]?.startOffset, 2)
  })

  it('that cannot be written leaves its record on its way, and is tried until it can', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await fake.produce('bad')
    await a.poll()
    fake.metadata.failure = new Error('no topic can be made')
    await a.ack('reject')
    await fake.clock.advance(500)
    assert.equal((await fake.broker.share.positions(contextOf(), GROUP, null))[0]?.partitions[0]?.startOffset, 0)
    assert.deepEqual(await a.poll(), [])
    fake.metadata.failure = undefined
    await fake.clock.advance(5000)
    assert.deepEqual(values(deadLetters(fake)), ['bad'])
    assert.equal((await fake.broker.share.positions(contextOf(), GROUP, null))[0]?.partitions[0]?.startOffset, 1)
  })
})

describe('a share session', () => {
  it('goes on with the next epoch only, and ends with its connection', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await a.poll()
    await assert.rejects(a.fetch({ sessionEpoch: 5 }), { code: 'SHARE_SESSION_EPOCH_INVALID' })
    await a.poll()
    await assert.rejects(
      a.fetch({ sessionEpoch: 0 }, [{ topicId: 'x', partition: 0, batches: [{ first: 0, last: 0, types: ['accept'] }] }]),
      {
        code: 'INVALID_REQUEST',
      },
    )
    a.drop()
    await assert.rejects(a.fetch(), { code: 'SHARE_SESSION_MISSING' })
  })

  it('is not begun by an acknowledgement', async () => {
    const fake = await world()
    const a = await fake.member('a')
    const request = { group: GROUP, memberId: 'a', isRenewal: false, partitions: [] }
    const acknowledge = (sessionEpoch: number) => fake.broker.share.acknowledge(a.context, { ...request, sessionEpoch })
    await assert.rejects(acknowledge(0), { code: 'SHARE_SESSION_EPOCH_INVALID' })
    await assert.rejects(acknowledge(1), { code: 'SHARE_SESSION_MISSING' })
  })

  it('is ended by a last fetch, whatever that names, and there is none to end without one', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await fake.produce('1', '2')
    await a.poll()
    const { topicId, partition } = a.held[0] ?? { topicId: '', partition: -1 }
    const accepted = { topicId, partition, batches: [{ first: 0, last: 0, types: ['accept' as const] }] }
    const last = (acks: readonly ShareAcks[]) => a.fetch({ sessionEpoch: -1, partitions: acks })
    const { partitions } = await last([accepted])
    assert.deepEqual(
      partitions.map(({ error, ackError, acquired }) => [error, ackError, acquired.length]),
      [[null, null, 0]],
    )
    for (const acks of [[], [accepted], [{ topicId, partition, batches: [] }]]) {
      await assert.rejects(last(acks), { code: 'SHARE_SESSION_MISSING' })
    }
    a.sessionEpoch = 0
    assert.deepEqual(
      (await a.poll()).map(({ value, deliveries }) => [value, deliveries]),
      [['2', 2]],
      'what it had not spoken of was given back',
    )
    assert.deepEqual((await last([{ topicId, partition, batches: [] }])).partitions, [], 'a partition that is only named is no mistake')
    await assert.rejects(last([]), { code: 'SHARE_SESSION_MISSING' })
  })

  it('begun anew still ends with all that its member holds', async () => {
    const { clock, ...fake } = await world()
    const [a, b] = [await fake.member('a'), await fake.member('b')]
    await fake.produce('1')
    await a.poll()
    assert.deepEqual(values(await a.poll({ sessionEpoch: 0 })), [], 'it has the record already')
    const waiting = b.poll({ maxWaitMs: 10_000 })
    await clock.advance(1)
    a.drop()
    assert.deepEqual(
      (await waiting).map(({ value, deliveries }) => [value, deliveries]),
      [['1', 2]],
    )
  })

  it('that ends while it reads takes nothing along', async () => {
    const fake = await world()
    const [a, b] = [await fake.member('a'), await fake.member('b')]
    await fake.produce('1')
    await a.poll({ maxRecords: 0 })
    const log = fake.logs.at('jobs', 0)
    const gate = deferred()
    log.readGate = gate.promise
    const fetched = a.fetch()
    await fake.clock.advance(1)
    a.drop()
    log.readGate = undefined
    gate.resolve()
    assert.deepEqual((await fetched).partitions, [])
    assert.deepEqual(
      (await b.poll()).map(({ value, deliveries }) => [value, deliveries]),
      [['1', 1]],
    )
    assert.equal(log.unreleased, 0)
  })

  it('takes acknowledgements along with a fetch', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await fake.produce('1', '2')
    const given = await a.poll()
    await fake.produce('3')
    const fetched = await a.fetch({}, acksOf(given, 'accept'))
    assert.deepEqual(
      fetched.partitions.map(({ ackError, acquired }) => [ackError, acquired]),
      [[null, [{ first: 2, last: 2, deliveries: 1 }]]],
    )
    fetched.release()
  })

  it('is refused beyond the limit of the broker', async () => {
    const fake = await world({ 'group.share.max.share.sessions': '1' })
    const [a, b] = [await fake.member('a'), await fake.member('b')]
    await a.poll()
    await assert.rejects(b.poll(), { code: 'SHARE_SESSION_LIMIT' })
    await a.endSession()
    await b.poll()
  })
})

describe('members of a share group', () => {
  it('share the partitions, hear of changes, and are fenced by their epoch', async () => {
    const fake = await world()
    await createTopic(fake.broker, 'wide', 3)
    const a = new ShareMember(fake.broker, GROUP, 'a')
    await a.join('wide')
    const partitionsOf = (member: ShareMember) => member.assigned.flatMap(({ partitions }) => partitions)
    assert.deepEqual(partitionsOf(a), [0, 1, 2])
    const b = new ShareMember(fake.broker, GROUP, 'b')
    await b.join('wide')
    await a.heartbeat()
    assert.deepEqual([...partitionsOf(a), ...partitionsOf(b)].sort(), [0, 1, 2])
    await fake.broker.topics.createPartitions(contextOf(), 'wide', 6)
    await a.heartbeat()
    await b.heartbeat()
    assert.equal(partitionsOf(a).length + partitionsOf(b).length, 6)
    const more = await Promise.all(
      Array.from({ length: 6 }, async (_, at) => {
        const member = new ShareMember(fake.broker, GROUP, `m${at}`)
        await member.join('wide')
        return member
      }),
    )
    for (const member of [a, b, ...more]) await member.heartbeat()
    assert.deepEqual(
      [a, b, ...more].map((member) => partitionsOf(member).length),
      new Array(8).fill(1),
    )
    await assert.rejects(
      fake.broker.share.heartbeat(contextOf(), { group: GROUP, memberId: 'a', memberEpoch: 99, rackId: null, topicNames: null }),
      {
        code: 'FENCED_MEMBER_EPOCH',
      },
    )
    await assert.rejects(
      fake.broker.share.heartbeat(contextOf(), { group: GROUP, memberId: 'z', memberEpoch: 1, rackId: null, topicNames: null }),
      {
        code: 'GROUP_MEMBER_UNKNOWN',
      },
    )
  })

  it('that come together cost one assignment, and are told of it when the interval is over', async () => {
    const broker = await world({ [ASSIGNMENT_INTERVAL]: '1000' })
    const a = await broker.member('a')
    assert.equal(a.memberEpoch, 1)
    const b = await broker.member('b')
    const c = await broker.member('c')
    assert.deepEqual([b.memberEpoch, c.memberEpoch], [1, 1])
    const before = (await broker.broker.share.describe(contextOf(), [GROUP]))[0]
    assert.deepEqual([before?.groupEpoch, before?.assignmentEpoch], [3, 1])
    await broker.clock.advance(1000)
    await b.heartbeat()
    const after = (await broker.broker.share.describe(contextOf(), [GROUP]))[0]
    assert.deepEqual([after?.groupEpoch, after?.assignmentEpoch, b.memberEpoch], [3, 3, 3])
  })

  it('get nothing more of a topic that they do not read any longer, also before there may be a new assignment', async () => {
    const { broker } = await world({ [ASSIGNMENT_INTERVAL]: '1000' })
    const beat = (memberEpoch: number, topicNames: readonly string[] | null) =>
      broker.share.heartbeat(contextOf(), { group: GROUP, memberId: 'a', memberEpoch, rackId: null, topicNames })
    const whole = (await beat(0, ['jobs'])).assignment
    assert.equal(whole?.length, 1)
    const left = await beat(1, ['other'])
    assert.deepEqual([left.memberEpoch, left.assignment], [1, []])
    assert.deepEqual((await beat(1, null)).assignment, null)
    assert.deepEqual((await beat(1, ['jobs'])).assignment, whole, 'and have it back when they read it again')
  })

  it('that are silent are out', async () => {
    const fake = await world()
    await fake.member('a')
    await fake.clock.advance(45_000)
    const [described] = await fake.broker.share.describe(contextOf(), [GROUP])
    assert.deepEqual([described?.state, described?.members.length, described?.assignor], ['Empty', 0, 'simple'])
  })

  it('keep others out of their group who speak another protocol', async () => {
    const fake = await world()
    await fake.member('a')
    const groups = await fake.broker.groups.list(contextOf(), { states: [], kinds: ['share'] })
    assert.deepEqual(groups.groups, [{ group: GROUP, protocolType: 'share', state: 'Stable', kind: 'share', members: 1 }])
    const [refused] = await fake.broker.groups.commit(contextOf(), {
      group: GROUP,
      generation: -1,
      memberId: '',
      instanceId: null,
      offsets: [{ topic: 'jobs', partition: 0, value: { offset: 1, leaderEpoch: 0, metadata: '' } }],
      durable: true,
    })
    assert.equal(refused?.row.kafka, 69)
  })
})

describe('positions of a share group', () => {
  it('are chosen and forgotten by an administrator while nobody reads', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await fake.produce('1', '2', '3')
    await a.poll()
    await a.ack('accept')
    const to = (offset: number) => [{ topic: 'jobs', partitions: [{ partition: 0, offset }] }]
    await assert.rejects(fake.broker.share.alterPositions(contextOf(), GROUP, to(1)), { code: 'GROUP_NOT_EMPTY' })
    await a.leave()
    await fake.broker.share.alterPositions(contextOf(), GROUP, to(1))
    await a.join('jobs')
    assert.deepEqual(values(await a.poll()), ['2', '3'])
    await a.leave()
    await a.endSession()
    assert.deepEqual(await fake.broker.share.deletePositions(contextOf(), GROUP, ['jobs']), [null])
    assert.deepEqual(await fake.broker.share.positions(contextOf(), GROUP, null), [])
    await a.join('jobs')
    assert.deepEqual(values(await a.poll()), ['1', '2', '3'])
    await a.leave()
    assert.deepEqual(await fake.broker.groups.delete(contextOf(), [GROUP]), [null])
    await assert.rejects(fake.broker.share.positions(contextOf(), GROUP, null), { code: 'GROUP_MISSING' })
    const [unknown] = await fake.broker.share.positions(contextOf(), GROUP, [{ topic: 'no-topic', partitions: [0] }])
    assert.equal(unknown?.partitions[0]?.error?.code, 'TOPIC_MISSING', 'asked by name, each partition has its own answer')
    assert.equal((await a.fetch()).partitions[0]?.error?.code, 'GROUP_MISSING')
  })

  it('can be chosen before the group has a member', async () => {
    const fake = await world()
    await fake.produce('1', '2', '3')
    await fake.broker.share.alterPositions(contextOf(), 'new', [{ topic: 'jobs', partitions: [{ partition: 0, offset: 2 }] }])
    const a = await fake.member('a', 'new')
    assert.deepEqual(values(await a.poll()), ['3'])
  })

  it('go with their topic', async () => {
    const fake = await world()
    const a = await fake.member('a')
    await fake.produce('1')
    await a.poll()
    await fake.broker.topics.delete(contextOf(), 'jobs')
    await createTopic(fake.broker, 'jobs')
    await fake.produce('new')
    await a.heartbeat()
    assert.deepEqual(values(await a.poll()), ['new'])
  })
})
