import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { isCode, MoonMQError } from '../../src/core/errors.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { createTopic } from '../support/fake-broker.ts'
import { NativeBroker } from '../support/native-peer.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { offsetOf, valuesOf, whenSettled } from '../support/transactions.ts'

async function opened(partitions = 1): Promise<NativeBroker> {
  const at = await NativeBroker.open(new MemoryDisk({ clock: new SystemClock() }))
  await createTopic(at.broker, 't', partitions)
  return at
}

async function stored(at: NativeBroker, partitions: number): Promise<string[]> {
  const all = await Promise.all(Array.from({ length: partitions }, (_, partition) => valuesOf(at.broker, 't', partition)))
  return all.flat()
}

test('an idempotent producer chooses partitions as the broker does, and keeps the order of each', async () => {
  await using at = await opened(3)
  const { client } = await at.client()
  await using producer = client.producer()
  const records = Array.from({ length: 300 }, (_, index) => ({ key: `k${index % 10}`, value: `${index}` }))
  const acked = await producer.sendMany('t', records)
  for (const [index, { partition }] of acked.entries()) {
    const { key } = records[index] as { key: string }
    equal(partition, at.broker.topics.partitionFor(at.broker.topics.get('t'), Buffer.from(key)), key)
  }
  for (let partition = 0; partition < 3; partition++) {
    const values = (await valuesOf(at.broker, 't', partition)).map(Number)
    deepEqual(
      values,
      [...values].sort((a, b) => a - b),
    )
    for (const known of at.broker.offsets.producers({} as never, 't', partition)) equal(known.producerId >= 1, true)
  }
  const spread = await Promise.all(
    Array.from({ length: 9 }, async () => {
      const { partition } = await producer.send('t', { value: 'no key' })
      return partition
    }),
  )
  ok(spread.every((partition) => partition >= 0 && partition < 3))
  const chosen = await producer.send('t', { partition: 2, value: null, key: 'k', headers: [{ key: 'h', value: 'v' }] })
  equal(chosen.partition, 2)
  await rejects(producer.send('t', { partition: 3, value: 'x' }), (error) => isCode(error, 'PARTITION_MISSING'))
  await rejects(producer.send('none', { value: 'x' }), (error) => isCode(error, 'TOPIC_MISSING'))
  await client.close()
})

test('what is refused takes no number, and a batch that is too large goes in parts', async () => {
  const at = await NativeBroker.open(new MemoryDisk({ clock: new SystemClock() }))
  await createTopic(at.broker, 't', 1, { 'max.message.bytes': '4000' })
  const { client } = await at.client()
  await using producer = client.producer()
  const sends = [100, 3000, 9000, 100, 100].map((bytes, index) =>
    producer.send('t', { value: Buffer.alloc(bytes, `${index}`) }).then(
      ({ offset }) => offset,
      (error: unknown) => (error as MoonMQError).code,
    ),
  )
  deepEqual(await Promise.all(sends), [0, 1, 'RECORD_TOO_LARGE', 2, 3])
  equal((await producer.send('t', { value: 'after' })).offset, 4)
  await client.close()
  await at.close()
})

test('connections that are lost again and again: everything is stored once, in order', async () => {
  await using at = await opened(4)
  const { client, net } = await at.client()
  const producer = client.producer()
  const acked: Promise<unknown>[] = []
  for (let index = 0; index < 400; index++) {
    acked.push(producer.send('t', { partition: index % 4, value: `${index}` }))
    if (index % 40 === 39) {
      await new Promise((resolve) => setImmediate(resolve))
      net.cut()
    }
  }
  await Promise.all(acked)
  for (let partition = 0; partition < 4; partition++) {
    deepEqual(
      await valuesOf(at.broker, 't', partition),
      Array.from({ length: 100 }, (_, index) => `${index * 4 + partition}`),
    )
  }
  await producer.close()
  await client.close()
})

test('a transaction is committed when its body returns, and aborted when it throws', async () => {
  await using at = await opened(2)
  const { client } = await at.client()
  await using producer = await client.transactionalProducer('tx')
  const result = await producer.transaction(async (tx) => {
    const [first] = await tx.sendMany('t', [
      { partition: 0, value: 'a' },
      { partition: 1, value: 'b' },
    ])
    // Not waited for: the commit waits.
    void tx.send('t', { partition: 0, value: 'c' })
    await tx.commitOffsets('g', [{ topic: 't', partition: 1, offset: 1 }])
    deepEqual(await stored(at, 2), [])
    return first
  })
  deepEqual(result, { partition: 0, offset: 0 })
  deepEqual((await stored(at, 2)).sort(), ['a', 'b', 'c'])
  equal(await offsetOf(at.broker, 'g', 't', 1), 1)
  const thrown = new Error('no')
  await rejects(
    producer.transaction(async (tx) => {
      await tx.send('t', { partition: 0, value: 'never' })
      await tx.commitOffsets('g', [{ topic: 't', partition: 1, offset: 9 }])
      throw thrown
    }),
    (error) => error === thrown,
  )
  // A send that failed fails the transaction, whatever the body makes of it.
  await rejects(
    producer.transaction(async (tx) => {
      await tx.send('t', { partition: 0, value: 'never' })
      await tx.send('t', { partition: 7, value: 'x' }).catch(() => {})
    }),
    (error) => isCode(error, 'PARTITION_MISSING'),
  )
  await producer.transaction(async (tx) => void (await tx.send('t', { partition: 0, value: 'd' })))
  deepEqual((await stored(at, 2)).sort(), ['a', 'b', 'c', 'd'])
  equal(await offsetOf(at.broker, 'g', 't', 1), 1)
  // One after another, also when started together.
  const both = await Promise.all(
    [1, 2].map((each) => producer.transaction(async (tx) => (await tx.send('t', { value: `${each}` })).partition)),
  )
  equal(both.length, 2)
  await producer.close()
  await rejects(
    producer.transaction(async () => {}),
    (error) => isCode(error, 'CLOSED'),
  )
  await client.close()
})

test('whoever opens the name fences the one before', async () => {
  await using at = await opened()
  const [{ client: one }, { client: two }] = [await at.client(), await at.client()]
  const old = await one.transactionalProducer('tx')
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  const fenced = rejects(
    old.transaction(async (tx) => {
      await tx.send('t', { value: 'old' })
      await gate
    }),
    (error) => isCode(error, 'PRODUCER_FENCED'),
  )
  while ((await valuesOf(at.broker, 't', 0, 'read_uncommitted')).length === 0) await new Promise((resolve) => setImmediate(resolve))
  const next = await two.transactionalProducer('tx')
  await next.transaction(async (tx) => void (await tx.send('t', { value: 'new' })))
  go()
  await fenced
  await rejects(
    old.transaction(async () => {}),
    (error) => isCode(error, 'PRODUCER_FENCED'),
  )
  deepEqual(await valuesOf(at.broker, 't', 0), ['new'])
  for (const each of [old, next]) await each.close()
  for (const each of [one, two]) await each.close()
})

test('a connection that is lost in the body aborts the transaction, which may run again', async () => {
  await using at = await opened()
  const { client, net } = await at.client()
  await using producer = await client.transactionalProducer('tx')
  let runs = 0
  const copy = () =>
    producer.transaction(async (tx) => {
      await tx.send('t', { value: `run ${++runs}` })
      if (runs === 1) net.cut()
      await tx.send('t', { value: `run ${runs} again` })
    })
  await rejects(copy(), (error) => error instanceof MoonMQError && error.retriable)
  await copy()
  await whenSettled(at.broker)
  deepEqual(await valuesOf(at.broker, 't', 0), ['run 2', 'run 2 again'])
  await client.close()
})

test('a signal aborts a transaction', async () => {
  await using at = await opened()
  const { client } = await at.client()
  await using producer = await client.transactionalProducer('tx')
  const stop = new AbortController()
  await rejects(
    producer.transaction(
      async (tx) => {
        await tx.send('t', { value: 'never' })
        stop.abort()
        await new Promise((resolve) => tx.signal.addEventListener('abort', resolve))
      },
      { signal: stop.signal },
    ),
    (error) => isCode(error, 'ABORTED'),
  )
  await producer.transaction(async (tx) => void (await tx.send('t', { value: 'yes' })))
  deepEqual(await valuesOf(at.broker, 't', 0), ['yes'])
  await client.close()
})

test('a commit whose answer is lost is asked for again, and told as what it was', async () => {
  await using live = await startTestBroker()
  await using proxy = await TcpProxy.open(live.address)
  await using client = await connect({ address: proxy.address })
  await client.admin.createTopic('t')
  await using producer = await client.transactionalProducer('tx')
  for (const value of ['first', 'second']) {
    await producer.transaction(async (tx) => {
      await tx.send('t', { value })
      void proxy.loseAnswer()
    })
  }
  const values: string[] = []
  for await (const record of client.reader({ topic: 't', isolation: 'read_committed' })) values.push(String(record.value))
  deepEqual(values, ['first', 'second'])
})
