import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { SeededRandom } from '../../src/core/random.ts'
import type { BrokerProcess } from './broker-process.ts'
import { ETL } from './etl-worker.ts'
import { findAnomalies, type HistoryPoll, type HistoryTxn } from './history.ts'
import { createTopic } from './promises.ts'
import { RawKafka } from './raw-kafka.ts'
import { committedRecords } from './transactions.ts'

export interface EtlRun {
  /** Of each input partition. */
  readonly records: number
  readonly kills: number
  /** Between two kills: long enough that work goes on in between. */
  readonly pauseMs: number
  readonly seed: number
  /** A process for each; the one that follows a killed one has its number. */
  readonly workers: number
  readonly startWorker: (number: number) => ChildProcess
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
async function isConsumed(kafka: RawKafka, records: number): Promise<boolean> {
  const partitionIndexes = Array.from({ length: ETL.partitions }, (_, partition) => partition)
  const found = await kafka.request('OffsetFetch', 7, {
    groupId: ETL.group,
    topics: [{ name: ETL.input, partitionIndexes }],
    requireStable: true,
  })
  const offsets = found.topics[0]?.partitions ?? []
  return (
    offsets.length === ETL.partitions && offsets.every(({ errorCode, committedOffset }) => errorCode === 0 && committedOffset === records)
  )
}

async function fill(kafka: RawKafka, records: number): Promise<void> {
  for (const topic of [ETL.input, ETL.output]) await createTopic(kafka, topic, ETL.partitions, { 'segment.bytes': '100000' })
  for (let partition = 0; partition < ETL.partitions; partition++) {
    for (let from = 0; from < records; from += 100) {
      const values = Array.from({ length: Math.min(100, records - from) }, (_, index) => ({ value: `${from + index}` }))
      assert.equal((await kafka.produce(ETL.input, partition, values)).errorCode, 0)
    }
  }
}

function model(records: number): HistoryTxn[] {
  const txns: HistoryTxn[] = []
  for (let partition = 0; partition < ETL.partitions; partition++) {
    const next = `${(partition + 1) % ETL.partitions}`
    for (let offset = 0; offset < records; offset++) {
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

/**
 * Workers consume, transform and produce in transactions while they and the broker are killed; then every record is there exactly once, and
 * nobody has read anything that a reader of committed records may not.
 */
export async function checkEtl(broker: BrokerProcess, run: EtlRun): Promise<void> {
  const random = new SeededRandom(run.seed)
  await connected(broker, (kafka) => fill(kafka, run.records))
  const workers = Array.from({ length: run.workers }, (_, number) => run.startWorker(number))
  const reader = new Reader('reader')
  try {
    for (let kills = 0; kills < run.kills; kills++) {
      await pause(run.pauseMs)
      await connected(broker, (kafka) => reader.poll(kafka))
      const victim = random.below(run.workers + 1)
      if (victim === run.workers) {
        await broker.kill()
        await broker.start()
        continue
      }
      await kill(workers[victim] as ChildProcess)
      workers[victim] = run.startWorker(victim)
    }
    while ((await connected(broker, (kafka) => isConsumed(kafka, run.records))) !== true) {
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
  const anomalies = findAnomalies({ txns: model(run.records), polls: reader.polls, final })
  assert.deepEqual(anomalies.slice(0, 20), [])
  assert.ok(
    reader.polls.some(({ records }) => records.length > 0),
    'nobody read while the kills came',
  )
}
