import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ORDERS_TOPIC, placeOrder, recover } from '../../examples/two-phase-commit/orders.ts'
import { PostgresOrders } from '../../examples/two-phase-commit/postgres.ts'
import { TwoPhaseProducer } from '../../examples/two-phase-commit/two-phase-producer.ts'
import { variableOf } from '../../src/config/environment.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { findPostgres, Postgres } from '../support/postgres.ts'
import { createTopic } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { committedRecords } from '../support/transactions.ts'

const TOPIC = { name: ORDERS_TOPIC, id: ORDERS_TOPIC }
const bin = await findPostgres()
const skip = bin === null ? 'there is no PostgreSQL; apt-get install postgresql' : false

async function events(kafka: RawKafka): Promise<string[]> {
  for (;;) {
    const { data, highWatermark } = await kafka.fetchBytes(ORDERS_TOPIC, 0, 0, 1)
    if (data.lastStableOffset < highWatermark) continue
    const { records } = committedRecords(data.records ?? Buffer.alloc(0), data.abortedTransactions ?? [], 0)
    return records.map(({ value }) => value)
  }
}

test('an order in PostgreSQL and its event in MoonMQ, with the broker killed at each step', { skip }, async () => {
  await using postgres = await Postgres.start(bin ?? '')
  await using broker = await BrokerProcess.start({ env: { [variableOf('kafka.transaction.two.phase.commit.enable')]: 'true' } })
  const database = new PostgresOrders(postgres.args)
  await database.createTables()
  {
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, ORDERS_TOPIC, 1, {})
  }
  for (const dies of ['never', 'before the commit', 'after the commit', 'never'] as const) {
    const producer = await TwoPhaseProducer.connect(broker.address, 'orders')
    assert.equal(await recover(producer, database), 'nothing')
    const order = `an order; it's broken ${dies}`
    if (dies === 'never') await placeOrder(producer, database, TOPIC, order)
    else {
      await producer.send(TOPIC, 0, order)
      if (dies === 'after the commit') await database.commit(order, producer.prepare())
      await broker.kill()
      await broker.start()
    }
    producer.close()
    const next = await TwoPhaseProducer.connect(broker.address, 'orders')
    assert.equal(await recover(next, database), dies === 'never' ? 'nothing' : dies === 'after the commit' ? 'committed' : 'aborted')
    next.close()
    using kafka = await RawKafka.connect(broker.address)
    assert.deepEqual(await events(kafka), await database.orders())
  }
  assert.equal((await database.orders()).length, 3)
})
