import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ORDERS_TOPIC, type OrderDatabase, placeOrder, recover } from '../../examples/two-phase-commit/orders.ts'
import { type Prepared, TwoPhaseProducer } from '../../examples/two-phase-commit/two-phase-producer.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { createTopic } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { committedRecords } from '../support/transactions.ts'

const TWO_PHASE = { kafka: { 'transaction.two.phase.commit.enable': 'true' } }
const TOPIC = { name: ORDERS_TOPIC, id: ORDERS_TOPIC }

/** A database that can fail before or after its commit. */
class MemoryOrders implements OrderDatabase {
  readonly orders: string[] = []
  fails: 'before' | 'after' | null = null
  #last: Prepared | null = null

  async commit(order: string, prepared: Prepared): Promise<void> {
    if (this.fails === 'before') throw new Error('the program died before the commit')
    this.orders.push(order)
    this.#last = prepared
    if (this.fails === 'after') throw new Error('the program died after the commit')
  }

  async lastCommitted(): Promise<Prepared | null> {
    return this.#last
  }
}

async function eventsOf(kafka: RawKafka): Promise<{ events: string[]; isHeldBack: boolean }> {
  const { data, highWatermark } = await kafka.fetchBytes(ORDERS_TOPIC, 0, 0, 1)
  const { records } = committedRecords(data.records ?? Buffer.alloc(0), data.abortedTransactions ?? [], 0)
  return { events: records.map(({ value }) => value), isHeldBack: data.lastStableOffset < highWatermark }
}

async function whenFree(kafka: RawKafka): Promise<string[]> {
  for (;;) {
    const { events, isHeldBack } = await eventsOf(kafka)
    if (!isHeldBack) return events
  }
}

describe('a database and MoonMQ commit together', () => {
  it('whatever moment the program dies at, both have an order or neither', async () => {
    await using broker = await startTestBroker({ config: TWO_PHASE })
    using kafka = await RawKafka.connect(broker.address)
    await createTopic(kafka, ORDERS_TOPIC, 1, {})
    const database = new MemoryOrders()
    for (const [fails, recovered] of [
      [null, 'nothing'],
      ['before', 'aborted'],
      ['after', 'committed'],
      [null, 'nothing'],
    ] as const) {
      const producer = await TwoPhaseProducer.connect(broker.address, 'orders')
      assert.equal(await recover(producer, database), 'nothing')
      database.fails = fails
      await placeOrder(producer, database, TOPIC, `order ${database.orders.length}, ${fails}`).catch(() => {
        // It died there.
      })
      producer.close()
      const next = await TwoPhaseProducer.connect(broker.address, 'orders')
      if (fails !== null) assert.equal((await eventsOf(kafka)).isHeldBack, true, 'nobody has decided yet')
      assert.equal(await recover(next, database), recovered)
      next.close()
      assert.deepEqual(await whenFree(kafka), database.orders)
    }
  })

  it('is not offered where the setting is off', async () => {
    for (const [config, max] of [
      [{}, 5],
      [TWO_PHASE, 6],
    ] as const) {
      await using broker = await startTestBroker({ config })
      using kafka = await RawKafka.connect(broker.address)
      const { apiKeys } = await kafka.request('ApiVersions', 3, { clientSoftwareName: 'a', clientSoftwareVersion: '1' })
      assert.equal(apiKeys.find(({ apiKey }) => apiKey === 22)?.maxVersion, max)
    }
  })
})
