import { startBroker } from 'moonmq'
import { json, TopicFormat, text } from 'moonmq/client'
import * as v from 'valibot'

/** Any validator of the Standard Schema will do. */
const Order = v.object({ item: v.string(), pieces: v.number() })

/** What the records of the topic look like: checked when they are sent and when they are read. */
const orders = new TopicFormat('orders', { key: text, value: json(Order) })

/** A broker in this process, a topic, three records in, and out again: once as a plain reader, once as a group that goes on where it was. */
export async function quickStart(print: (line: string) => void): Promise<void> {
  await using broker = await startBroker({ port: 0, memory: true })
  // No socket: for a broker elsewhere it is connect({ address: 'host:9092' }) of 'moonmq/client'.
  await using client = await broker.connect()
  await client.admin.createTopic(orders.topic, { partitions: 1 })

  const producer = client.producer()
  for (const [customer, item, pieces] of [
    ['ada', 'lamp', 1],
    ['grace', 'rope', 20],
    ['ada', 'moon', 1],
  ] as const) {
    const { partition, offset } = await orders.send(producer, { key: customer, value: { item, pieces } })
    print(`stored at ${partition}:${offset}`)
  }

  for await (const { offset, key, value } of orders.read(client.reader({ topic: orders.topic }))) {
    print(`${offset} ${key} ordered ${value.pieces} × ${value.item}`)
  }

  // A record is committed when the loop asks for the next one: whatever stops the program before that, the record comes again.
  for await (const { key, offset } of orders.read(client.consumer({ group: 'billing', topics: [orders.topic], endWhenIdle: true }))) {
    print(`billed ${key} for order ${offset}`)
  }
  for await (const { offset } of orders.read(client.consumer({ group: 'billing', topics: [orders.topic], endWhenIdle: true }))) {
    print(`billed twice: ${offset}`)
  }
}
