import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { KAFKA_APIS } from '../../src/kafka/handlers/index.ts'
import type { ApiName } from '../../src/schema/messages.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { byLane } from '../support/lane.ts'
import { inRoot } from '../support/root.ts'
import { askAll, prepareWorld } from './wrong-answers.ts'
import { ACCEPTED, acceptedReason, type Difference } from './wrong-differences.ts'
import { type Answers, ASKED, keptAnswer } from './wrong-questions.ts'

/** Those that Kafka was asked and that are not served are in the fixture all the same. */
const SERVED = ASKED.filter((api) => KAFKA_APIS.some(({ name }) => name === api))
const answers = JSON.parse(readFileSync(inRoot('test', 'fixtures', 'kafka-4.4.0-answers.json'), 'utf8')) as Answers

/** As the Kafka that gave the answers. */
const SETTINGS = { MOONMQ_KAFKA__AUTO_CREATE_TOPICS_ENABLE: 'false' }

test('every wrong question has the answer that Kafka 4.4 gives to it, or stands in the list of differences', async () => {
  await using broker = await BrokerProcess.start({ env: SETTINGS })
  const world = await prepareWorld(broker.address)
  const whole = byLane({ quick: 0, ci: 0, full: 1 }) === 1
  // What another question changed before is seen by later ones, so a shorter run asks a part of the versions of every API.
  const all = await askAll(broker.address, world, SERVED, whole ? 'all' : 'ends')
  const differences: string[] = []
  const used = new Set<Difference>()
  for (const { question, answer } of all) {
    const kafka = keptAnswer(answers, question)
    if (kafka === answer) continue
    const accepted = acceptedReason(question, answer)
    if (accepted !== null) used.add(accepted)
    else differences.push(`${question.api} ${question.version}, ${question.wrong}: Kafka ${kafka ?? 'was not asked'}, MoonMQ ${answer}`)
  }
  assert.deepEqual(differences, [], `${differences.length} of ${all.length} answers differ`)
  const idle = ACCEPTED.filter((each) => each.sometimes !== true && !used.has(each)).map(({ reason }) => reason)
  assert.deepEqual(idle, [], 'differences that are listed and are none any more')
  assert.ok(all.length > 1000)
})

test('every API that is served is asked wrong questions', () => {
  assert.deepEqual(
    KAFKA_APIS.map(({ name }) => name).filter((name) => !ASKED.includes(name as ApiName)),
    [],
  )
})
