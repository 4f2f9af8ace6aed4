import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Acks } from '../../src/broker/ports.ts'
import { deferred } from '../../src/core/deferred.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { RecordCursor, recordsSection } from '../../src/record/record.ts'
import { contextOf, createTopic, type FakeBroker, fakeBroker } from '../support/fake-broker.ts'

/**
 * Random histories of clients that send single records with any codec and any acks while codecs load and syncs take their time:
 * each client's acknowledged records stand in the log in the order in which it sent them, at the offsets it was told.
 */
const HISTORIES = 30
const STEPS = 80
const CLIENTS = 4
const PARTITIONS = 2

interface Sent {
  readonly client: number
  readonly value: string
  readonly partition: number
  offset: number | null | undefined
}

function storedValues(fake: FakeBroker, partition: number): string[] {
  const stored: string[] = []
  for (const { bytes } of fake.logs.at('orders', partition).batches) {
    const header = readBatchHeader(bytes)
    const packed = recordsSection(bytes, 0, header)
    const codec = header.attributes & 7
    const cursor = new RecordCursor(codec === 0 ? packed : fake.codecs.inflate(codec, packed, 1_000_000), header)
    while (cursor.next()) stored.push(String(cursor.value()))
  }
  return stored
}

async function runHistory(seed: number): Promise<void> {
  const random = new SeededRandom(seed)
  const fake = await fakeBroker({ maxInflightProduceBytes: 2000 })
  await createTopic(fake.broker, 'orders', PARTITIONS, { 'max.message.bytes': '500' })
  const gate = deferred()
  fake.codecs.load = () => gate.promise
  const logs = Array.from({ length: PARTITIONS }, (_, partition) => fake.logs.at('orders', partition))
  for (const log of logs) log.autoSync = false
  const sent: Sent[] = []
  const send = () => {
    const client = random.below(CLIENTS)
    const group = Array.from({ length: 1 + random.below(3) }, () => {
      const one: Sent = {
        client,
        value: `${client}:${sent.length}:${'x'.repeat(random.below(100))}`,
        partition: random.below(PARTITIONS),
        offset: undefined,
      }
      sent.push(one)
      return one
    })
    const acks = (['none', 'leader', 'all'] as const)[random.below(3)] as Acks
    const records = group.map((one) => ({ topic: 'orders', partition: one.partition, key: null, value: Buffer.from(one.value) }))
    fake.broker.records.produce(contextOf(), records, { acks, codec: random.below(3), timeoutMs: 1_000_000 }).then((outcomes) => {
      for (const [index, outcome] of outcomes.entries()) (group[index] as Sent).offset = outcome.error === null ? outcome.offset : null
    }, assert.fail)
  }
  for (let step = 0; step < STEPS; step++) {
    const choice = random.below(10)
    const log = logs[random.below(PARTITIONS)]
    if (choice < 6) send()
    else if (choice < 9) log?.sync()
    else if (step > STEPS / 2) gate.resolve()
    if (random.below(2) === 0) await fake.clock.advance(0)
  }
  gate.resolve()
  for (let i = 0; i < 200; i++) {
    await fake.clock.advance(0)
    for (const log of logs) log.sync()
  }
  await fake.clock.advance(1000)
  for (const [partition] of logs.entries()) {
    const stored = storedValues(fake, partition)
    const mine = sent.filter((one) => one.partition === partition)
    assert.equal(stored.length, mine.length)
    for (const one of mine) assert.equal(stored[one.offset ?? -1], one.value)
    for (let client = 0; client < CLIENTS; client++) {
      const order = mine.filter((one) => one.client === client).map((one) => one.value)
      assert.deepEqual(
        stored.filter((value) => value.startsWith(`${client}:`)),
        order,
      )
    }
  }
  assert.equal(fake.clock.pendingTimers, 0)
}

for (let seed = 1; seed <= HISTORIES; seed++) {
  it(`single records, history of seed ${seed}`, () => runHistory(seed))
}
