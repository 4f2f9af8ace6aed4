import type { Prepared, TwoPhaseProducer } from './two-phase-producer.ts'

/** What the example asks of a database: one transaction of it writes both, or nothing. */
export interface OrderDatabase {
  /** Stores the order, and beside it the transaction of MoonMQ that goes with it. */
  commit(order: string, prepared: Prepared): Promise<void>
  /** The transaction of MoonMQ that went with the last order. */
  lastCommitted(): Promise<Prepared | null>
}

export const ORDERS_TOPIC = 'orders'

/**
 * An order in the database and an event in MoonMQ, together or not at all. The commit of the database is the decision: before it MoonMQ
 * holds the event back, after it nothing can keep MoonMQ from committing.
 */
export async function placeOrder(producer: TwoPhaseProducer, database: OrderDatabase, topic: { name: string; id: string }, order: string) {
  await producer.send(topic, 0, order)
  await database.commit(order, producer.prepare())
  await producer.end(true)
}

/** Before anything else at each start: what a crash left prepared is committed if the database committed it, and aborted if not. */
export async function recover(producer: TwoPhaseProducer, database: OrderDatabase): Promise<'nothing' | 'committed' | 'aborted'> {
  const prepared = await producer.begin()
  if (prepared === null) return 'nothing'
  const decided = await database.lastCommitted()
  const isCommitted = decided?.producerId === prepared.producerId && decided.producerEpoch === prepared.producerEpoch
  await producer.end(isCommitted)
  return isCommitted ? 'committed' : 'aborted'
}
