import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Input } from '../../../src/schema/compile.ts'
import type { ApiName } from '../../../src/schema/messages.ts'
import type { Requests, Responses } from '../../../src/schema/types.generated.ts'
import { createTopic } from '../../support/fake-broker.ts'
import { type TestConnection, type TestDoor, testDoor } from '../../support/kafka-door.ts'
import { readResponse, requestFrame } from '../../support/kafka-frames.ts'

const SESSION_MS = 6000
const REBALANCE_MS = 10_000

async function openDoor(): Promise<TestDoor> {
  const door = await testDoor()
  await createTopic(door.broker, 't', 2)
  const loaded = door.broker.loadGroups()
  await door.clock.advance(0)
  await loaded
  return door
}

/** Sends without waiting: JoinGroup and SyncGroup may be parked. */
function ask<N extends ApiName>(connection: TestConnection, name: N, version: number, body: Input<Requests[N]>): void {
  connection.push(requestFrame(name, version, body))
}

/** The answer that has come by now. */
async function told<N extends ApiName>(door: TestDoor, connection: TestConnection, name: N, version: number): Promise<Responses[N] | null> {
  await door.clock.advance(0)
  const [frame] = connection.frames()
  return frame === undefined ? null : readResponse(name, version, frame).body
}

async function answer<N extends ApiName>(
  door: TestDoor,
  connection: TestConnection,
  name: N,
  version: number,
  body: Input<Requests[N]>,
): Promise<Responses[N]> {
  ask(connection, name, version, body)
  const found = await told(door, connection, name, version)
  assert.ok(found !== null, `${name} was not answered`)
  return found
}

function joinBody(memberId = '', instanceId: string | null = null): Input<Requests['JoinGroup']> {
  return {
    groupId: 'g',
    sessionTimeoutMs: SESSION_MS,
    rebalanceTimeoutMs: REBALANCE_MS,
    memberId,
    groupInstanceId: instanceId,
    protocolType: 'consumer',
    protocols: [{ name: 'range', metadata: Buffer.from('t') }],
  }
}

/** A member that knows its id and waits at the join barrier, or is past it. */
async function joining(door: TestDoor): Promise<{ connection: TestConnection; memberId: string }> {
  const connection = door.connect()
  const first = await answer(door, connection, 'JoinGroup', 5, joinBody())
  assert.equal(first.errorCode, 79)
  ask(connection, 'JoinGroup', 5, joinBody(first.memberId))
  await door.clock.advance(0)
  return { connection, memberId: first.memberId }
}

async function state(door: TestDoor): Promise<string> {
  const { groups } = await answer(door, door.connect(), 'DescribeGroups', 5, { groups: ['g'] })
  return groups[0]?.groupState ?? ''
}

async function alone(door: TestDoor): Promise<{ memberId: string; generationId: number; connection: TestConnection }> {
  const { connection, memberId } = await joining(door)
  const joined = await told(door, connection, 'JoinGroup', 5)
  assert.ok(joined !== null && joined.errorCode === 0, `the join was answered ${joined?.errorCode}`)
  const { generationId } = joined
  const assignments = [{ memberId, assignment: Buffer.from('all') }]
  const synced = await answer(door, connection, 'SyncGroup', 3, { groupId: 'g', generationId, memberId, assignments })
  assert.equal(synced.errorCode, 0)
  assert.equal(synced.assignment.toString(), 'all')
  return { memberId, generationId, connection }
}

test('O1: three connections are cut between join and sync; a new member is stable within the timeouts', async () => {
  const door = await openDoor()
  const members = []
  for (let index = 0; index < 3; index++) members.push(await joining(door))
  assert.equal(await state(door), 'PreparingRebalance')
  for (const { connection } of members) connection.socket.close()
  await door.clock.advance(REBALANCE_MS + SESSION_MS)
  assert.equal(await state(door), 'Empty')
  const { generationId } = await alone(door)
  assert.ok(generationId > 1)
  assert.equal(await state(door), 'Stable')
})

test('O1: a living member that waits at the barrier does not wait longer than the dead ones have a session', async () => {
  const door = await openDoor()
  const dead = await joining(door)
  assert.equal((await told(door, dead.connection, 'JoinGroup', 5))?.errorCode, 0)
  const living = await joining(door)
  assert.equal(await told(door, living.connection, 'JoinGroup', 5), null)
  dead.connection.socket.close()
  await door.clock.advance(SESSION_MS)
  const joined = await told(door, living.connection, 'JoinGroup', 5)
  assert.equal(joined?.errorCode, 0)
  assert.equal(joined?.leader, living.memberId)
  assert.equal(joined?.members.length, 1)
})

test('O2: the late commit of a removed member changes nothing, and the member can join again', async () => {
  const door = await openDoor()
  const a = await alone(door)
  await door.clock.advance(SESSION_MS)
  const b = await alone(door)
  const commit = (by: { memberId: string; generationId: number; connection: TestConnection }, offset: number) =>
    answer(door, by.connection, 'OffsetCommit', 7, {
      groupId: 'g',
      generationIdOrMemberEpoch: by.generationId,
      memberId: by.memberId,
      topics: [{ name: 't', partitions: [{ partitionIndex: 0, committedOffset: offset, committedMetadata: '' }] }],
    })
  assert.equal((await commit(b, 100)).topics[0]?.partitions[0]?.errorCode, 0)
  assert.equal((await commit(a, 50)).topics[0]?.partitions[0]?.errorCode, 25)
  assert.equal((await commit({ ...a, memberId: '', generationId: -1 }, 50)).topics[0]?.partitions[0]?.errorCode, 25)
  const topics = [{ name: 't', partitionIndexes: [0] }]
  const fetched = await answer(door, door.connect(), 'OffsetFetch', 7, { groupId: 'g', topics, requireStable: true })
  assert.equal(fetched.topics[0]?.partitions[0]?.committedOffset, 100)
  const again = await joining(door)
  ask(b.connection, 'JoinGroup', 5, joinBody(b.memberId))
  await door.clock.advance(0)
  assert.equal((await told(door, again.connection, 'JoinGroup', 5))?.errorCode, 0)
})

test('O3: an old socket that still beats is fenced, the restarted process never', async () => {
  const door = await openDoor()
  const old = door.connect()
  const joined = await answer(door, old, 'JoinGroup', 5, joinBody('', 'i1'))
  const { generationId, memberId } = joined
  const assignments = [{ memberId, assignment: Buffer.from('all') }]
  const sync = { groupId: 'g', generationId, memberId, groupInstanceId: 'i1', assignments }
  assert.equal((await answer(door, old, 'SyncGroup', 3, sync)).errorCode, 0)
  const now = door.connect()
  const rejoined = await answer(door, now, 'JoinGroup', 5, joinBody('', 'i1'))
  assert.deepEqual([rejoined.errorCode, rejoined.generationId], [0, generationId])
  const beat = (connection: TestConnection, id: string) =>
    answer(door, connection, 'Heartbeat', 3, { groupId: 'g', generationId, memberId: id, groupInstanceId: 'i1' })
  for (let turn = 0; turn < 3; turn++) {
    assert.equal((await beat(old, memberId)).errorCode, 82)
    assert.equal((await beat(now, rejoined.memberId)).errorCode, 0)
    await door.clock.advance(SESSION_MS / 2)
  }
  const kept = await answer(door, now, 'SyncGroup', 3, { ...sync, memberId: rejoined.memberId, assignments: [] })
  assert.equal(kept.assignment.toString(), 'all')
})

test('O20: a topic that is made again has no offsets, and its old id commits nothing', async () => {
  const door = await openDoor()
  const old = door.broker.topics.get('t').id
  const commit = (topicId: string, offset: number) =>
    answer(door, door.connect(), 'OffsetCommit', 10, {
      groupId: 'g',
      generationIdOrMemberEpoch: -1,
      memberId: '',
      topics: [{ topicId, partitions: [{ partitionIndex: 0, committedOffset: offset, committedMetadata: '' }] }],
    })
  assert.equal((await commit(old, 10)).topics[0]?.partitions[0]?.errorCode, 0)
  const deleted = await answer(door, door.connect(), 'DeleteTopics', 6, { topics: [{ name: 't' }], timeoutMs: 1000 })
  assert.equal(deleted.responses[0]?.errorCode, 0)
  await createTopic(door.broker, 't', 2)
  const { id } = door.broker.topics.get('t')
  assert.notEqual(id, old)
  assert.equal((await commit(old, 11)).topics[0]?.partitions[0]?.errorCode, 100)
  const groups = [{ groupId: 'g', topics: [{ topicId: id, partitionIndexes: [0] }] }]
  const fetched = await answer(door, door.connect(), 'OffsetFetch', 10, { groups })
  assert.equal(fetched.groups[0]?.topics[0]?.partitions[0]?.committedOffset, -1)
})
