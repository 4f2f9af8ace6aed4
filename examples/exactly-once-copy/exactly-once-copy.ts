import type { Client } from 'moonmq/client'

const GROUP = 'copier'

/**
 * Copies `orders` to `bills`, each record once, whatever stops the program: a copy and the position of the reader behind it become visible
 * together, or not at all. `fail` stands for what may go wrong in between.
 */
async function copy(client: Client, print: (line: string) => void, fail: (order: string) => boolean): Promise<void> {
  // Whoever copied before is fenced, and what it left open is aborted, before the positions of the group are read.
  await using producer = await client.transactionalProducer('order-copier')
  const orders = client.consumer({
    group: GROUP,
    topics: ['orders'],
    commit: 'manual',
    isolation: 'read_committed',
    endWhenIdle: true,
  })
  for await (const { topic, partition, offset, value } of orders) {
    const order = value?.toString() ?? ''
    await producer.transaction(async (tx) => {
      await tx.send('bills', { key: order, value: `bill for ${order}` })
      await tx.commitOffsets(GROUP, [{ topic, partition, offset: offset + 1 }])
      if (fail(order)) throw new Error(`the program died with ${order}`)
    })
    print(`copied ${order}`)
  }
}

/** Three orders in, a copier that dies with the second one, and another that goes on. */
export async function exactlyOnceCopy(client: Client, print: (line: string) => void): Promise<void> {
  for (const topic of ['orders', 'bills']) await client.admin.createTopic(topic, { partitions: 1 })
  const producer = client.producer()
  for (const order of ['lamp', 'rope', 'moon']) await producer.send('orders', { value: order })

  await copy(client, print, (order) => order === 'rope').catch((error: Error) => print(error.message))
  await copy(client, print, () => false)

  for await (const { value } of client.reader({ topic: 'bills', isolation: 'read_committed' })) print(`${value}`)
}
