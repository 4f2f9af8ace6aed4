import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ClassicGroup } from '../../../../src/broker/groups/classic-group.ts'
import type { ClassicOptions, MemberJoin } from '../../../../src/broker/groups/classic-types.ts'
import type { GroupEffect } from '../../../../src/broker/groups/machine.ts'
import type { JoinedGroup, SyncedGroup } from '../../../../src/broker/ports.ts'
import { MoonMQError } from '../../../../src/core/errors.ts'
import { subscriptionBytes } from '../../../support/subscriptions.ts'

/** The machine with a time that the test sets, and the answers by ticket. */
class Machine {
  group: ClassicGroup
  nowMs = 0
  readonly effects: GroupEffect[] = []
  readonly #options: ClassicOptions
  #ticket = 0

  constructor(options: Partial<ClassicOptions> = {}) {
    this.#options = { maxMembers: 100, initialRebalanceDelayMs: 0, ...options }
    this.group = new ClassicGroup('g', this.#options)
  }

  join(name: string, join: Partial<MemberJoin> = {}): number {
    const ticket = ++this.#ticket
    this.group.join(
      {
        memberId: '',
        newMemberId: name,
        instanceId: null,
        clientId: name,
        clientHost: '/host',
        protocolType: 'consumer',
        protocols: [{ name: 'range', metadata: Buffer.from(name) }],
        sessionTimeoutMs: 1000,
        rebalanceTimeoutMs: 5000,
        requireKnownMemberId: false,
        supportsSkippingAssignment: true,
        reason: null,
        ...join,
      },
      ticket,
      this.nowMs,
    )
    this.#collect()
    return ticket
  }

  /** A member that is in comes again, under its id. */
  again(name: string, join: Partial<MemberJoin> = {}): number {
    return this.join(name, { memberId: name, ...join })
  }

  sync(name: string, assignments: Record<string, string> = {}, generation = this.group.generation): number {
    const ticket = ++this.#ticket
    const bytes = new Map(Object.entries(assignments).map(([member, text]) => [member, Buffer.from(text)]))
    this.group.sync(
      { memberId: name, instanceId: null, generation, protocolType: null, protocol: null, assignments: bytes },
      ticket,
      this.nowMs,
    )
    this.#collect()
    return ticket
  }

  advance(ms: number): void {
    const endMs = this.nowMs + ms
    for (;;) {
      const next = this.group.nextDeadlineMs()
      if (next > endMs) break
      this.nowMs = next
      this.group.tick(next)
      this.#collect()
    }
    this.nowMs = endMs
  }

  restart(): void {
    this.group = ClassicGroup.restore('g', this.group.snapshot(), this.#options, this.nowMs)
  }

  joined(ticket: number): JoinedGroup | undefined {
    for (const effect of this.effects) if (effect.kind === 'joined' && effect.ticket === ticket) return effect.result
    return undefined
  }

  /** The assignment, the code of a refusal, or undefined while it waits. */
  synced(ticket: number): string | undefined {
    for (const effect of this.effects) if (effect.kind === 'synced' && effect.ticket === ticket) return said(effect.result)
    return undefined
  }

  code(ticket: number): string | null | undefined {
    const joined = this.joined(ticket)
    return joined === undefined ? undefined : (joined.error?.code ?? null)
  }

  /** Brings these members in, all stable. */
  stable(...names: string[]): void {
    names.forEach((name, index) => {
      this.join(name)
      for (const earlier of names.slice(0, index)) this.again(earlier)
    })
    const leader = this.group.leader ?? ''
    for (const name of names) if (name !== leader) this.sync(name)
    this.sync(leader, Object.fromEntries(names.map((name) => [name, `for ${name}`])))
    assert.equal(this.group.state, 'Stable')
  }

  collect(): void {
    this.#collect()
  }

  #collect(): void {
    this.effects.push(...this.group.drain())
  }
}

function said(result: SyncedGroup | MoonMQError): string {
  return result instanceof MoonMQError ? result.code : result.assignment.toString()
}

const protocols = (...names: string[]) => names.map((name) => ({ name, metadata: Buffer.from(name) }))

test('the barrier opens when the last member has joined', () => {
  const m = new Machine()
  m.stable('a', 'b')
  const c = m.join('c')
  assert.equal(m.group.state, 'PreparingRebalance')
  const a = m.again('a')
  assert.equal(m.joined(a), undefined)
  const b = m.again('b')
  for (const ticket of [a, b, c]) assert.equal(m.joined(ticket)?.generation, m.group.generation)
  assert.equal(m.joined(a)?.members.length, 3)
})

test('members that do not come in time are left out, and told so', () => {
  const m = new Machine()
  m.stable('a', 'b')
  const c = m.join('c')
  m.again('a')
  for (let ms = 0; ms < 5000; ms += 500) {
    m.advance(500)
    if (m.group.state === 'PreparingRebalance') m.group.heartbeat('b', null, m.group.generation, m.nowMs)
  }
  assert.equal(m.joined(c)?.error, null)
  assert.equal(m.group.memberCount, 2)
  assert.equal(m.group.heartbeat('b', null, 2, m.nowMs)?.code, 'GROUP_MEMBER_UNKNOWN')
})

test('the slowest member decides how long a rebalance waits', () => {
  const m = new Machine()
  m.join('a', { rebalanceTimeoutMs: 20_000, sessionTimeoutMs: 60_000 })
  m.sync('a', { a: 'all' })
  const b = m.join('b', { rebalanceTimeoutMs: 1000 })
  m.advance(19_999)
  assert.equal(m.joined(b), undefined)
  m.advance(1)
  assert.equal(m.joined(b)?.error, null)
})

test('the leader is the first member, and another one when it is gone', () => {
  const m = new Machine()
  m.stable('a', 'b')
  assert.equal(m.group.leader, 'a')
  assert.equal(m.group.leave('a', null, m.nowMs), null)
  m.collect()
  const b = m.again('b')
  assert.equal(m.joined(b)?.leader, 'b')
  assert.equal(m.joined(b)?.members.length, 1)
})

test('the protocol is the one that most members prefer among those that all know', () => {
  const m = new Machine()
  m.join('a', { protocols: protocols('x', 'y', 'z') })
  m.join('b', { protocols: protocols('z', 'y') })
  m.join('c', { protocols: protocols('only-c', 'z', 'y') })
  m.again('a', { protocols: protocols('x', 'y', 'z') })
  m.again('b', { protocols: protocols('z', 'y') })
  assert.equal(m.group.protocol, 'z')
  assert.equal(m.code(m.join('d', { protocols: protocols('x') })), 'INCONSISTENT_GROUP_PROTOCOL')
  assert.equal(m.code(m.join('d', { protocolType: 'connect' })), 'INCONSISTENT_GROUP_PROTOCOL')
  assert.equal(m.code(m.join('d', { protocols: [] })), 'INCONSISTENT_GROUP_PROTOCOL')
})

test('a member comes again with a protocol that it had before, even when it is alone', () => {
  const m = new Machine()
  m.stable('a')
  const other = m.again('a', { protocols: protocols('sticky') })
  assert.equal(m.code(other), 'INCONSISTENT_GROUP_PROTOCOL')
  const both = m.again('a', { protocols: protocols('sticky', 'range') })
  assert.equal(m.code(both), null)
})

test('the first rebalance of an empty group does not wait for one that was only given an id', () => {
  const m = new Machine()
  m.join('pending', { memberId: '', requireKnownMemberId: true })
  const a = m.join('a')
  assert.equal(m.joined(a)?.generation, 1)
})

test('what members subscribe to is known as soon as all have joined', () => {
  const m = new Machine()
  assert.deepEqual(m.group.subscribedTopics(), new Set())
  const metadata = subscriptionBytes(['t'])
  m.join('a', { protocols: [{ name: 'range', metadata }] })
  assert.equal(m.group.state, 'CompletingRebalance')
  assert.deepEqual(m.group.subscribedTopics(), new Set(['t']))
  m.sync('a', { a: 'all' })
  m.join('b', { protocols: [{ name: 'range', metadata: subscriptionBytes(['u']) }] })
  assert.equal(m.group.state, 'PreparingRebalance')
  assert.deepEqual(m.group.subscribedTopics(), new Set(['t']))
})

test('the first rebalance waits for company, and longer while some comes', () => {
  const m = new Machine({ initialRebalanceDelayMs: 300 })
  const a = m.join('a', { rebalanceTimeoutMs: 800 })
  m.advance(200)
  const b = m.join('b', { rebalanceTimeoutMs: 800 })
  m.advance(100)
  assert.equal(m.joined(a), undefined, 'b came meanwhile')
  m.advance(300)
  assert.equal(m.joined(a)?.generation, 1)
  assert.equal(m.joined(b)?.generation, 1)
  assert.equal(m.joined(a)?.members.length, 2)
})

test('the first rebalance does not wait beyond the rebalance timeout, however many come', () => {
  const m = new Machine({ initialRebalanceDelayMs: 300 })
  const first = m.join('m0', { rebalanceTimeoutMs: 700 })
  let index = 1
  while (m.joined(first) === undefined && index < 20) {
    m.advance(100)
    m.join(`m${index++}`, { rebalanceTimeoutMs: 700 })
  }
  assert.ok(m.nowMs <= 700, `it waited ${m.nowMs} ms`)
})

test('a lost answer: the same join again gives the same generation', () => {
  const m = new Machine()
  m.join('a')
  const again = m.again('a')
  assert.equal(m.joined(again)?.generation, 1)
  assert.equal(m.joined(again)?.members.length, 1)
  m.sync('a', { a: 'all' })
  m.join('b')
  m.again('a')
  m.sync('b')
  m.sync('a', { a: '1', b: '2' })
  const follower = m.again('b')
  assert.equal(m.joined(follower)?.generation, 2)
  assert.equal(m.group.state, 'Stable')
})

test('a leader that joins again asks for a rebalance, a follower with a new subscription too', () => {
  const m = new Machine()
  m.stable('a', 'b')
  m.again('a')
  assert.equal(m.group.state, 'PreparingRebalance')
  const n = new Machine()
  n.stable('a', 'b')
  n.again('b', { protocols: [{ name: 'range', metadata: Buffer.from('other topics') }] })
  assert.equal(n.group.state, 'PreparingRebalance')
})

test('a sync of another generation or state is refused, one that waits is told of the rebalance', () => {
  const m = new Machine()
  m.join('a')
  assert.equal(m.synced(m.sync('a', {}, 9)), 'ILLEGAL_GENERATION')
  assert.equal(m.synced(m.sync('nobody')), 'GROUP_MEMBER_UNKNOWN')
  m.sync('a', { a: 'all' })
  m.join('b')
  assert.equal(m.synced(m.sync('a')), 'REBALANCE_IN_PROGRESS')
  m.again('a')
  const waiting = m.sync('b')
  assert.equal(m.synced(waiting), undefined)
  m.join('c')
  assert.equal(m.synced(waiting), 'REBALANCE_IN_PROGRESS')
})

test('a member that the leader forgot gets an empty assignment', () => {
  const m = new Machine()
  m.join('a')
  m.join('b')
  m.again('a')
  const b = m.sync('b')
  m.sync('a', { a: 'all', stranger: 'x' })
  assert.equal(m.synced(b), '')
})

test('a leader that never syncs is removed, and the others go on without it', () => {
  const m = new Machine()
  m.join('a', { sessionTimeoutMs: 60_000 })
  m.join('b', { sessionTimeoutMs: 60_000 })
  m.again('a', { sessionTimeoutMs: 60_000 })
  const b = m.sync('b')
  m.advance(5000)
  assert.equal(m.synced(b), 'REBALANCE_IN_PROGRESS')
  const again = m.again('b', { sessionTimeoutMs: 60_000 })
  assert.equal(m.joined(again)?.leader, 'b')
  assert.equal(m.group.memberCount, 1)
})

test('an id that was given out and not used holds the barrier for one session at most', () => {
  const m = new Machine()
  m.stable('a')
  assert.equal(m.code(m.join('new', { requireKnownMemberId: true })), 'MEMBER_ID_REQUIRED')
  const a = m.again('a')
  assert.equal(m.joined(a), undefined)
  m.advance(1000)
  assert.equal(m.joined(a)?.members.length, 1)
})

test('no more members than allowed, ids given out included; those that are in may come again', () => {
  const m = new Machine({ maxMembers: 2 })
  m.stable('a')
  m.join('b', { requireKnownMemberId: true })
  assert.equal(m.code(m.join('c')), 'GROUP_LIMIT')
  const b = m.again('b')
  m.again('a')
  assert.equal(m.code(b), null)
})

test('a static member that is away keeps its place in a rebalance until its session ends', () => {
  const m = new Machine()
  const first = m.join('s', { instanceId: 'i', sessionTimeoutMs: 20_000 })
  assert.equal(m.code(first), null)
  m.sync('s', { s: 'all' })
  const b = m.join('b')
  m.advance(5000)
  assert.equal(m.joined(b)?.members.length, 2)
  assert.equal(m.joined(b)?.leader, 'b')
  assert.equal(m.group.memberCount, 2)
})

test('only static members that are away: the rebalance goes on until one comes or the last session ends', () => {
  const m = new Machine()
  m.join('s', { instanceId: 'i', sessionTimeoutMs: 12_000 })
  m.sync('s', { s: 'all' })
  m.join('b')
  assert.equal(m.group.leave('b', null, m.nowMs), null)
  m.collect()
  m.advance(11_999)
  assert.equal(m.group.memberCount, 1)
  m.advance(1)
  assert.equal(m.group.state, 'Empty')
})

test('a static member may be taken out by its instance id alone', () => {
  const m = new Machine()
  m.join('s', { instanceId: 'i' })
  assert.equal(m.group.leave('other', 'i', m.nowMs)?.code, 'FENCED_INSTANCE_ID')
  assert.equal(m.group.leave('', 'none', m.nowMs)?.code, 'GROUP_MEMBER_UNKNOWN')
  assert.equal(m.group.leave('', 'i', m.nowMs), null)
  assert.equal(m.group.state, 'Empty')
})

test('a static member that comes back between the barriers starts a new rebalance', () => {
  const m = new Machine()
  m.join('s1', { instanceId: 'i' })
  assert.equal(m.group.state, 'CompletingRebalance')
  const old = m.group.generation
  const back = m.join('s2', { instanceId: 'i' })
  assert.equal(m.joined(back)?.generation, old + 1)
  assert.equal(m.group.heartbeat('s1', 'i', old, m.nowMs)?.code, 'FENCED_INSTANCE_ID')
})

test('a parked join of a static member is fenced by the one that replaces it', () => {
  const m = new Machine()
  m.stable('a')
  const old = m.join('s1', { instanceId: 'i' })
  const now = m.join('s2', { instanceId: 'i' })
  assert.equal(m.code(old), 'FENCED_INSTANCE_ID')
  m.again('a')
  assert.equal(m.code(now), null)
})

test('a connection that goes: a member that never knew its id goes at once, one that did keeps its session', () => {
  const m = new Machine()
  m.stable('a')
  const b = m.join('b')
  m.group.abandon(b, m.nowMs)
  m.collect()
  assert.equal(m.group.memberCount, 1)
  const a = m.again('a')
  assert.equal(m.code(a), null)
  m.sync('a', { a: 'all' })
  m.join('c')
  const waiting = m.again('a')
  m.join('d', { requireKnownMemberId: true })
  m.again('d')
  assert.equal(m.code(waiting), null)
  m.group.abandon(waiting, m.nowMs)
  assert.equal(m.group.memberCount, 3)
})

test('restored in any state, the group has the generation that its members were told', () => {
  const m = new Machine()
  m.stable('a', 'b')
  m.restart()
  assert.equal(m.group.state, 'Stable')
  assert.equal(m.group.heartbeat('b', null, m.group.generation, m.nowMs), null)
  assert.equal(m.synced(m.sync('b')), 'for b')
  const c = m.join('c')
  m.again('a')
  m.again('b')
  const generation = m.joined(c)?.generation
  m.restart()
  assert.equal(m.group.state, 'CompletingRebalance')
  assert.equal(m.group.generation, generation)
  const b = m.sync('b')
  m.sync('a', { a: '1', b: '2', c: '3' })
  assert.equal(m.synced(b), '2')
  m.restart()
  m.advance(5000)
  assert.equal(m.group.state, 'Empty')
  m.restart()
  assert.equal(m.group.state, 'Empty')
  assert.ok(m.group.generation > (generation ?? 0))
})

test('a commit is taken from whom the group belongs to', () => {
  const m = new Machine()
  const code = (memberId: string, generation: number) =>
    m.group.refuseCommit({ memberId, instanceId: null, epoch: generation, offsets: [] }, m.nowMs)?.code ?? null
  assert.equal(code('', -1), null, 'a group without members')
  m.stable('a')
  assert.equal(code('', -1), 'GROUP_MEMBER_UNKNOWN')
  assert.equal(code('a', 1), null)
  assert.equal(code('a', 0), 'ILLEGAL_GENERATION')
  assert.equal(code('a', -1), 'ILLEGAL_GENERATION')
  assert.equal(code('b', 1), 'GROUP_MEMBER_UNKNOWN')
  m.join('b')
  assert.equal(code('a', 1), null, 'before it joins again')
  m.again('a')
  assert.equal(code('a', 2), 'REBALANCE_IN_PROGRESS')
})

test('every effect of a finished group is an answer: nothing waits for ever', () => {
  const m = new Machine()
  m.stable('a')
  const b = m.join('b')
  m.group.kill('deleted')
  m.collect()
  assert.equal(m.code(b), 'GROUP_MEMBER_UNKNOWN')
  assert.equal(m.group.nextDeadlineMs(), Number.POSITIVE_INFINITY)
})

test('the topics of a member are read whatever version it names, also when it leaves out what the version added', () => {
  const machine = new Machine()
  // Version 1, the topic `t`, user data of no bytes, and no owned partitions, which version 1 has behind them.
  machine.join('a', { protocols: [{ name: 'range', metadata: Buffer.from('000100000001000174' + '00000000', 'hex') }] })
  machine.sync('a', { a: '' })
  assert.equal(machine.group.state, 'Stable')
  assert.deepEqual([...(machine.group.subscribedTopics() ?? [])], ['t'])
  machine.again('a', { protocols: [{ name: 'range', metadata: Buffer.from('0001', 'hex') }] })
  machine.sync('a', { a: '' })
  assert.equal(machine.group.subscribedTopics(), null, 'nothing can be read there')
})
