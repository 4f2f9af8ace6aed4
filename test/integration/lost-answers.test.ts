import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { buildBatch } from '../../src/record/builder.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { TcpProxy } from '../support/tcp-proxy.ts'

const PRODUCER_FENCED = 90
const INVALID_PRODUCER_EPOCH = 47
const TX = 'tx'

interface Identity {
  readonly producerId: number
  readonly producerEpoch: number
}

async function topic(kafka: RawKafka): Promise<void> {
  const topics = [{ name: 't', numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }]
  const { topics: made } = await kafka.request('CreateTopics', 5, { topics, timeoutMs: 10_000, validateOnly: false })
  assert.equal(made[0]?.errorCode, 0)
}

async function initProducer(kafka: RawKafka, transactionalId: string | null): Promise<Identity> {
  const request = { transactionalId, transactionTimeoutMs: 60_000, producerId: -1, producerEpoch: -1 }
  const answer = await kafka.request('InitProducerId', 4, request)
  assert.equal(answer.errorCode, 0)
  return answer
}

/** A record of a transaction that its partition joins by being written to. */
async function write(kafka: RawKafka, { producerId, producerEpoch }: Identity, value: string): Promise<number> {
  const record = { key: null, value: Buffer.from(value), timestampMs: Date.now() }
  const records = buildBatch([record], { producerId, producerEpoch, baseSequence: 0, transactional: true })
  const topicData = [{ name: 't', partitionData: [{ index: 0, records }] }]
  const answer = await kafka.request('Produce', 12, { transactionalId: TX, acks: -1, timeoutMs: 30_000, topicData })
  return answer.responses[0]?.partitionResponses[0]?.errorCode ?? -1
}

function end(kafka: RawKafka, identity: Identity, committed: boolean, version: 4 | 5) {
  const { producerId, producerEpoch } = identity
  return kafka.request('EndTxn', version, { transactionalId: TX, producerId, producerEpoch, committed })
}

async function committedValues(kafka: RawKafka): Promise<string[]> {
  const values: string[] = []
  const { data } = await kafka.fetchBytes('t', 0, 0, 1)
  assert.deepEqual(data.abortedTransactions, [], 'nothing was aborted')
  for (let offset = 0; ; ) {
    const { records, nextOffset } = await kafka.fetch('t', 0, offset, 1)
    if (nextOffset <= offset) return values
    for (const { value } of records) if (value !== null) values.push(value)
    offset = nextOffset
  }
}

describe('an answer that is lost between the append and its arrival', () => {
  it('costs no record and makes none twice: the resend gets the offset of the original', async () => {
    await using live = await startTestBroker()
    await using proxy = await TcpProxy.open(live.address)
    using direct = await RawKafka.connect(live.address)
    await topic(direct)
    const { producerId, producerEpoch } = await initProducer(direct, null)
    using faulty = await RawKafka.connect(proxy.address)
    const send = (kafka: RawKafka, baseSequence: number) =>
      kafka.produce('t', 0, [{ value: `v${baseSequence}` }], { producerId, producerEpoch, baseSequence })
    assert.deepEqual(await send(faulty, 0), { errorCode: 0, baseOffset: 0 })
    const lost = proxy.loseAnswer()
    await assert.rejects(send(faulty, 1))
    await lost
    using again = await RawKafka.connect(proxy.address)
    assert.deepEqual(await send(again, 1), { errorCode: 0, baseOffset: 1 })
    assert.deepEqual(await send(again, 2), { errorCode: 0, baseOffset: 2 })
    assert.deepEqual(
      (await direct.readAll('t', 0)).map(({ value }) => value),
      ['v0', 'v1', 'v2'],
    )
  })

  it('of the end of a transaction: the resend is told what the first one was, and the next transaction begins', async () => {
    await using live = await startTestBroker()
    await using proxy = await TcpProxy.open(live.address)
    using direct = await RawKafka.connect(live.address)
    await topic(direct)
    const first = await initProducer(direct, TX)
    using faulty = await RawKafka.connect(proxy.address)
    assert.equal(await write(faulty, first, 'one'), 0)
    const lost = proxy.loseAnswer()
    await assert.rejects(end(faulty, first, true, 5))
    await lost
    using again = await RawKafka.connect(proxy.address)
    const next = await settled(() => end(again, first, true, 5))
    assert.deepEqual([next.errorCode, next.producerEpoch], [0, first.producerEpoch + 1])
    assert.equal(await write(again, next, 'two'), 0)
    assert.equal((await settled(() => end(again, next, true, 5))).errorCode, 0)
    assert.deepEqual(await whenAll(direct, 2), ['one', 'two'])
  })
})

describe('O8: the end of a transaction that was held up in the network', () => {
  it('does nothing to the next one, which its producer began after it had asked again', async () => {
    await using live = await startTestBroker()
    await using proxy = await TcpProxy.open(live.address)
    using direct = await RawKafka.connect(live.address)
    await topic(direct)
    const first = await initProducer(direct, TX)
    using slow = await RawKafka.connect(proxy.address)
    assert.equal(await write(slow, first, 'one'), 0)
    const held = proxy.holdRequests()
    const late = end(slow, first, true, 5)
    await held
    const next = await settled(() => end(direct, first, true, 5))
    assert.equal(await write(direct, next, 'two'), 0)
    proxy.release()
    const refused = await late
    assert.ok([PRODUCER_FENCED, INVALID_PRODUCER_EPOCH].includes(refused.errorCode), `${refused.errorCode}`)
    const { transactionStates } = await direct.request('DescribeTransactions', 0, { transactionalIds: [TX] })
    assert.equal(transactionStates[0]?.transactionState, 'Ongoing')
    assert.equal((await settled(() => end(direct, next, true, 5))).errorCode, 0)
    assert.deepEqual(await whenAll(direct, 2), ['one', 'two'])
  })

  it('nor a record of it: it is not taken, and holds nobody back', async () => {
    await using live = await startTestBroker()
    await using proxy = await TcpProxy.open(live.address)
    using direct = await RawKafka.connect(live.address)
    await topic(direct)
    const zombie = await initProducer(direct, TX)
    using slow = await RawKafka.connect(proxy.address)
    const held = proxy.holdRequests()
    const late = write(slow, zombie, 'late')
    await held
    const owner = await initProducer(direct, TX)
    assert.equal(await write(direct, owner, 'one'), 0)
    assert.equal((await settled(() => end(direct, owner, true, 5))).errorCode, 0)
    proxy.release()
    assert.ok([PRODUCER_FENCED, INVALID_PRODUCER_EPOCH].includes(await late))
    assert.deepEqual(await whenAll(direct, 1), ['one'])
  })
})

const CONCURRENT_TRANSACTIONS = 51

/** Asks again while the transaction before is being ended, as clients do. */
async function settled<T extends { readonly errorCode: number }>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (answer.errorCode !== CONCURRENT_TRANSACTIONS) return answer
  }
}

/** What read committed shows, once it is so many: markers come a moment after the end was answered. */
async function whenAll(kafka: RawKafka, count: number): Promise<string[]> {
  for (let tries = 0; ; tries++) {
    const values = await committedValues(kafka)
    if (values.length >= count || tries === 1000) return values
  }
}
