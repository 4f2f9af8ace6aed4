import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { AssigningMember, Assignment } from '../../../../src/broker/groups/consumer/assignment.ts'
import { ASSIGNORS } from '../../../../src/broker/groups/consumer/assignors.ts'

const TOPICS = ['T0', 'T1', 'T2', 'T3']

interface Case {
  readonly partitions: Map<string, number>
  readonly subscriptions: readonly (readonly string[])[]
}

const cases: fc.Arbitrary<Case> = fc
  .record({
    counts: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: TOPICS.length, maxLength: TOPICS.length }),
    subscriptions: fc.array(fc.subarray(TOPICS), { minLength: 1, maxLength: 6 }),
    alike: fc.boolean(),
  })
  .map(({ counts, subscriptions, alike }) => ({
    partitions: new Map(TOPICS.map((topic, at) => [topic, counts[at] ?? 0])),
    subscriptions: alike ? subscriptions.map(() => subscriptions[0] ?? []) : subscriptions,
  }))

function membersOf(subscriptions: Case['subscriptions'], former: ReadonlyMap<string, Assignment> = new Map()): AssigningMember[] {
  return subscriptions.map((topics, at) => {
    const memberId = `m${at}`
    return { memberId, instanceId: at % 2 === 0 ? `i${at}` : null, topics: new Set(topics), former: former.get(memberId) ?? new Map() }
  })
}

function flat(assigned: ReadonlyMap<string, Assignment>): [string, string, number][] {
  return [...assigned].flatMap(([member, topics]) =>
    [...topics].flatMap(([topic, partitions]) => [...partitions].map((partition): [string, string, number] => [member, topic, partition])),
  )
}

/** Every partition that somebody subscribes to has one owner, who subscribes to it. */
function assertWhole({ partitions, subscriptions }: Case, assigned: ReadonlyMap<string, Assignment>): void {
  const given = flat(assigned)
  for (const [member, topic] of given) assert.ok(subscriptions[Number(member.slice(1))]?.includes(topic), `${member} has ${topic}`)
  const wanted = TOPICS.filter((topic) => subscriptions.some((topics) => topics.includes(topic)))
  const expected = wanted.flatMap((topic) => Array.from({ length: partitions.get(topic) ?? 0 }, (_, partition) => `${topic}-${partition}`))
  assert.deepEqual(given.map(([, topic, partition]) => `${topic}-${partition}`).sort(), expected.sort())
}

const sizeOf = (assignment: Assignment | undefined) => [...(assignment ?? [])].reduce((sum, [, partitions]) => sum + partitions.size, 0)

for (const [name, assign] of Object.entries(ASSIGNORS)) {
  test(`${name}: every partition has one owner that asks for it, and the same question has the same answer`, () => {
    fc.assert(
      fc.property(cases, (given) => {
        const members = membersOf(given.subscriptions)
        const assigned = assign(members, given.partitions)
        assertWhole(given, assigned)
        assert.deepEqual(flat(assign([...members].reverse(), given.partitions)).sort(), flat(assigned).sort(), 'in any order')
      }),
    )
  })
}

test('uniform: nobody has two more than another that could take one, and what is fair stays where it is', () => {
  const { uniform } = ASSIGNORS
  assert.ok(uniform !== undefined)
  fc.assert(
    fc.property(cases, (given) => {
      const first = uniform(membersOf(given.subscriptions), given.partitions)
      const members = membersOf(given.subscriptions, first)
      for (const [from, topic] of flat(first)) {
        for (const { memberId: to, topics } of members) {
          if (topics.has(topic)) assert.ok(sizeOf(first.get(from)) - sizeOf(first.get(to)) < 2, `${from} could give ${topic} to ${to}`)
        }
      }
      assert.deepEqual(flat(uniform(members, given.partitions)).sort(), flat(first).sort(), 'nothing moves')
    }),
  )
})

test('uniform: who comes gets its part from those who have most, who leaves gives its part to all, nothing else moves', () => {
  const { uniform } = ASSIGNORS
  assert.ok(uniform !== undefined)
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 30 }), (size, count) => {
      const partitions = new Map([['T0', count]])
      const some = Array.from({ length: size }, () => ['T0'])
      const before = uniform(membersOf(some), partitions)
      const grown = uniform(membersOf([...some, ['T0']], before), partitions)
      const added = sizeOf(grown.get(`m${size}`))
      assert.ok(added >= Math.floor(count / (size + 1)))
      const kept = flat(before).filter(([member, , partition]) => grown.get(member)?.get('T0')?.has(partition))
      assert.equal(kept.length, count - added, 'only what the new one got has moved')
      const shrunk = uniform(membersOf(some, grown), partitions)
      for (const [member, , partition] of kept) assert.ok(shrunk.get(member)?.get('T0')?.has(partition), 'they keep what they have')
    }),
  )
})

test('range: topics with as many partitions are cut alike, static members first', () => {
  const { range } = ASSIGNORS
  assert.ok(range !== undefined)
  const topics = new Set(['T0', 'T1'])
  const former = new Map()
  const members = [
    { memberId: 'a', instanceId: null, topics, former },
    { memberId: 'z', instanceId: 'i2', topics, former },
    { memberId: 'y', instanceId: 'i1', topics, former },
  ]
  const assigned = range(
    members,
    new Map([
      ['T0', 5],
      ['T1', 5],
    ]),
  )
  const of = (member: string, topic: string) => [...(assigned.get(member)?.get(topic) ?? [])]
  for (const topic of topics) assert.deepEqual([of('y', topic), of('z', topic), of('a', topic)], [[0, 1], [2, 3], [4]])
})
