import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { dumpToolMissing, kafkaLibraries } from '../support/kafka-dump.ts'
import { seedOr } from '../support/lane.ts'
import { RealKafka } from '../support/real-kafka.ts'
import { inRoot } from '../support/root.ts'
import { observe } from './differential.ts'
import { GroupActor, type GroupFlavour } from './differential-groups.ts'
import { ShareActor } from './differential-shares.ts'
import { firstDifference, playAll } from './lockstep.ts'

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Apache Kafka: ${missing}`
const SEQUENCES = 20
const STEPS = 60
/** Everything at once: what is compared is what is answered, not when. */
const EAGER = {
  'group.initial.rebalance.delay.ms': '0',
  'group.consumer.assignment.interval.ms': '0',
  'group.share.assignment.interval.ms': '0',
  'group.share.min.record.lock.duration.ms': '1000',
  'auto.create.topics.enable': 'false',
}
const LOCK_MS = 1000
const KAFKA_ONLY = { 'group.consumer.assignor.offload.enable': 'false', 'group.share.assignor.offload.enable': 'false' }

function environment(settings: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [`MOONMQ_KAFKA__${name.replaceAll('.', '_').toUpperCase()}`, value]),
  )
}

describe('random sequences of client operations are observed alike on MoonMQ and on Kafka 4.4', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'moonmq-differential-'))
  const first = seedOr(1)
  const seeds = Array.from({ length: process.env['MOONMQ_SEED'] ? 1 : SEQUENCES }, (_, index) => first + index)
  let kafka: RealKafka
  let broker: BrokerProcess

  before(async () => {
    const libraries = await kafkaLibraries(inRoot('test', 'conformance', 'pom.xml'))
    kafka = await RealKafka.format(join(folder, 'kafka'), libraries, { ...EAGER, ...KAFKA_ONLY })
    await kafka.start()
    broker = await BrokerProcess.start({ env: environment(EAGER) })
  })

  after(async () => {
    await kafka.kill()
    await broker[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  })

  it('topics, records, transactions, offsets', async () => {
    await playAll(seeds, async (seed) => {
      const [here, there] = await Promise.all([observe(broker.address, seed, STEPS), observe(kafka.address, seed, STEPS)])
      const at = here.findIndex((note, index) => note !== there[index])
      if (at < 0) return null
      return `before:\n${here.slice(Math.max(0, at - 8), at).join('\n')}\nMoonMQ ${here[at]}\nKafka  ${there[at]}`
    })
  })

  for (const flavour of ['classic', 'consumer', 'mixed'] satisfies GroupFlavour[]) {
    it(flavour === 'mixed' ? 'groups of both protocols' : `groups of the ${flavour} protocol`, async () => {
      await playAll(seeds, async (seed) => {
        using here = await GroupActor.open(broker.address, seed, flavour)
        using there = await GroupActor.open(kafka.address, seed, flavour)
        return await firstDifference(here, there, STEPS)
      })
    })
  }

  it('share groups', async () => {
    await playAll(seeds, async (seed) => {
      using here = await ShareActor.open(broker.address, seed)
      using there = await ShareActor.open(kafka.address, seed)
      return await firstDifference(here, there, STEPS)
    })
  })

  it('a share group whose locks are over', async () => {
    using here = await ShareActor.open(broker.address, first, 'locks')
    using there = await ShareActor.open(kafka.address, first, 'locks')
    const [mine, theirs] = await Promise.all([here.lockIsOver(LOCK_MS), there.lockIsOver(LOCK_MS)])
    assert.deepEqual(mine, theirs)
    assert.match(mine[1] ?? '', /0@0 for the 2\./)
  })
})
