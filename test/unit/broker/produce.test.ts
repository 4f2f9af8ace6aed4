import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ProduceTicket } from '../../../src/broker/ports.ts'
import { deferred } from '../../../src/core/deferred.ts'
import type { ErrorCode } from '../../../src/core/errors.ts'
import { writeInt64 } from '../../../src/core/int64.ts'
import { AT, readBatchHeader, sealBatch, verifyBatchCrc } from '../../../src/record/batch.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { batchOf, contextOf, createTopic, fakeBroker, NOW_MS, produceOne } from '../../support/fake-broker.ts'

function sealed(change: (batch: Buffer) => void, batch = batchOf(2)): Buffer {
  change(batch)
  sealBatch(batch, 0, batch.length)
  return batch
}

const DAMAGE: readonly [string, ErrorCode, () => Buffer][] = [
  ['no bytes', 'INVALID_RECORD', () => Buffer.alloc(0)],
  ['a cut header', 'INVALID_RECORD', () => batchOf(1).subarray(0, 40)],
  ['an older format', 'INVALID_RECORD', () => sealed((b) => b.writeInt8(1, AT.magic))],
  ['two batches', 'INVALID_RECORD', () => Buffer.concat([batchOf(1), batchOf(1)])],
  ['a length beyond the bytes', 'INVALID_RECORD', () => sealed((b) => b.writeInt32BE(b.length, AT.batchLength))],
  ['a negative length', 'CORRUPT_BATCH', () => sealed((b) => b.writeInt32BE(-5, AT.batchLength))],
  [
    'a flipped bit',
    'CORRUPT_BATCH',
    () => {
      const batch = batchOf(2)
      batch[70] = (batch[70] ?? 0) ^ 1
      return batch
    },
  ],
  ['no records', 'INVALID_RECORD', () => sealed((b) => b.writeInt32BE(0, AT.recordCount))],
  ['a count above the offsets', 'INVALID_RECORD', () => sealed((b) => b.writeInt32BE(3, AT.recordCount))],
  ['offsets above the count', 'INVALID_RECORD', () => sealed((b) => b.writeInt32BE(5, AT.lastOffsetDelta))],
  ['a base offset', 'INVALID_RECORD', () => sealed((b) => writeInt64(b, 5, AT.baseOffset))],
  ['a control bit', 'INVALID_RECORD', () => batchOf(1, { control: true, producerId: 1, producerEpoch: 0, transactional: true })],
  ['an unknown attribute', 'INVALID_RECORD', () => sealed((b) => b.writeInt16BE(0x100, AT.attributes))],
  ['a delete horizon', 'INVALID_RECORD', () => sealed((b) => b.writeInt16BE(0x40, AT.attributes))],
  ['a codec that does not exist', 'UNSUPPORTED_COMPRESSION', () => sealed((b) => b.writeInt16BE(6, AT.attributes))],
  ['log append time', 'INVALID_TIMESTAMP', () => sealed((b) => b.writeInt16BE(8, AT.attributes))],
  [
    'a transaction without a name',
    'TRANSACTIONAL_ID_NOT_AUTHORIZED',
    () => batchOf(1, { transactional: true, producerId: 1, producerEpoch: 0, baseSequence: 0 }),
  ],
  ['a producer without a sequence', 'INVALID_RECORD', () => batchOf(1, { producerId: 1, producerEpoch: 0 })],
  ['a time beyond 2^53', 'INVALID_TIMESTAMP', () => sealed((b) => b.writeBigInt64BE(2n ** 60n, AT.maxTimestamp))],
  ['a time two hours ahead', 'INVALID_TIMESTAMP', () => batchOf(1, { timestampMs: NOW_MS + 7_200_000 })],
  ['a record longer than the batch', 'INVALID_RECORD', () => sealed((b) => b.writeInt8(127, AT.records))],
]

it('a request that names very many partitions lets others have their turn, and is answered in its order', async () => {
  const { broker, clock } = await fakeBroker()
  await createTopic(broker, 'orders', 3)
  const partitions = Array.from({ length: 2500 }, (_, at) => ({ topic: 'orders', partition: at % 3, batch: batchOf(1) }))
  const appended = broker.produce.append(contextOf(), { acks: 'all', timeoutMs: 1000, transactionalId: null, partitions })
  assert.ok(appended instanceof Promise)
  await clock.advance(0)
  const outcomes = (await appended).settled()
  await clock.advance(0)
  assert.deepEqual(
    (await outcomes).map((each) => each.baseOffset),
    partitions.map((_, at) => Math.floor(at / 3)),
  )
})

it('settings that change again and again while a batch is inflated do not hold it up, but for keys that are needed now', async () => {
  const { broker, logs, codecs } = await fakeBroker()
  await createTopic(broker, 't')
  let checks = 0
  const set = (name: string, value: string) => {
    const changes = [{ name, operation: 'set' as const, value }]
    return broker.topics.alterConfig(contextOf(), { name: 't', changes, validateOnly: false, replace: false })
  }
  const changing = (change: () => Promise<unknown>) => {
    codecs.ready = () => (++checks <= 5 ? change().then(() => {}) : undefined)
  }
  const packed = (keyed: boolean) => {
    const plain = keyed ? batchOf(1) : buildBatch([{ key: null, value: Buffer.from('v'), timestampMs: NOW_MS }])
    const batch = Buffer.concat([plain.subarray(0, AT.records), codecs.deflate(1, plain.subarray(AT.records))])
    return sealed((bytes) => bytes.writeInt16BE(1, AT.attributes), batch)
  }
  changing(() => set('retention.ms', String(1000 + checks)))
  assert.equal((await produceOne(broker, 't', 0, packed(false))).error, null)
  assert.equal(checks, 1)
  checks = 0
  changing(() => set('compression.type', checks % 2 === 0 ? 'zstd' : 'gzip'))
  assert.equal((await produceOne(broker, 't', 0, packed(false))).error, null)
  assert.ok(checks <= 2)
  checks = 0
  changing(() => set('cleanup.policy', 'compact'))
  assert.equal((await produceOne(broker, 't', 0, packed(false))).error?.code, 'INVALID_RECORD')
  assert.equal(logs.at('t', 0).batches.length, 2)
})

it('a record of a compressed batch that is larger inflated than max.decompressed.message.bytes is refused, a plain one is not', async () => {
  const { broker, codecs } = await fakeBroker()
  await createTopic(broker, 't', 1, { 'max.decompressed.message.bytes': '1000' })
  const produce = async (sizes: readonly number[], codec: number) => {
    const records = sizes.map((bytes) => ({ key: null, value: Buffer.alloc(bytes), timestampMs: NOW_MS }))
    const batch = buildBatch(records, codec === 0 ? {} : { codec, compress: (number, bytes) => codecs.deflate(number, bytes) })
    return (await produceOne(broker, 't', 0, batch)).error?.code ?? null
  }
  assert.deepEqual([await produce([900, 900], 1), await produce([900, 1001], 1), await produce([1001], 0)], [null, 'INVALID_RECORD', null])
})

describe('produce: what is refused', () => {
  for (const [what, code, make] of DAMAGE) {
    it(`${what}: ${code}`, async () => {
      const { broker, logs } = await fakeBroker()
      await createTopic(broker, 'orders')
      const outcome = await produceOne(broker, 'orders', 0, make())
      assert.equal(outcome.error?.code, code)
      assert.equal(outcome.baseOffset, -1)
      assert.equal(logs.at('orders', 0).batches.length, 0)
    })
  }

  it('a batch above max.message.bytes', async () => {
    const { broker } = await fakeBroker()
    await createTopic(broker, 'orders', 1, { 'max.message.bytes': '200' })
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(1, { valueBytes: 300 }))).error?.code, 'RECORD_TOO_LARGE')
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(1, { valueBytes: 20 }))).error, null)
  })

  it('topics and partitions that are not there, and internal ones', async () => {
    const { broker } = await fakeBroker()
    await createTopic(broker, 'orders')
    assert.equal((await produceOne(broker, 'missing', 0, batchOf(1))).error?.code, 'TOPIC_MISSING')
    assert.equal((await produceOne(broker, 'orders', 1, batchOf(1))).error?.code, 'PARTITION_MISSING')
    await broker.topics.create(contextOf({ protocol: 'internal' }), {
      name: '__consumer_offsets',
      partitions: 2,
      replicationFactor: 1,
      assignments: new Map(),
      config: new Map(),
    })
    assert.equal((await produceOne(broker, '__consumer_offsets', 0, batchOf(1))).error?.code, 'TOPIC_FORBIDDEN')
  })

  it('a batch of a transaction that nobody began', async () => {
    const { broker } = await fakeBroker()
    await createTopic(broker, 'orders', 2)
    const ask = async () => {
      const options = { transactional: true, producerId: 1, producerEpoch: 0, baseSequence: 0 }
      const partitions = [0, 1].map((partition) => ({ topic: 'orders', partition, batch: batchOf(1, options) }))
      const ticket = await broker.produce.append(contextOf(), { acks: 'all', timeoutMs: 1, transactionalId: 'tx', partitions })
      return (await ticket.settled()).map((each) => each.error?.code)
    }
    assert.deepEqual(await ask(), ['TRANSACTION_NOT_VERIFIED', 'TRANSACTION_NOT_VERIFIED'], 'nothing was read yet')
    await broker.loadGroups()
    assert.deepEqual(await ask(), ['PRODUCER_ID_MAPPING', 'PRODUCER_ID_MAPPING'])
  })

  it('records without a key in a compacted topic', async () => {
    const { broker, clock } = await fakeBroker()
    await createTopic(broker, 'orders', 1, { 'cleanup.policy': 'compact,delete' })
    const keyless = buildBatch([{ key: null, value: Buffer.from('a'), timestampMs: NOW_MS }])
    assert.equal((await produceOne(broker, 'orders', 0, keyless)).error?.code, 'INVALID_RECORD')
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(2))).error, null)
    const single = { topic: 'orders', partition: 0, value: Buffer.from('a') }
    const options = { acks: 'all', codec: 0, timeoutMs: 1000 } as const
    const sent = broker.records.produce(
      contextOf(),
      [
        { ...single, key: null },
        { ...single, key: Buffer.from('k') },
      ],
      options,
    )
    await clock.advance(0)
    assert.deepEqual(
      (await sent).map((each) => each.error?.code ?? null),
      ['INVALID_RECORD', null],
    )
  })

  it('acks all below min.insync.replicas, before anything is written', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders', 1, { 'min.insync.replicas': '2' })
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(1), 'all')).error?.code, 'NOT_ENOUGH_REPLICAS')
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(1), 'leader')).error, null)
    assert.equal(logs.at('orders', 0).batches.length, 1)
  })
})

describe('produce: what is written', () => {
  it('the very buffer that came, with offset and epoch in place', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders')
    const first = batchOf(3)
    const second = batchOf(2)
    assert.equal((await produceOne(broker, 'orders', 0, first)).baseOffset, 0)
    assert.equal((await produceOne(broker, 'orders', 0, second)).baseOffset, 3)
    assert.equal(logs.at('orders', 0).batches[1]?.bytes, second)
    assert.equal(readBatchHeader(second).baseOffset, 3)
  })

  it('a wrong max timestamp is corrected with a new checksum', async () => {
    const { broker } = await fakeBroker()
    await createTopic(broker, 'orders')
    const batch = sealed((b) => writeInt64(b, NOW_MS + 5, AT.maxTimestamp))
    assert.equal((await produceOne(broker, 'orders', 0, batch)).error, null)
    const header = readBatchHeader(batch)
    assert.equal(header.maxTimestampMs, NOW_MS)
    verifyBatchCrc(batch, 0, header)
  })

  it('returns in the same turn when nothing must be loaded; acks none are settled then', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders')
    logs.at('orders', 0).autoSync = false
    const request = {
      acks: 'none',
      timeoutMs: 1000,
      transactionalId: null,
      partitions: [{ topic: 'orders', partition: 0, batch: batchOf(1) }],
    } as const
    const ticket = broker.produce.append(contextOf(), request) as ProduceTicket
    const outcomes = ticket.settled() as readonly { baseOffset: number }[]
    assert.equal(outcomes[0]?.baseOffset, 0)
  })

  it('acks leader and all are settled when durable, not before', async () => {
    for (const acks of ['leader', 'all'] as const) {
      const { broker, logs } = await fakeBroker()
      await createTopic(broker, 'orders')
      const log = logs.at('orders', 0)
      log.autoSync = false
      let settled = false
      const outcome = produceOne(broker, 'orders', 0, batchOf(1), acks).then((result) => {
        settled = true
        return result
      })
      await new Promise((resolve) => setImmediate(resolve))
      assert.equal(settled, false)
      log.sync()
      assert.equal((await outcome).baseOffset, 0)
    }
  })

  it('a log that fails first gives its error to the waiting request', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders')
    logs.at('orders', 0).autoSync = false
    const outcome = produceOne(broker, 'orders', 0, batchOf(1))
    logs.at('orders', 0).fail()
    assert.equal((await outcome).error?.code, 'STORAGE_FAILED')
  })

  it('a request that is not durable in time is answered REQUEST_TIMED_OUT', async () => {
    const { broker, logs, clock } = await fakeBroker()
    await createTopic(broker, 'orders', 2)
    logs.at('orders', 0).autoSync = false
    const partitions = [0, 1].map((partition) => ({ topic: 'orders', partition, batch: batchOf(1) }))
    const ticket = await broker.produce.append(contextOf(), { acks: 'all', timeoutMs: 500, transactionalId: null, partitions })
    const settled = Promise.resolve(ticket.settled())
    await clock.advance(700)
    assert.deepEqual(
      (await settled).map((each) => each.error?.code ?? null),
      ['REQUEST_TIMED_OUT', null],
    )
    await clock.advance(1000)
    assert.equal(clock.pendingTimers, 0)
  })

  it('a compressed batch stays as it came and is walked inflated', async () => {
    const { broker, codecs, logs } = await fakeBroker()
    await createTopic(broker, 'orders')
    const compress = (_: number, bytes: Buffer) => codecs.deflate(1, bytes)
    const batch = batchOf(3, { codec: 1, compress })
    const before = Buffer.from(batch)
    assert.equal((await produceOne(broker, 'orders', 0, batch)).error, null)
    assert.deepEqual(logs.at('orders', 0).batches[0]?.bytes.subarray(21), before.subarray(21))
    const lie = sealed(
      (b) => b.writeInt32BE(2, AT.recordCount),
      sealed((b) => b.writeInt32BE(1, AT.lastOffsetDelta), batchOf(3, { codec: 1, compress })),
    )
    assert.equal((await produceOne(broker, 'orders', 0, lie)).error?.code, 'INVALID_RECORD')
  })

  it('a codec that is being loaded holds the request, and the topic is looked up again afterwards', async () => {
    const { broker, codecs, logs } = await fakeBroker()
    await createTopic(broker, 'orders', 2)
    const gate = deferred()
    codecs.load = () => gate.promise
    const compress = (_: number, bytes: Buffer) => codecs.deflate(2, bytes)
    const partitions = [
      { topic: 'orders', partition: 0, batch: batchOf(1, { codec: 2, compress }) },
      { topic: 'orders', partition: 1, batch: batchOf(1) },
    ]
    const appending = broker.produce.append(contextOf(), { acks: 'all', timeoutMs: 1000, transactionalId: null, partitions })
    assert.ok(appending instanceof Promise)
    assert.equal(logs.at('orders', 1).batches.length, 0)
    await broker.topics.delete(contextOf(), 'orders')
    gate.resolve()
    const outcomes = await (await appending).settled()
    assert.deepEqual(
      outcomes.map((each) => each.error?.code),
      ['TOPIC_MISSING', 'TOPIC_MISSING'],
    )
  })

  it('a log whose queue is full holds the request until there is room', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders')
    const log = logs.at('orders', 0)
    const gate = deferred()
    log.room = gate.promise
    const outcome = produceOne(broker, 'orders', 0, batchOf(1))
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(log.batches.length, 0)
    log.room = undefined
    gate.resolve()
    assert.equal((await outcome).baseOffset, 0)
  })

  it('a log whose queue stays full: the time of the request holds, and what comes later is not appended', async () => {
    const { broker, logs, clock } = await fakeBroker()
    await createTopic(broker, 'orders', 2)
    const log = logs.at('orders', 0)
    const gate = deferred()
    log.room = gate.promise
    const partitions = [1, 0, 1].map((partition) => ({ topic: 'orders', partition, batch: batchOf(1) }))
    const appending = broker.produce.append(contextOf(), { acks: 'all', timeoutMs: 500, transactionalId: null, partitions })
    assert.ok(appending instanceof Promise)
    await clock.advance(700)
    assert.deepEqual(
      (await (await appending).settled()).map((each) => each.error?.code ?? null),
      [null, 'REQUEST_TIMED_OUT', 'REQUEST_TIMED_OUT'],
    )
    log.room = undefined
    gate.resolve()
    await clock.advance(1000)
    assert.deepEqual([log.batches.length, logs.at('orders', 1).batches.length], [0, 1])
    assert.equal(clock.pendingTimers, 0)
    assert.equal((await produceOne(broker, 'orders', 0, batchOf(1))).baseOffset, 0)
  })

  it('a request that finds no room among the bytes in flight is answered in its time, and lets the next one in', async () => {
    const { broker, logs, clock } = await fakeBroker({ maxInflightProduceBytes: 100 })
    await createTopic(broker, 'orders')
    const log = logs.at('orders', 0)
    log.autoSync = false
    const append = (timeoutMs: number) => {
      const partitions = [{ topic: 'orders', partition: 0, batch: batchOf(4) }]
      return Promise.resolve(broker.produce.append(contextOf(), { acks: 'all', timeoutMs, transactionalId: null, partitions }))
    }
    await append(60_000)
    const [short, long] = [append(500), append(60_000)]
    await clock.advance(700)
    assert.equal((await (await short).settled())[0]?.error?.code, 'REQUEST_TIMED_OUT')
    assert.equal(log.batches.length, 1)
    log.autoSync = true
    log.sync()
    assert.equal((await (await long).settled())[0]?.baseOffset, 4)
    assert.equal(log.batches.length, 2)
  })

  it('bytes in flight are bounded: the next request waits for a sync', async () => {
    const { broker, logs } = await fakeBroker({ maxInflightProduceBytes: 100 })
    await createTopic(broker, 'orders')
    const log = logs.at('orders', 0)
    log.autoSync = false
    const first = produceOne(broker, 'orders', 0, batchOf(4))
    const later = [0, 1, 2].map(() => produceOne(broker, 'orders', 0, batchOf(4)))
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(log.batches.length, 1)
    log.autoSync = true
    log.sync()
    assert.equal((await first).baseOffset, 0)
    assert.deepEqual(
      (await Promise.all(later)).map((each) => each.baseOffset),
      [4, 8, 12],
    )
  })
})

describe('produce: idempotence', () => {
  const idempotent = (baseSequence: number, count = 1, producerId = 7, producerEpoch = 0) =>
    batchOf(count, { producerId, producerEpoch, baseSequence })

  it('O5: sequences move by the record count; a resend of the last five gives the original offset and stores nothing', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders')
    const send = (batch: Buffer) => produceOne(broker, 'orders', 0, batch)
    for (const [sequence, count, offset] of [
      [0, 1, 0],
      [1, 2, 1],
      [3, 5, 3],
    ] as const) {
      assert.equal((await send(idempotent(sequence, count))).baseOffset, offset)
    }
    assert.equal((await send(idempotent(1, 2))).baseOffset, 1)
    assert.equal((await send(idempotent(0, 1))).baseOffset, 0)
    assert.equal(logs.at('orders', 0).batches.length, 3)
    assert.equal((await send(idempotent(9))).error?.code, 'OUT_OF_ORDER_SEQUENCE')
    assert.equal((await send(idempotent(8))).baseOffset, 8)
    assert.equal((await send(idempotent(0, 1, 8))).error, null)
    assert.equal((await send(idempotent(41, 1, 9))).error, null)
  })

  it('O6: sequences wrap from 2^31-1 to 0', async () => {
    const { broker } = await fakeBroker()
    await createTopic(broker, 'orders')
    const send = (batch: Buffer) => produceOne(broker, 'orders', 0, batch)
    assert.equal((await send(idempotent(2147483646, 4))).error, null)
    assert.equal((await send(idempotent(2))).baseOffset, 4)
    assert.equal((await send(idempotent(2147483646, 4))).baseOffset, 0)
    assert.equal((await send(idempotent(2147483647, 1, 8))).baseOffset, 5)
    assert.equal((await send(idempotent(0, 1, 8))).baseOffset, 6)
  })

  it('an old epoch is fenced, a new one starts at 0', async () => {
    const { broker } = await fakeBroker()
    await createTopic(broker, 'orders')
    const send = (batch: Buffer) => produceOne(broker, 'orders', 0, batch)
    await send(idempotent(0, 1, 7, 1))
    assert.equal((await send(idempotent(1, 1, 7, 0))).error?.code, 'INVALID_PRODUCER_EPOCH')
    assert.equal((await send(idempotent(1, 1, 7, 2))).error?.code, 'OUT_OF_ORDER_SEQUENCE')
    assert.equal((await send(idempotent(0, 1, 7, 2))).baseOffset, 1)
  })

  it('a duplicate is answered when the original is durable, not before', async () => {
    const { broker, logs } = await fakeBroker()
    await createTopic(broker, 'orders')
    const log = logs.at('orders', 0)
    log.autoSync = false
    const original = produceOne(broker, 'orders', 0, idempotent(0))
    let answered = false
    const resend = produceOne(broker, 'orders', 0, idempotent(0)).then((outcome) => {
      answered = true
      return outcome
    })
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(answered, false)
    log.sync()
    assert.deepEqual([(await original).baseOffset, (await resend).baseOffset], [0, 0])
    assert.equal(log.batches.length, 1)
  })
})
