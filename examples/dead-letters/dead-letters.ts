import type { Client, PushedRecord } from 'moonmq/client'

const ORDERS = 'orders'
const LETTERS = 'orders.dlq'

/** Bills orders until so many are billed or dead. What cannot be billed is refused, and becomes a dead letter after three tries. */
async function bill(client: Client, count: number, process: (order: PushedRecord) => void, print: (line: string) => void): Promise<void> {
  let left = count
  for await (const order of client.pushConsumer({ group: 'billing', topics: [ORDERS] })) {
    try {
      process(order)
      print(`billed ${order.value}`)
      left--
    } catch (error) {
      const { attempts, deadLettered } = await order.nack((error as Error).message)
      print(`${order.value} failed, attempt ${attempts}${deadLettered ? ': a dead letter now' : ''}`)
      if (deadLettered) left--
    }
    if (left > 0) continue
    // The loop ends in the last record, so it says itself that it is done.
    await order.ack()
    return
  }
}

/** The dead letters with why they died, and where each stands. */
async function look(client: Client, print: (line: string) => void): Promise<{ partition: number; offset: number }[]> {
  const places: { partition: number; offset: number }[] = []
  for await (const { partition, offset, value, headers } of client.reader({ topic: LETTERS, isolation: 'read_committed' })) {
    const header = (name: string) => headers.find(({ key }) => key === `moonmq.dlq.${name}`)?.value?.toString()
    // A letter that was sent back leaves a mark, which is none.
    if (header('topic') === undefined) continue
    print(`letter ${value} of ${header('topic')}, given up by ${header('group')} after ${header('attempts')} attempts: ${header('reason')}`)
    places.push({ partition, offset })
  }
  return places
}

/** A service with a fault, its dead letters, and the same letters billed when the fault is mended. */
export async function deadLetters(client: Client, print: (line: string) => void): Promise<void> {
  await client.admin.createTopic(ORDERS, { partitions: 1 })
  const producer = client.producer()
  await producer.sendMany(
    ORDERS,
    ['lamp', 'moon', 'rope'].map((value) => ({ key: value, value })),
  )
  const faulty = (order: PushedRecord) => {
    if (String(order.value) === 'moon') throw new Error('no price for moon')
  }
  await bill(client, 3, faulty, print)
  const letters = await look(client, print)
  for (const { partition, offset } of letters) {
    const { redriven } = await client.admin.redrive(LETTERS, partition, [offset])
    print(`sent ${redriven} back`)
    // Asked again, as after an answer that was lost: it goes back once.
    const { already } = await client.admin.redrive(LETTERS, partition, [offset])
    print(`sent ${already} back before`)
  }
  await bill(client, letters.length, () => {}, print)
}
