import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/client/index.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { byLane, seedOr } from '../support/lane.ts'

const KILLS = byLane({ quick: 2, ci: 4, full: 30 })
const PARTITIONS = 4
/** Between two kills, at most. */
const PAUSE_MS = 400

test('kill -9 between append and acknowledgement: a producer goes on, nothing twice, nothing lost, in order', async () => {
  const random = new SeededRandom(seedOr(1))
  await using broker = await BrokerProcess.start()
  const client = await connect({ address: broker.address })
  await client.admin.createTopic('t', { partitions: PARTITIONS, config: { 'segment.bytes': '100000' } })
  const producer = client.producer({ batchBytes: 2000 })
  const acked: { partition: number; offset: number }[][] = Array.from({ length: PARTITIONS }, () => [])
  const sends: Promise<void>[] = []
  let number = 0
  let isOver = false
  const write = async (): Promise<void> => {
    while (!isOver) {
      const partition = number % PARTITIONS
      const index = Math.floor(number++ / PARTITIONS)
      // By number: which of two acknowledgements is heard of first does not matter.
      sends.push(
        producer.send('t', { partition, value: `${index}` }).then((ack) => {
          ;(acked[partition] ?? [])[index] = ack
        }),
      )
      if (number % 50 === 0) await pause(2)
    }
  }
  const writing = write()
  for (let kills = 0; kills < KILLS; kills++) {
    await pause(random.below(PAUSE_MS))
    await broker.kill()
    await broker.start()
  }
  await pause(PAUSE_MS)
  isOver = true
  await writing
  await Promise.all(sends)
  await producer.close()
  assert.ok(number > 1000, `${number} records`)
  for (let partition = 0; partition < PARTITIONS; partition++) {
    const values: string[] = []
    const offsets: number[] = []
    for await (const record of client.reader({ topic: 't', partitions: [partition] })) {
      values.push(record.value?.toString() ?? '')
      offsets.push(record.offset)
    }
    // As many as were sent, in the order in which they were sent, each where its acknowledgement said.
    assert.deepEqual(
      values,
      acked[partition]?.map((_, index) => `${index}`),
    )
    assert.deepEqual(
      offsets,
      acked[partition]?.map(({ offset }) => offset),
    )
  }
  await client.close()
})

test('kill -9 under consumers of a group: each goes on by itself, and every record comes', async () => {
  const random = new SeededRandom(seedOr(1))
  await using broker = await BrokerProcess.start()
  await using client = await connect({ address: broker.address })
  await client.admin.createTopic('t', { partitions: PARTITIONS })
  const producer = client.producer()
  const stop = new AbortController()
  const seen = new Set<string>()
  const reading = Array.from({ length: 2 }, async () => {
    const consumer = client.consumer({ group: 'g', topics: ['t'], signal: stop.signal })
    try {
      for await (const record of consumer) seen.add(String(record.value))
    } catch (error) {
      if (!stop.signal.aborted) throw error
    }
  })
  // What ends a consumer before the end is a failure.
  const failed = Promise.race(reading)
  let sent = 0
  const send = async (count: number) => {
    const records = Array.from({ length: count }, (_, index) => ({ value: `${sent + index}`, partition: index % PARTITIONS }))
    sent += count
    await producer.sendMany('t', records)
  }
  const all = async () => {
    while (seen.size < sent && !stop.signal.aborted) await pause(5)
  }
  for (let kills = 0; kills < KILLS; kills++) {
    await send(20)
    await Promise.race([kills % 2 === 0 ? all() : pause(random.below(100)), failed])
    await broker.kill()
    await broker.start()
  }
  await send(20)
  await Promise.race([all(), failed])
  assert.equal(seen.size, sent)
  stop.abort()
  await Promise.all(reading)
  const { offsets = [] } = (await client.admin.committedOffsets('g', ['t']))[0] ?? {}
  assert.equal(offsets.length, PARTITIONS)
  for (const offset of offsets) assert.ok(offset <= sent / PARTITIONS)
})
