import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { dumpToolMissing, kafkaLibraries } from '../support/kafka-dump.ts'
import { RealKafka } from '../support/real-kafka.ts'
import { inRoot } from '../support/root.ts'
import { askAll, prepareWorld } from './wrong-answers.ts'
import { ASKED, foldAnswers } from './wrong-questions.ts'

const FIXTURE = inRoot('test', 'fixtures', 'kafka-4.4.0-answers.json')

const missing = dumpToolMissing()
const skip = missing === null ? false : `needs Apache Kafka: ${missing}`

/** With MOONMQ_TEST_REPRINT=1 the answers are kept anew instead of compared. */
test('Kafka 4.4 answers the wrong questions as it was kept', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'moonmq-wrong-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  await using kafka = await RealKafka.format(join(folder, 'kafka'), await kafkaLibraries(inRoot('test', 'conformance', 'pom.xml')))
  await kafka.start()
  const world = await prepareWorld(kafka.address)
  const answers = foldAnswers(await askAll(kafka.address, world, ASKED, 'all'))
  if (process.env.MOONMQ_TEST_REPRINT === '1') writeFileSync(FIXTURE, `${JSON.stringify(answers, null, 1)}\n`)
  assert.deepEqual(answers, JSON.parse(readFileSync(FIXTURE, 'utf8')))
})
