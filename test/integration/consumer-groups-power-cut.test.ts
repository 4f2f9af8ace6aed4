import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { byLane, playSeeds } from '../support/lane.ts'

const GROUPS = 4
const SETTINGS = { 'offsets.topic.num.partitions': '2' }

/** What one member was told last: its epoch, 0 when it is out; and the highest epoch that anybody of the group was told. */
interface Told {
  readonly epochs: Map<string, number>
  highest: number
}

async function beat(running: DiskBroker, group: string, memberId: string, told: Told): Promise<void> {
  const memberEpoch = told.epochs.get(memberId) ?? 0
  const isJoin = memberEpoch === 0
  const answer = await running.broker.groups.consumerHeartbeat(contextOf(), {
    group,
    memberId,
    idIsClients: true,
    memberEpoch,
    instanceId: null,
    rackId: null,
    rebalanceTimeoutMs: isJoin ? 60_000 : null,
    subscribedTopics: isJoin ? ['t'] : null,
    subscribedRegex: null,
    assignor: null,
    // It holds nothing: what is under test is what the broker keeps.
    owned: [],
  })
  told.epochs.set(memberId, answer.memberEpoch)
  told.highest = Math.max(told.highest, answer.memberEpoch)
}

async function leave(running: DiskBroker, group: string, memberId: string, told: Told): Promise<void> {
  const asked = { group, memberId, idIsClients: true, memberEpoch: -1, instanceId: null, rackId: null, rebalanceTimeoutMs: null }
  await running.broker.groups.consumerHeartbeat(contextOf(), {
    ...asked,
    subscribedTopics: null,
    subscribedRegex: null,
    assignor: null,
    owned: null,
  })
  told.epochs.delete(memberId)
}

/** Members come, beat and go in several groups at once; then the power goes in the middle of it. */
async function live(running: DiskBroker, random: SeededRandom, groups: ReadonlyMap<string, Told>): Promise<MemoryDisk> {
  const busy = new Set<string>()
  const work: Promise<unknown>[] = []
  const steps = 20 + random.below(60)
  for (let step = 0; step < steps; step++) {
    const group = `group-${random.below(GROUPS)}`
    const memberId = `m${random.below(3)}`
    const told = groups.get(group)
    const name = `${group}/${memberId}`
    if (told !== undefined && !busy.has(name)) {
      busy.add(name)
      const isIn = told.epochs.has(memberId)
      const request = isIn && random.below(4) === 0 ? leave(running, group, memberId, told) : beat(running, group, memberId, told)
      work.push(request.then(() => busy.delete(name)))
    }
    if (random.below(3) === 0) await Promise.all(work.splice(0))
  }
  const survivor = running.disk.powerCut(random)
  await Promise.allSettled(work)
  // Of a request that the cut has hit nobody knows whether it was done.
  for (const name of busy) groups.get(name.split('/')[0] ?? '')?.epochs.delete(name.split('/')[1] ?? '')
  await running.close().catch(() => {
    // Its disk is gone.
  })
  return survivor
}

async function check(running: DiskBroker, groups: ReadonlyMap<string, Told>): Promise<void> {
  const described = await running.broker.groups.describeConsumerGroups(contextOf(), [...groups.keys()])
  for (const group of described) {
    const told = groups.get(group.group)
    assert.ok(told !== undefined)
    if (told.highest === 0) continue
    assert.equal(group.error, null)
    assert.ok(group.epoch >= told.highest, `${group.group} is in epoch ${group.epoch}, ${told.highest} was told`)
    for (const [memberId, epoch] of told.epochs) {
      const member = group.members.find((each) => each.memberId === memberId)
      assert.equal(member?.epoch, epoch, `${memberId} of ${group.group}`)
    }
    const owned = group.members.flatMap(({ assigned }) => assigned.flatMap(({ partitions }) => partitions))
    assert.equal(new Set(owned).size, owned.length, `${group.group}: a partition has two owners`)
    for (const { memberId, epoch } of group.members) told.epochs.set(memberId, epoch)
  }
}

async function history(seed: number): Promise<void> {
  const random = new SeededRandom(seed)
  const groups = new Map(Array.from({ length: GROUPS }, (_, at): [string, Told] => [`group-${at}`, { epochs: new Map(), highest: 0 }]))
  let running = await diskBroker(new MemoryDisk({ clock: new SystemClock() }), SETTINGS)
  await createTopic(running.broker, 't', 5)
  for (let cut = 0; cut < 3; cut++) {
    const survivor = await live(running, random, groups)
    running = await diskBroker(survivor, SETTINGS)
    await check(running, groups)
  }
  await running.close()
}

test('power cuts: no epoch that a member was told is lost, and no partition comes back with two owners', async () => {
  await playSeeds(byLane({ quick: 5, ci: 50, full: 1000 }), history)
})
