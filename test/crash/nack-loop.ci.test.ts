import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/client/index.ts'
import type { Client, ClientRecord } from '../../src/client/types.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { provenanceOf } from '../../src/record/dead-letter.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { JOBS, lowIn, PULLED } from '../support/nack-jobs.ts'
import { inRoot } from '../support/root.ts'

const RECORDS = byLane({ quick: 200, ci: 300, full: 1500 })
/** Kills go on until both are over. */
const KILLS = byLane({ quick: 2, ci: 5, full: 30 })
const LEAST_MS = byLane({ quick: 0, ci: 0, full: 60_000 })
/** Between two records, so that there is work as long as something is killed. */
const PACE_MS = byLane({ quick: 0, ci: 5, full: 35 })
const BAD_EVERY = 10
const LETTERS = 'jobs.dlq'

/** One that is pushed to, and one that pulls as version 1 does and keeps its own account. */
const WORKERS = ['nack-worker.js', 'nack-worker-version-1.js'] as const

function startWorker(name: string, address: string, account: string): ChildProcess {
  return spawn(process.execPath, [inRoot('dist', 'test', 'support', name), address, account], { stdio: 'ignore' })
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
        await pause(PACE_MS)
      }
    })
  }
}

async function allOf(client: Client, topic: string): Promise<ClientRecord[]> {
  const found: ClientRecord[] = []
  for await (const record of client.reader({ topic, isolation: 'read_committed' })) found.push(record)
  return found
}

/** What version 1 has committed says what was delivered; its account says what is done. */
async function isConsumed(client: Client, account: string): Promise<boolean> {
  const [ends, committed] = await Promise.all([
    client.admin.describeTopic(JOBS.topic),
    client.admin.committedOffsets(JOBS.group, [JOBS.topic]),
  ])
  const low = lowIn(account)
  return ends.partitions.every(
    ({ partition, highWatermark }) =>
      Math.max(0, committed[0]?.offsets[partition] ?? 0) === highWatermark && low[partition] === Math.max(0, highWatermark),
  )
}

test('kill -9 of broker and consumers at any moment: each record is processed or a dead letter, and each letter goes back once', async (t) => {
  const seed = seedOr(1)
  const random = new SeededRandom(seed)
  await using broker = await BrokerProcess.start()
  await insisting(broker, async (client) => {
    await client.admin.createTopic(JOBS.topic, { partitions: JOBS.partitions })
    for (const topic of [JOBS.done, PULLED.done]) await client.admin.createTopic(topic, { partitions: 1 })
  })
  const account = join(broker.dataDir, '..', 'account.json')
  const workers = WORKERS.map((name) => startWorker(name, broker.address, account))
  const counts = { broker: 0, workers: 0 }
  try {
    const producing = produce(broker)
    const startedMs = performance.now()
    for (let kills = 0; kills < KILLS || performance.now() - startedMs < LEAST_MS; kills++) {
      await pause(300 + random.below(1200))
      const victim = random.below(4)
      const [name, worker] = [WORKERS[victim], workers[victim]]
      if (name === undefined || worker === undefined) {
        await broker.kill()
        await broker.start()
        counts.broker++
      } else {
        await kill(worker)
        workers[victim] = startWorker(name, broker.address, account)
        counts.workers++
      }
    }
    t.diagnostic(`${counts.broker} kills of the broker, ${counts.workers} of workers in ${Math.round(performance.now() - startedMs)} ms`)
    await producing
    while (!(await insisting(broker, (client) => isConsumed(client, account)))) await pause(100)
  } finally {
    for (const worker of workers) await kill(worker)
  }
  assert.ok(!existsSync(`${account}.skipped`), existsSync(`${account}.skipped`) ? readFileSync(`${account}.skipped`, 'utf8') : '')
  const letters = await insisting(broker, async (client) => {
    const [jobs, dead] = [await allOf(client, JOBS.topic), await allOf(client, LETTERS)]
    checkLetters(jobs, dead)
    for (const { group, done } of [JOBS, PULLED]) {
      const processed = new Set((await allOf(client, done)).map(({ value }) => String(value)))
      const buried = new Set(dead.filter(({ headers }) => provenanceOf(headers)?.group === group).map(({ value }) => String(value)))
      for (const { value } of jobs) {
        const name = String(value)
        const isThere = name.startsWith('bad') ? buried.has(name) : processed.has(name)
        assert.ok(isThere, `${name} was lost for group ${group} (MOONMQ_SEED=${seed})`)
      }
    }
    t.diagnostic(`${jobs.length} records, ${dead.length} dead letters of two groups`)
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
    assert.ok(!seen.has(`${place} ${from.group}`), `the dead letter of ${place} of ${from.group} is there twice`)
    seen.add(`${place} ${from.group}`)
    assert.equal(values.get(place), String(letter.value))
    assert.equal(from.topic, JOBS.topic)
    assert.ok(from.group === JOBS.group || from.group === PULLED.group)
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
