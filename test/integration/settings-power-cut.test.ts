import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { byLane, seedOr } from '../support/lane.ts'

/** Two settings that always change together. */
function pair(value: number) {
  return ['max.message.bytes', 'segment.bytes'].map((name) => ({ name, operation: 'set' as const, value: String(value) }))
}

test('power cuts while settings change: a change is there whole or not at all, and never lost once it was answered', async () => {
  const random = new SeededRandom(seedOr(311))
  const clock = new SystemClock()
  let disk = new MemoryDisk({ clock })
  {
    const first = await diskBroker(disk)
    await createTopic(first.broker, 't')
    await first.close()
  }
  let answered = 0
  let sent = 2000
  for (let life = 0; life < byLane({ quick: 8, ci: 40, full: 200 }); life++) {
    const running = await diskBroker(disk)
    const config = running.broker.topics.get('t').config
    const [bytes, segment] = [config.get('max.message.bytes'), config.get('segment.bytes')]
    assert.equal(bytes, segment)
    const found = bytes === undefined ? 0 : Number(bytes)
    assert.ok(found >= answered && found <= sent, `${found} after ${answered} was answered and ${sent} sent`)
    const described = running.broker.topics.describeConfig(contextOf(), 't').find(({ name }) => name === 'segment.bytes')
    assert.equal(described?.value, segment ?? '1073741824')
    const work: Promise<unknown>[] = []
    const steps = random.below(12)
    for (let step = 0; step < steps; step++) {
      const value = ++sent
      const change = running.broker.topics.alterConfig(contextOf(), { name: 't', changes: pair(value) })
      work.push(
        change.then(() => {
          answered = Math.max(answered, value)
        }),
      )
      if (random.below(3) === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    disk = running.disk.powerCut(random)
    await Promise.allSettled(work)
    await running.close().catch(() => {
      // Its disk is gone.
    })
  }
  assert.ok(answered > 2000)
})
