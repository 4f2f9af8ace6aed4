import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/client/index.ts'
import type { Client, ClientRecord } from '../../src/client/types.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { provenanceOf } from '../../src/record/dead-letter.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { JOBS } from '../support/nack-worker.ts'
import { inRoot } from '../support/root.ts'

const RECORDS = byLane({ quick: 200, ci: 300, full: 5000 })
const KILLS = byLane({ quick: 2, ci: 4, full: 30 })
const BAD_EVERY = 10
const LETTERS = 'jobs.dlq'

function startWorker(address: string): ChildProcess {
  return spawn(process.execPath, [inRoot('dist', 'test', 'support', 'nack-worker.js'), address], { stdio: 'ignore' })
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

/** The work again on a new connection until it goes through: the broker comes and goes. */
async function insisting<T>(broker: BrokerProcess, work: (client: Client) => Promise<T>): Promise<T> {
  for (;;) {
    try {
      await using client = await connect({ address: broker.address, timeoutMs: 5000 })
      return await work(client)
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      await pause(50)
    }
  }
}

/** Every record at least once: what was not acknowledged is sent again. */
async function produce(broker: BrokerProcess): Promise<void> {
  const left = new Set(Array.from({ length: RECORDS }, (_, i) => (i % BAD_EVERY === 0 ? `bad-${i}` : `good-${i}`)))
  while (left.size > 0) {
    await insisting(broker, async (client) => {
      const producer = client.producer()
      for (const value of [...left]) {
        await producer.send(JOBS.topic, { key: value, value })
        left.delete(value)
      }
    })
  }
}

async function allOf(client: Client, topic: string): Promise<ClientRecord[]> {
  const found: ClientRecord[] = []
  for await (const record of client.reader({ topic, isolation: 'read_committed' })) found.push(record)
  return found
}

async function isConsumed(client: Client): Promise<boolean> {
  const [ends, committed] = await Promise.all([
    client.admin.describeTopic(JOBS.topic),
    client.admin.committedOffsets(JOBS.group, [JOBS.topic]),
  ])
  return ends.partitions.every(({ partition, highWatermark }) => Math.max(0, committed[0]?.offsets[partition] ?? 0) === highWatermark)
}

test('kill -9 of broker and consumer at any moment: each record is processed or a dead letter, and each letter goes back once', async () => {
  const seed = seedOr(1)
  const random = new SeededRandom(seed)
  await using broker = await BrokerProcess.start()
  await insisting(broker, async (client) => {
    await client.admin.createTopic(JOBS.topic, { partitions: JOBS.partitions })
    await client.admin.createTopic(JOBS.done, { partitions: 1 })
  })
  let worker = startWorker(broker.address)
  try {
    const producing = produce(broker)
    for (let kills = 0; kills < KILLS; kills++) {
      await pause(300 + random.below(1200))
      if (random.below(3) > 0) {
        await broker.kill()
        await broker.start()
      } else {
        await kill(worker)
        worker = startWorker(broker.address)
      }
    }
    await producing
    while (!(await insisting(broker, isConsumed))) await pause(100)
  } finally {
    await kill(worker)
  }
  const letters = await insisting(broker, async (client) => {
    const [jobs, done, dead] = [await allOf(client, JOBS.topic), await allOf(client, JOBS.done), await allOf(client, LETTERS)]
    checkLetters(jobs, dead)
    const processed = new Set(done.map(({ value }) => String(value)))
    const buried = new Set(dead.map(({ value }) => String(value)))
    for (const { value } of jobs) {
      const name = String(value)
      assert.ok(name.startsWith('bad') ? buried.has(name) : processed.has(name), `${name} was lost (MOONMQ_SEED=${seed})`)
    }
    return dead
  })
  await redriveThroughKills(broker, letters, random)
})

/** Each says where it came from, truly, and none is there twice. */
function checkLetters(jobs: readonly ClientRecord[], dead: readonly ClientRecord[]): void {
  const values = new Map(jobs.map(({ partition, offset, value }) => [`${partition}@${offset}`, String(value)]))
  const seen = new Set<string>()
  for (const letter of dead) {
    const from = provenanceOf(letter.headers)
    assert.ok(from !== null)
    const place = `${from.partition}@${from.offset}`
    assert.ok(!seen.has(place), `the dead letter of ${place} is there twice`)
    seen.add(place)
    assert.equal(values.get(place), String(letter.value))
    assert.equal(from.topic, JOBS.topic)
    assert.equal(from.group, JOBS.group)
    assert.ok(from.attempts >= 3, `${from.attempts} attempts`)
    assert.equal(from.reason, `cannot process ${letter.value}`)
  }
}

async function redriveThroughKills(broker: BrokerProcess, letters: readonly ClientRecord[], random: SeededRandom): Promise<void> {
  const byPartition = new Map<number, ClientRecord[]>()
  for (const letter of letters) byPartition.set(letter.partition, [...(byPartition.get(letter.partition) ?? []), letter])
  let isDone = false
  const redriving = (async () => {
    for (const [partition, some] of byPartition) {
      for (const { offset } of some) await insisting(broker, (client) => client.admin.redrive(LETTERS, partition, [offset]))
    }
    isDone = true
  })()
  for (let kills = 0; kills < 2 && !isDone; kills++) {
    await pause(20 + random.below(200))
    await broker.kill()
    await broker.start()
  }
  await redriving
  const back = await insisting(broker, async (client) => {
    // All of them once more.
    for (const [partition, some] of byPartition) {
      const again = await client.admin.redrive(
        LETTERS,
        partition,
        some.map(({ offset }) => offset),
      )
      assert.deepEqual(again, { redriven: 0, already: some.length, missing: 0 })
    }
    return (await allOf(client, JOBS.topic)).flatMap(({ headers }) => {
      const text = (key: string) => headers.find((header) => header.key === `moonmq.redriven.${key}`)?.value?.toString()
      return text('from') === undefined ? [] : [`${text('partition')}@${text('offset')}`]
    })
  })
  assert.deepEqual(back.sort(), letters.map(({ partition, offset }) => `${partition}@${offset}`).sort())
}
