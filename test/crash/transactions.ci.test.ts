import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { SeededRandom } from '../../src/core/random.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { ETL } from '../support/etl-worker.ts'
import { findAnomalies, type HistoryPoll, type HistoryTxn } from '../support/history.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { createTopic } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { inRoot } from '../support/root.ts'
import { committedRecords } from '../support/transactions.ts'

const RECORDS = byLane({ quick: 200, ci: 1200, full: 12_000 })
const KILLS = byLane({ quick: 3, ci: 8, full: 60 })
/** Between two kills: long enough that work goes on in between. */
const PAUSE_MS = 2500
const WORKERS = 2

function startWorker(address: string): ChildProcess {
  return spawn(process.execPath, [inRoot('dist', 'test', 'support', 'etl-worker.js'), address], { stdio: 'ignore' })
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

/** One connection to a broker that comes and goes. */
async function connected<T>(broker: BrokerProcess, work: (kafka: RawKafka) => Promise<T>): Promise<T | null> {
  try {
    using kafka = await RawKafka.connect(broker.address)
    return await work(kafka)
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error
    return null
  }
}

/** Reads on from where it was, as a consumer with read committed does. */
class Reader {
  readonly polls: HistoryPoll[] = []
  readonly positions = new Map<number, number>()
  readonly #name: string

  constructor(name: string) {
    this.#name = name
  }

  async poll(kafka: RawKafka): Promise<boolean> {
    let isAtEnd = true
    for (let partition = 0; partition < ETL.partitions; partition++) {
      const from = this.positions.get(partition) ?? 0
      const { data, errorCode, highWatermark } = await kafka.fetchBytes(ETL.output, partition, from, 1)
      if (errorCode !== 0) return false
      const { records, nextOffset } = committedRecords(data.records ?? Buffer.alloc(0), data.abortedTransactions ?? [], from)
      this.polls.push({ consumer: this.#name, partition: `${partition}`, records })
      this.positions.set(partition, nextOffset)
      if (nextOffset < highWatermark) isAtEnd = false
    }
    return isAtEnd
  }
}

/** Whether every input record was consumed, by the offsets that were committed. */
async function isConsumed(kafka: RawKafka): Promise<boolean> {
  const partitionIndexes = Array.from({ length: ETL.partitions }, (_, partition) => partition)
  const found = await kafka.request('OffsetFetch', 7, {
    groupId: ETL.group,
    topics: [{ name: ETL.input, partitionIndexes }],
    requireStable: true,
  })
  const offsets = found.topics[0]?.partitions ?? []
  return (
    offsets.length === ETL.partitions && offsets.every(({ errorCode, committedOffset }) => errorCode === 0 && committedOffset === RECORDS)
  )
}

async function fill(kafka: RawKafka): Promise<void> {
  for (const topic of [ETL.input, ETL.output]) await createTopic(kafka, topic, ETL.partitions, { 'segment.bytes': '100000' })
  for (let partition = 0; partition < ETL.partitions; partition++) {
    for (let from = 0; from < RECORDS; from += 100) {
      const values = Array.from({ length: Math.min(100, RECORDS - from) }, (_, index) => ({ value: `${from + index}` }))
      assert.equal((await kafka.produce(ETL.input, partition, values)).errorCode, 0)
    }
  }
}

function model(): HistoryTxn[] {
  const txns: HistoryTxn[] = []
  for (let partition = 0; partition < ETL.partitions; partition++) {
    const next = `${(partition + 1) % ETL.partitions}`
    for (let offset = 0; offset < RECORDS; offset++) {
      const id = `${partition}-${offset}`
      const places = [
        { partition: `${partition}`, word: 'first' },
        { partition: next, word: 'second' },
      ]
      txns.push({ id, outcome: 'committed', writes: places.map((at) => ({ partition: at.partition, value: `${id} ${at.word}` })) })
      const writes = places.map((at) => ({ partition: at.partition, value: `${ETL.aborted} ${id} ${at.word}` }))
      txns.push({ id: `${ETL.aborted} ${id}`, outcome: 'aborted', writes })
    }
  }
  return txns
}

test('transactions under kill -9 of broker and clients: every record exactly once', async () => {
  const random = new SeededRandom(seedOr(1))
  await using broker = await BrokerProcess.start()
  await connected(broker, fill)
  const workers = Array.from({ length: WORKERS }, () => startWorker(broker.address))
  const reader = new Reader('reader')
  try {
    for (let kills = 0; kills < KILLS; kills++) {
      await pause(PAUSE_MS)
      await connected(broker, (kafka) => reader.poll(kafka))
      const victim = random.below(WORKERS + 1)
      if (victim === WORKERS) {
        await broker.kill()
        await broker.start()
        continue
      }
      await kill(workers[victim] as ChildProcess)
      workers[victim] = startWorker(broker.address)
    }
    while ((await connected(broker, isConsumed)) !== true) {
      await pause(200)
      await connected(broker, (kafka) => reader.poll(kafka))
    }
  } finally {
    await Promise.all(workers.map(kill))
  }
  const last = new Reader('last')
  while ((await connected(broker, (kafka) => last.poll(kafka))) !== true) await pause(50)
  const final = new Map<string, { offset: number; value: string }[]>()
  for (const { partition, records } of last.polls) final.set(partition, [...(final.get(partition) ?? []), ...records])
  const anomalies = findAnomalies({ txns: model(), polls: reader.polls, final })
  assert.deepEqual(anomalies.slice(0, 20), [])
  assert.ok(
    reader.polls.some(({ records }) => records.length > 0),
    'nobody read while the kills came',
  )
})
