import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Acquire, SharePartition } from '../../../../src/broker/share/share-partition.ts'
import type { AckType, ShareRules } from '../../../../src/broker/share/share-types.ts'

const RULES: ShareRules = { maxDeliveries: 3, lockMs: 1000, maxLocks: 100, keepsDeadLetters: true, retryDelaysMs: [] }

function partition(startOffset = 0): SharePartition {
  const machine = new SharePartition({ startOffset: -1, batches: [] })
  machine.begin(startOffset)
  machine.takeChanges()
  return machine
}

/** Gives the records of a read of these batches to a member. */
function acquire(machine: SharePartition, member: string, batches: readonly (readonly [number, number])[], more: Partial<Acquire> = {}) {
  const from = machine.nextFetchOffset(RULES) ?? -1
  const end = (batches.at(-1)?.[1] ?? from - 1) + 1
  const request: Acquire = {
    member,
    from,
    end,
    batches: batches.map(([first, last]) => ({ first, last })),
    maxRecords: 500,
    isStrict: false,
    batchSize: 500,
    nowMs: 0,
    ...more,
  }
  return machine.acquire(request, RULES).map(({ first, last, deliveries }) => [first, last, deliveries])
}

function ack(machine: SharePartition, member: string, first: number, last: number, ...types: AckType[]): void {
  machine.acknowledge(member, [{ first, last, types }], 0, RULES)
}

describe('a share partition', () => {
  it('gives each record to one member and moves its start over what is accepted', () => {
    const machine = partition()
    assert.deepEqual(acquire(machine, 'a', [[0, 4]]), [[0, 4, 1]])
    assert.deepEqual(acquire(machine, 'b', [[5, 9]]), [[5, 9, 1]])
    ack(machine, 'b', 5, 9, 'accept')
    assert.equal(machine.startOffset, 0)
    ack(machine, 'a', 0, 4, 'accept')
    assert.equal(machine.startOffset, 10)
    assert.equal(machine.nextOffset, 10)
    assert.deepEqual(machine.state(), { startOffset: 10, batches: [] })
  })

  it('gives what was released to somebody else, with its deliveries counted', () => {
    const machine = partition()
    acquire(machine, 'a', [[0, 4]])
    ack(machine, 'a', 0, 4, 'accept', 'release', 'accept', 'release', 'accept')
    assert.equal(machine.nextFetchOffset(RULES), 1)
    assert.deepEqual(acquire(machine, 'b', [[0, 4]]), [
      [1, 1, 2],
      [3, 3, 2],
    ])
  })

  it('stores what changed and nothing of who holds what', () => {
    const machine = partition()
    acquire(machine, 'a', [[0, 9]])
    assert.equal(machine.hasChanges, false)
    ack(machine, 'a', 2, 3, 'accept')
    ack(machine, 'a', 6, 6, 'release')
    assert.deepEqual(machine.takeChanges(), {
      startOffset: 0,
      batches: [
        { first: 2, last: 3, state: 'acknowledged', deliveries: 1 },
        { first: 6, last: 6, state: 'available', deliveries: 1 },
      ],
      dead: [],
    })
    const restored = new SharePartition(machine.state())
    assert.equal(restored.nextFetchOffset(RULES), 0)
    assert.deepEqual(acquire(restored, 'b', [[0, 9]]), [
      [0, 1, 1],
      [4, 5, 1],
      [6, 6, 2],
      [7, 9, 1],
    ])
  })

  it('refuses what nobody was given as what is in no state to be acknowledged, while nothing else is given out', () => {
    const machine = partition()
    assert.throws(() => ack(machine, 'a', 0, 3, 'accept'), { code: 'INVALID_RECORD_STATE' })
    acquire(machine, 'a', [[0, 4]])
    assert.throws(() => ack(machine, 'a', 5, 5, 'accept'), { code: 'INVALID_REQUEST' })
    ack(machine, 'a', 0, 4, 'accept')
    assert.throws(() => ack(machine, 'a', 5, 5, 'accept'), { code: 'INVALID_RECORD_STATE' }, 'all of it is done')
    ack(machine, 'a', 2, 3, 'accept')
    assert.deepEqual(machine.state(), { startOffset: 5, batches: [] }, 'what is behind the start is no error')
  })

  it('refuses what the member does not hold, and then changes nothing', () => {
    const machine = partition()
    acquire(machine, 'a', [[0, 4]])
    acquire(machine, 'b', [[5, 9]])
    assert.throws(() => ack(machine, 'a', 0, 6, 'accept'), { code: 'INVALID_RECORD_STATE' })
    assert.throws(() => ack(machine, 'a', 0, 10, 'accept'), { code: 'INVALID_REQUEST' })
    ack(machine, 'a', 0, 0, 'accept')
    ack(machine, 'a', 2, 2, 'accept')
    assert.throws(() => ack(machine, 'a', 2, 2, 'accept'), { code: 'INVALID_RECORD_STATE' })
    // Below the start everything is done with: a repeat is answered as the first time.
    ack(machine, 'a', 0, 0, 'accept')
  })

  it('takes back what was not answered in time, and keeps what was renewed', () => {
    const machine = partition()
    acquire(machine, 'a', [[0, 4]])
    machine.acknowledge('a', [{ first: 2, last: 2, types: ['renew'] }], 800, RULES)
    assert.equal(machine.nextDeadlineMs(), 1000)
    machine.expire(1000, RULES)
    assert.equal(machine.nextDeadlineMs(), 1800)
    assert.deepEqual(acquire(machine, 'b', [[0, 4]]), [
      [0, 1, 2],
      [3, 4, 2],
    ])
  })

  it('moves a rejected record and one that was delivered too often, once each, and passes over them', () => {
    const machine = partition()
    acquire(machine, 'a', [[0, 2]])
    ack(machine, 'a', 0, 2, 'reject', 'release', 'accept')
    assert.deepEqual(machine.takeChanges().dead, [{ first: 0, last: 0, deliveries: 1, reason: 'rejected' }])
    assert.equal(machine.startOffset, 0)
    machine.archive({ first: 0, last: 0 })
    assert.equal(machine.startOffset, 1)
    acquire(machine, 'a', [[0, 2]])
    ack(machine, 'a', 1, 1, 'release')
    acquire(machine, 'a', [[0, 2]])
    machine.expire(5000, RULES)
    assert.deepEqual(machine.takeChanges().dead, [{ first: 1, last: 1, deliveries: 3, reason: 'exhausted' }])
    assert.equal(machine.nextFetchOffset(RULES), 3)
    const restored = new SharePartition(machine.state())
    assert.deepEqual(restored.interrupted(), [{ first: 1, last: 1, deliveries: 3, reason: 'resumed' }])
    restored.archive({ first: 1, last: 1 })
    assert.equal(restored.startOffset, 3)
  })

  it('gives a record its last delivery alone', () => {
    const machine = partition()
    acquire(machine, 'a', [[0, 4]])
    machine.releaseAll('a', 0, RULES)
    acquire(machine, 'a', [[0, 4]])
    machine.releaseAll('a', 0, RULES)
    assert.deepEqual(acquire(machine, 'a', [[0, 4]]), [[0, 0, 3]])
    assert.deepEqual(acquire(machine, 'b', [[0, 4]]), [[1, 1, 3]])
  })

  it('passes over what the log does not have: control records, compacted ones, and what retention took', () => {
    const machine = partition()
    assert.deepEqual(
      acquire(machine, 'a', [
        [0, 2],
        [4, 5],
      ]),
      [
        [0, 2, 1],
        [4, 5, 1],
      ],
    )
    assert.deepEqual(acquire(machine, 'a', [], { end: 8 }), [])
    assert.equal(machine.nextOffset, 8)
    ack(machine, 'a', 0, 5, 'accept')
    assert.equal(machine.startOffset, 8)
    acquire(machine, 'a', [[8, 19]])
    machine.trim(12)
    assert.equal(machine.startOffset, 12)
    ack(machine, 'a', 8, 19, 'accept')
    assert.equal(machine.startOffset, 20)
    machine.trim(30)
    assert.equal(machine.nextFetchOffset(RULES), 30)
  })

  it('keeps to the number of records asked for where that is strict, else to whole batches', () => {
    const machine = partition()
    const batches = [
      [0, 9],
      [10, 19],
    ] as const
    assert.deepEqual(acquire(machine, 'a', batches, { maxRecords: 4, isStrict: true }), [[0, 3, 1]])
    assert.deepEqual(acquire(machine, 'a', batches, { maxRecords: 4, batchSize: 4 }), [[4, 9, 1]])
  })

  it('gives neighbours over batches as one range, and begins another where a batch begins and the last has its size', () => {
    const batches = [0, 3, 6, 9, 12].map((first) => [first, first + 2] as const)
    assert.deepEqual(acquire(partition(), 'a', batches), [[0, 14, 1]])
    assert.deepEqual(acquire(partition(), 'a', batches, { batchSize: 4 }), [
      [0, 5, 1],
      [6, 11, 1],
      [12, 14, 1],
    ])
    const machine = partition()
    assert.deepEqual(acquire(machine, 'a', batches, { batchSize: 4, maxRecords: 8, isStrict: true }), [[0, 7, 1]])
    ack(machine, 'a', 0, 7, 'release')
    assert.deepEqual(acquire(machine, 'b', batches), [
      [0, 7, 2],
      [8, 14, 1],
    ])
  })

  it('keeps apart what was done in different ways', () => {
    const machine = partition()
    acquire(machine, 'a', [
      [0, 2],
      [5, 6],
    ])
    ack(machine, 'a', 1, 2, 'accept')
    assert.throws(() => ack(machine, 'a', 1, 4, 'accept'), { code: 'INVALID_RECORD_STATE' }, 'what is behind an accepted record is no gap')
    ack(machine, 'a', 5, 5, 'release')
    acquire(machine, 'a', [[5, 6]])
    ack(machine, 'a', 3, 5, 'accept')
    assert.deepEqual(machine.state().batches, [
      { first: 1, last: 2, state: 'acknowledged', deliveries: 1 },
      { first: 3, last: 4, state: 'archived', deliveries: 0 },
      { first: 5, last: 5, state: 'acknowledged', deliveries: 2 },
    ])
  })

  it('gives ever fewer of the records that fail again and again, apart from others', () => {
    const rules = { ...RULES, maxDeliveries: 6 }
    const machine = partition()
    const take = (first: number, last: number) =>
      machine
        .acquire(
          {
            member: 'a',
            from: first,
            end: last + 1,
            batches: [{ first, last }],
            maxRecords: 500,
            isStrict: false,
            batchSize: 500,
            nowMs: 0,
          },
          rules,
        )
        .map((range) => [range.first, range.last, range.deliveries])
    const release = () => machine.releaseAll('a', 0, rules)
    for (const deliveries of [1, 2, 3]) {
      assert.deepEqual(take(0, 15), [[0, 15, deliveries]])
      release()
    }
    assert.deepEqual(take(0, 19), [[0, 7, 4]])
    assert.deepEqual(take(8, 19), [[8, 11, 4]], 'nothing new beside them')
    assert.deepEqual(take(12, 19), [[12, 13, 4]])
    release()
    assert.deepEqual(take(0, 19), [[0, 2, 5]])
    release()
    assert.deepEqual(take(0, 19), [[0, 0, 6]])
    assert.deepEqual(take(1, 19), [[1, 1, 6]])
  })

  it('has no more in flight than it may', () => {
    const machine = partition()
    assert.deepEqual(acquire(machine, 'a', [[0, 149]]), [[0, 99, 1]])
    assert.equal(machine.nextFetchOffset(RULES), undefined)
    ack(machine, 'a', 50, 59, 'accept')
    assert.deepEqual(acquire(machine, 'b', [[0, 149]]), [[100, 109, 1]])
  })

  it('with delays, what failed waits for its time, and only the last failure is death', () => {
    const machine = partition()
    const rules = { ...RULES, retryDelaysMs: [10, 100] }
    const request = { member: 'a', from: 0, end: 2, batches: [{ first: 0, last: 1 }], maxRecords: 9, isStrict: false, batchSize: 9 }
    const take = (nowMs: number) =>
      machine.acquire({ ...request, nowMs }, rules).map(({ first, last, deliveries }) => [first, last, deliveries])
    const say = (first: number, type: AckType, nowMs: number) =>
      machine.acknowledge('a', [{ first, last: first, types: [type] }], nowMs, rules)
    assert.deepEqual(take(0), [[0, 1, 1]])
    say(0, 'reject', 0)
    say(1, 'accept', 0)
    assert.equal(machine.nextFetchOffset(rules), 2, 'it waits')
    assert.deepEqual(
      machine.state().batches[0],
      { first: 0, last: 0, state: 'available', deliveries: 1 },
      'a restart does not forget its failure',
    )
    assert.equal(machine.nextDeadlineMs(), 10)
    assert.equal(machine.expire(9, rules), 0)
    assert.deepEqual(take(9), [])
    assert.equal(machine.expire(10, rules), 0, 'nobody held it')
    assert.deepEqual(take(10), [[0, 0, 2]])
    say(0, 'release', 10)
    machine.expire(109, rules)
    assert.deepEqual(take(109), [])
    machine.expire(110, rules)
    assert.deepEqual(take(110), [[0, 0, 3]])
    machine.takeChanges()
    say(0, 'reject', 110)
    assert.deepEqual(machine.takeChanges().dead, [{ first: 0, last: 0, deliveries: 3, reason: 'rejected' }])
  })
})
