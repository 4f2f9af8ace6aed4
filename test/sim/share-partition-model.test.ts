import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { SharePartition } from '../../src/broker/share/share-partition.ts'
import type { AckType, OffsetRange, ShareRules } from '../../src/broker/share/share-types.ts'
import { byLane } from '../support/lane.ts'

/**
 * Random lives of one share partition: members take records and speak of them, or do not in time, or go; the broker stops in between and goes
 * on with what was stored. Nobody is given what another holds, nothing that was accepted comes again, no record is delivered more often than the
 * group allows, and in the end every record was accepted or is a dead letter.
 */
const MEMBERS = ['a', 'b', 'c']
const RULES: ShareRules = { maxDeliveries: 3, lockMs: 100, maxLocks: 12, keepsDeadLetters: true, retryDelaysMs: [] }

type Step =
  | { readonly kind: 'write'; readonly batches: readonly { readonly records: number; readonly gap: number }[] }
  | { readonly kind: 'take'; readonly member: number; readonly maxRecords: number; readonly isStrict: boolean }
  | { readonly kind: 'say'; readonly member: number; readonly types: readonly AckType[] }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'leave'; readonly member: number }
  | { readonly kind: 'move' }
  | { readonly kind: 'restart'; readonly fromSnapshot: boolean }

const member = fc.nat({ max: MEMBERS.length - 1 })
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('write' as const),
      batches: fc.array(fc.record({ records: fc.integer({ min: 1, max: 6 }), gap: fc.nat({ max: 2 }) }), { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('take' as const),
      member,
      maxRecords: fc.integer({ min: 1, max: 8 }),
      isStrict: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('say' as const),
      member,
      types: fc.array(fc.constantFrom<AckType>('accept', 'accept', 'release', 'reject', 'renew'), { minLength: 1, maxLength: 8 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 150 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave' as const), member }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('move' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), fromSnapshot: fc.boolean() }) },
)

/** The log, what the members know, and what must hold. */
class World {
  machine = new SharePartition({ startOffset: -1, batches: [] })
  nowMs = 0
  readonly batches: OffsetRange[] = []
  /** What the log holds: a gap has no record. */
  readonly records = new Set<number>()
  readonly accepted = new Set<number>()
  readonly dead = new Set<number>()
  readonly deliveries = new Map<number, number>()
  /** By member, and until when. */
  readonly held = new Map<string, Map<number, number>>(MEMBERS.map((name) => [name, new Map()]))
  /** What is stored: a snapshot, and the updates since. */
  #stored: { snapshot: ReturnType<SharePartition['state']>; updates: ReturnType<SharePartition['takeChanges']>[] }
  #toMove: OffsetRange[] = []
  #end = 0

  constructor() {
    this.machine.begin(0)
    this.machine.takeChanges()
    this.#stored = { snapshot: this.machine.state(), updates: [] }
  }

  write(batches: readonly { readonly records: number; readonly gap: number }[]): void {
    for (const { records, gap } of batches) {
      const first = this.#end + gap
      this.#end = first + records
      this.batches.push({ first, last: this.#end - 1 })
      for (let offset = first; offset < this.#end; offset++) this.records.add(offset)
    }
  }

  take(name: string, maxRecords: number, isStrict: boolean): number {
    const from = this.machine.nextFetchOffset(RULES)
    if (from === undefined || from >= this.#end) return 0
    const batches = this.batches.filter(({ last }) => last >= from)
    const request = { member: name, from, end: this.#end, batches, maxRecords, isStrict, batchSize: 3, nowMs: this.nowMs }
    const acquired = this.machine.acquire(request, RULES)
    let count = 0
    for (const { first, last, deliveries } of acquired) {
      const holding = batches.find((each) => each.first <= last && last <= each.last)
      assert.ok(
        isStrict || holding === undefined || holding.first - first < 3,
        'a range takes up no further batch once it has the batch size',
      )
      for (let offset = first; offset <= last; offset++) {
        count++
        assert.ok(this.records.has(offset), `offset ${offset} has no record`)
        assert.ok(!this.accepted.has(offset) && !this.dead.has(offset), `${offset} is done with and comes again`)
        for (const [other, theirs] of this.held) assert.ok(!theirs.has(offset), `${name} is given ${offset}, which ${other} holds`)
        this.held.get(name)?.set(offset, this.nowMs + RULES.lockMs)
        // A delivery that a restart has undone is not counted, so the count may be behind; it is never ahead.
        assert.ok(deliveries <= (this.deliveries.get(offset) ?? 0) + 1)
        this.deliveries.set(offset, (this.deliveries.get(offset) ?? 0) + 1)
        assert.ok(deliveries <= RULES.maxDeliveries)
      }
    }
    if (isStrict) assert.ok(count <= maxRecords)
    this.#store()
    return count
  }

  say(name: string, types: readonly AckType[]): void {
    const mine = this.held.get(name) as Map<number, number>
    let at = 0
    for (const offset of [...mine.keys()].sort((left, right) => left - right)) {
      const type = types[at++]
      if (type === undefined) break
      this.machine.acknowledge(name, [{ first: offset, last: offset, types: [type] }], this.nowMs, RULES)
      if (type === 'renew') mine.set(offset, this.nowMs + RULES.lockMs)
      else mine.delete(offset)
      if (type === 'accept') this.accepted.add(offset)
    }
    this.#store()
  }

  wait(ms: number): void {
    this.nowMs += ms
    this.machine.expire(this.nowMs, RULES)
    for (const mine of this.held.values()) for (const [offset, untilMs] of mine) if (untilMs <= this.nowMs) mine.delete(offset)
    this.#store()
  }

  leave(name: string): void {
    this.machine.releaseAll(name, this.nowMs, RULES)
    this.held.get(name)?.clear()
    this.#store()
  }

  /** The dead letters become durable. */
  move(): void {
    for (const range of this.#toMove.splice(0)) {
      for (let offset = range.first; offset <= range.last; offset++) {
        assert.ok(!this.accepted.has(offset), `${offset} was accepted and is a dead letter`)
        this.dead.add(offset)
      }
      this.machine.archive(range)
    }
    this.#store()
  }

  restart(fromSnapshot: boolean): void {
    const before = this.machine.state()
    if (fromSnapshot) this.#stored = { snapshot: before, updates: [] }
    this.machine = new SharePartition(this.#stored.snapshot)
    for (const update of this.#stored.updates) this.machine.replay(update)
    assert.deepEqual(plain(this.machine.state()), plain(before), 'updates tell the same as the state')
    this.#toMove = this.machine.interrupted()
    for (const mine of this.held.values()) mine.clear()
  }

  #store(): void {
    if (!this.machine.hasChanges) return
    const changes = this.machine.takeChanges()
    this.#stored.updates.push(changes)
    this.#toMove.push(...changes.dead)
  }

  finish(): void {
    for (let round = 0; round < 10 * (this.records.size + 1); round++) {
      this.move()
      this.wait(RULES.lockMs)
      if (this.take('a', 8, false) > 0) this.say('a', new Array<AckType>(100).fill('accept'))
    }
    this.move()
    for (const offset of this.records) assert.ok(this.accepted.has(offset) || this.dead.has(offset), `${offset} was lost`)
    assert.equal(this.machine.startOffset, Math.max(this.#end, this.machine.startOffset))
  }
}

/** Records that are done with count as one, however they came to be so. */
function plain({ startOffset, batches }: ReturnType<SharePartition['state']>) {
  return {
    startOffset,
    records: batches.flatMap(({ first, last, state, deliveries }) =>
      Array.from({ length: last - first + 1 }, (_, at) => {
        const isDone = state === 'acknowledged' || state === 'archived'
        return isDone ? [first + at, 'done'] : [first + at, state, deliveries]
      }),
    ),
  }
}

it('every record of a share partition is accepted or becomes a dead letter, and nobody holds what another does', () => {
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 60 }), (life) => {
      const world = new World()
      for (const step of life) {
        const name = 'member' in step ? (MEMBERS[step.member] as string) : ''
        if (step.kind === 'write') world.write(step.batches)
        else if (step.kind === 'take') world.take(name, step.maxRecords, step.isStrict)
        else if (step.kind === 'say') world.say(name, step.types)
        else if (step.kind === 'wait') world.wait(step.ms)
        else if (step.kind === 'leave') world.leave(name)
        else if (step.kind === 'move') world.move()
        else world.restart(step.fromSnapshot)
      }
      world.finish()
    }),
    { numRuns: byLane({ quick: 300, ci: 5000, full: 50_000 }) },
  )
})
