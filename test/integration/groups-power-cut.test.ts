import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { byLane, playSeeds } from '../support/lane.ts'

const GROUPS = 6
const PARTITIONS = 3

/** What the clients of one group were promised. */
interface Promised {
  readonly acknowledged: number[]
  readonly sent: number[]
  generation: number
}

/** Some commits and rebalances at once, then the power goes in the middle of them. */
async function live(running: DiskBroker, random: SeededRandom, promised: Map<string, Promised>): Promise<MemoryDisk> {
  const { groups } = running.broker
  const context = contextOf()
  const work: Promise<unknown>[] = []
  const steps = 20 + random.below(60)
  for (let step = 0; step < steps; step++) {
    const group = `group-${random.below(GROUPS)}`
    const promise = promised.get(group)
    assert.ok(promise !== undefined)
    if (random.below(4) === 0) work.push(rebalance(running, `member-${group}`, promise))
    else {
      const partition = random.below(PARTITIONS)
      const offset = (promise.sent[partition] ?? 0) + 1
      promise.sent[partition] = offset
      const offsets = [{ topic: 't', partition, value: { offset, leaderEpoch: 0, metadata: '' } }]
      const commit = { group, generation: -1, memberId: '', instanceId: null, offsets, durable: random.below(3) > 0 }
      work.push(
        groups.commit(context, commit).then(([refusal]) => {
          if (refusal === null && commit.durable) promise.acknowledged[partition] = Math.max(promise.acknowledged[partition] ?? 0, offset)
        }),
      )
    }
    if (random.below(3) === 0) await Promise.all(work.splice(0))
    if (random.below(5) === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  const survivor = running.disk.powerCut(random)
  await Promise.allSettled(work)
  await running.close().catch(() => {
    // Its disk is gone.
  })
  return survivor
}

/** A member joins alone, syncs and leaves. */
async function rebalance(running: DiskBroker, group: string, promise: Promised): Promise<void> {
  const { groups } = running.broker
  const context = contextOf()
  const joined = await groups.join(context, {
    group,
    memberId: '',
    instanceId: null,
    protocolType: 'consumer',
    protocols: [{ name: 'range', metadata: Buffer.from('t') }],
    sessionTimeoutMs: 60_000,
    rebalanceTimeoutMs: 60_000,
    requireKnownMemberId: false,
    supportsSkippingAssignment: true,
    reason: null,
  })
  if (joined.error !== null) return
  assert.ok(joined.generation > 0)
  promise.generation = Math.max(promise.generation, joined.generation)
  await groups.leave(context, { group, members: [{ memberId: joined.memberId, instanceId: null }] })
}

async function check(running: DiskBroker, promised: Map<string, Promised>): Promise<void> {
  const { groups } = running.broker
  const context = contextOf()
  for (const [group, promise] of promised) {
    const found = await groups.committed(context, { group, topics: null })
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const offset = found.find((each) => each.partition === partition)?.value?.offset ?? 0
      const least = promise.acknowledged[partition] ?? 0
      const most = promise.sent[partition] ?? 0
      assert.ok(offset >= least && offset <= most, `${group}-${partition} is at ${offset}, promised ${least}, sent ${most}`)
      promise.acknowledged[partition] = offset
      promise.sent[partition] = offset
    }
    // Members that the cut left behind would hold the barrier for as long as their sessions.
    const [left] = await groups.describe(context, [`member-${group}`])
    const members = left?.members.map(({ memberId }) => ({ memberId, instanceId: null })) ?? []
    await groups.leave(context, { group: `member-${group}`, members })
    const before = promise.generation
    promise.generation = 0
    await rebalance(running, `member-${group}`, promise)
    assert.ok(promise.generation > before, `member-${group} is told generation ${promise.generation} after ${before}`)
  }
}

async function history(seed: number): Promise<void> {
  const random = new SeededRandom(seed)
  const promised = new Map(
    Array.from({ length: GROUPS }, (_, index) => [`group-${index}`, { acknowledged: [], sent: [], generation: 0 } as Promised]),
  )
  let running = await diskBroker(new MemoryDisk({ clock: new SystemClock() }), { 'offsets.topic.num.partitions': '4' })
  await createTopic(running.broker, 't', PARTITIONS)
  for (let cut = 0; cut < 3; cut++) {
    const survivor = await live(running, random, promised)
    running = await diskBroker(survivor, { 'offsets.topic.num.partitions': '4' })
    await check(running, promised)
  }
  await running.close()
}

test('power cuts: no acknowledged commit goes back, no generation that was told comes twice', async () => {
  await playSeeds(byLane({ quick: 6, ci: 100, full: 1000 }), history)
})
