import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic, produceOne } from '../support/fake-broker.ts'

const NATIVE = contextOf({ protocol: 'native' })

function letter(offset: number) {
  const origin = { topic: 'jobs', partition: '0', offset: String(offset), timestamp: '1', group: 'g', attempts: '3', reason: 'r', at: '1' }
  const headers = Object.entries(origin).map(([key, value]) => ({ key: `moonmq.dlq.${key}`, value: Buffer.from(value) }))
  return { key: null, value: Buffer.from(`${offset}`.padEnd(400)), timestampMs: 1, headers }
}

test('many letters go back in slices, in batches that their topics take, and nothing is kept of those that are deleted', async () => {
  const { broker, close } = await diskBroker(new MemoryDisk({ clock: new SystemClock() }), {}, undefined, { redriveSliceBytes: 5000 })
  await createTopic(broker, 'jobs', 1, { 'max.message.bytes': '2000' })
  await createTopic(broker, 'jobs.dlq', 1, { 'max.message.bytes': '1500' })
  for (let offset = 0; offset < 60; offset++) await produceOne(broker, 'jobs.dlq', 0, buildBatch([letter(offset)]))
  const redrive = (offsets: readonly number[]) => broker.redrives.redrive(NATIVE, 'jobs.dlq', 0, offsets)
  const all = Array.from({ length: 60 }, (_, offset) => offset)

  deepEqual(await redrive([50, 1, 999, 1]), { redriven: 2, already: 0, missing: 1 })
  deepEqual(await redrive(all), { redriven: 58, already: 2, missing: 0 })
  deepEqual(await redrive(all), { redriven: 0, already: 60, missing: 0 })
  const request = {
    topic: 'jobs',
    partition: 0,
    offset: 0,
    isolation: 'read_committed',
    maxRecords: 100,
    maxBytes: 1e6,
    maxWaitMs: 0,
  } as const
  const read = await broker.records.read(contextOf(), request)
  deepEqual(
    read.records.map(({ value }) => Number(value)),
    [1, 50, ...all.filter((offset) => offset !== 1 && offset !== 50)],
  )
  read.release()
  // A marker ends each transaction: one of two letters, and one of 5 KB and a letter's rest each.
  const markers = broker.offsets.bounds(NATIVE, 'jobs', 0).logEndOffset - 60
  ok(markers >= 5 && markers <= 12, `${markers} transactions`)

  await broker.deletion.deleteBefore(NATIVE, 'jobs.dlq', 0, 30)
  deepEqual(await redrive(all), { redriven: 0, already: 30, missing: 30 })
  await close()
})
