import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { dumpToolMissing, kafkaLibraries } from '../support/kafka-dump.ts'
import { seedOr } from '../support/lane.ts'
import { RealKafka } from '../support/real-kafka.ts'
import { inRoot } from '../support/root.ts'
import { observe } from './differential.ts'

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Apache Kafka: ${missing}`
const SEQUENCES = 20
const STEPS = 60
/** Settings of the Kafka that it is compared with. */
const SETTINGS = { MOONMQ_KAFKA__AUTO_CREATE_TOPICS_ENABLE: 'false' }

test('random sequences of client operations are observed alike on MoonMQ and on Kafka 4.4', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'moonmq-differential-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  await using kafka = await RealKafka.format(join(folder, 'kafka'), await kafkaLibraries(inRoot('test', 'conformance', 'pom.xml')))
  await kafka.start()
  await using broker = await BrokerProcess.start({ env: SETTINGS })
  const first = seedOr(1)
  for (let seed = first; seed < first + SEQUENCES; seed++) {
    const [here, there] = await Promise.all([observe(broker.address, seed, STEPS), observe(kafka.address, seed, STEPS)])
    const at = here.findIndex((note, index) => note !== there[index])
    const context =
      at < 0
        ? ''
        : `MOONMQ_SEED=${seed}\nMoonMQ ${here[at]}\nKafka  ${there[at]}\nbefore:\n${here.slice(Math.max(0, at - 8), at).join('\n')}`
    assert.equal(at, -1, context)
  }
})
