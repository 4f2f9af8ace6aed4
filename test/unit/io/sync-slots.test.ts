import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Deferred, deferred } from '../../../src/core/deferred.ts'
import { SyncSlots } from '../../../src/io/sync-slots.ts'

it('runs at most so many syncs at once, in order, whatever their outcome', async () => {
  const slots = new SyncSlots()
  const started: number[] = []
  const gates: Deferred<void>[] = []
  const all = Array.from({ length: 6 }, (_, index) => {
    const gate = deferred()
    gates.push(gate)
    return slots.run(2, () => {
      started.push(index)
      return gate.promise
    })
  })
  const outcomes = Promise.allSettled(all)
  const settled = async () => {
    for (let i = 0; i < 10; i++) await Promise.resolve()
    return started.join('')
  }
  assert.equal(await settled(), '01')
  gates[1]?.reject(new Error('the device failed'))
  assert.equal(await settled(), '012')
  gates[0]?.resolve()
  gates[2]?.resolve()
  assert.equal(await settled(), '01234')
  for (const gate of gates) gate.resolve()
  assert.equal(await settled(), '012345')
  assert.deepEqual(
    (await outcomes).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled', 'fulfilled'],
  )
})

it('holds a caller with a lower limit back until the common count is below it', async () => {
  const slots = new SyncSlots()
  const first = deferred()
  const second = deferred()
  let low = false
  const running = [slots.run(3, () => first.promise), slots.run(3, () => second.promise)]
  const held = slots.run(1, async () => {
    low = true
  })
  first.resolve()
  await running[0]
  assert.equal(low, false)
  second.resolve()
  await held
  assert.equal(low, true)
})

it('begins what is urgent before all that wait, in the next free slot', async () => {
  const slots = new SyncSlots()
  const started: string[] = []
  const gates = new Map<string, Deferred<void>>()
  const run = (name: string, urgency?: 'urgent') => {
    const gate = deferred()
    gates.set(name, gate)
    const sync = () => {
      started.push(name)
      return gate.promise
    }
    return slots.run(1, sync, urgency)
  }
  const all = [run('a'), run('b'), run('c'), run('now', 'urgent')]
  for (const name of ['a', 'now', 'b', 'c']) {
    gates.get(name)?.resolve()
    await all[['a', 'b', 'c', 'now'].indexOf(name)]
  }
  assert.deepEqual(started, ['a', 'now', 'b', 'c'])
})
