import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Consumer } from 'kafkajs'
import { connect } from '../../src/client/index.ts'
import { type Deferred, deferred } from '../../src/core/deferred.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { type City, cities, faults, shuffled } from '../support/cities.ts'
import { kafkaClient, roundRobin } from '../support/kafkajs.ts'
import { byLane, laneSize, seedOr } from '../support/lane.ts'

/**
 * Real input under kill -9: cities keyed by their country through an idempotent kafkajs producer with acks all, while the broker
 * is killed at random moments and started again. Whatever was acknowledged is there once, in order for each key, for a group of
 * three and for a native reader alike.
 */
const TOPIC = 'cities'
const PARTITIONS = 6
const CHUNK = 400
const KILLS = byLane({ quick: 2, ci: 6, full: 12 })
const STEP = byLane({ quick: 6, ci: 1, full: 1 })
const ROUNDS = byLane({ quick: 1, ci: 1, full: 5 })
/** A third kind of client in the group where it is installed; `npm test` needs Node alone. */
const WITH_KCAT = laneSize() !== 'quick'

interface Read {
  readonly partition: number
  readonly offset: number
  readonly city: City
}

for (let round = 1; round <= ROUNDS; round++) {
  const seed = seedOr(20_261_129 + round)
  test(`kill -9 ${KILLS} times while ${STEP === 1 ? 'all' : 'some'} cities are produced, seed ${seed}`, async () => {
    const random = new SeededRandom(seed)
    await using broker = await BrokerProcess.start()
    const list = shuffled(cities(STEP), (limit) => random.below(limit))
    await produceUnderKills(broker, list, random)

    const expected = list.length
    const grouped = await readAsGroup(broker, expected)
    assert.deepEqual(faults(grouped, list), [], `what the group read, seed ${seed}`)
    assert.equal(grouped.length, expected, `records of the group, seed ${seed}`)
    const native = await readNatively(broker)
    assert.deepEqual(faults(native, list), [], `what the native reader read, seed ${seed}`)
    assert.equal(native.length, expected, `records of the native reader, seed ${seed}`)
    assert.equal(await broker.stop(), 0)
  })
}

/** Sends chunk after chunk; at random chunks the broker dies some milliseconds after the chunk went out. */
async function produceUnderKills(broker: BrokerProcess, list: readonly City[], random: SeededRandom): Promise<void> {
  const kafka = kafkaClient(broker.address, 'cities-producer')
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: PARTITIONS }] })
  await admin.disconnect()
  const chunks = Math.ceil(list.length / CHUNK)
  const deadly = new Set<number>()
  while (deadly.size < Math.min(KILLS, chunks)) deadly.add(random.below(chunks))
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  let killed = 0
  for (let chunk = 0; chunk < chunks; chunk++) {
    const messages = list.slice(chunk * CHUNK, (chunk + 1) * CHUNK).map((city) => ({ key: city.country, value: JSON.stringify(city) }))
    const sent = producer.send({ topic: TOPIC, acks: -1, messages })
    if (deadly.has(chunk)) {
      const dies = pause(random.below(25)).then(async () => {
        await broker.kill()
        killed++
        await broker.start()
      })
      await Promise.all([sent, dies])
    } else {
      await sent
    }
  }
  await producer.disconnect()
  assert.equal(killed, deadly.size)
}

/**
 * Three members share the partitions until all records were seen. A rebalance may deliver again what was not committed yet: the
 * same place counts once, and must hold the same record each time.
 */
async function readAsGroup(broker: BrokerProcess, expected: number): Promise<Read[]> {
  const read = new Map<string, Read>()
  const done = deferred()
  const take = (one: Read) => {
    const place = `${one.partition}:${one.offset}`
    const before = read.get(place)
    if (before !== undefined && before.city.n !== one.city.n)
      done.reject(new Error(`${place} held city ${before.city.n}, then ${one.city.n}`))
    read.set(place, one)
    if (read.size >= expected) done.resolve()
  }
  const members = [1, 2, ...(WITH_KCAT ? [] : [3])].map((member) => startMember(broker, member, take))
  const kcat = WITH_KCAT ? startKcat(broker, take, done) : null
  const started = await Promise.all(members)
  try {
    await within(60_000, done.promise, () => `the group read ${read.size} of ${expected} records`)
  } finally {
    kcat?.kill('SIGTERM')
    await Promise.all(started.map((consumer) => consumer.disconnect()))
  }
  return [...read.values()]
}

async function startMember(broker: BrokerProcess, member: number, take: (read: Read) => void): Promise<Consumer> {
  const consumer = kafkaClient(broker.address, `cities-consumer-${member}`).consumer({
    groupId: 'cities-group',
    partitionAssigners: [roundRobin],
    sessionTimeout: 10_000,
    heartbeatInterval: 500,
  })
  await consumer.connect()
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true })
  await consumer.run({
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) {
        take({ partition: batch.partition, offset: Number(message.offset), city: JSON.parse(String(message.value)) as City })
      }
    },
  })
  return consumer
}

function startKcat(broker: BrokerProcess, take: (read: Read) => void, done: Deferred<void>) {
  const args = [
    '-b',
    broker.address,
    '-G',
    'cities-group',
    '-q',
    '-u',
    '-X',
    'partition.assignment.strategy=roundrobin',
    '-X',
    'auto.offset.reset=earliest',
    '-f',
    '%p %o %s\\n',
    TOPIC,
  ]
  const child = spawn('kcat', args, { stdio: ['ignore', 'pipe', 'ignore'] })
  once(child, 'error').then(
    ([error]) => done.reject(new Error(`kcat is needed in this lane: ${String(error)}`)),
    () => {},
  )
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [, partition, offset, value] = /^(\d+) (\d+) (.*)$/.exec(line) ?? []
    take({ partition: Number(partition), offset: Number(offset), city: JSON.parse(value ?? '') as City })
  })
  return child
}

async function readNatively(broker: BrokerProcess): Promise<Read[]> {
  await using client = await connect({ address: broker.address, name: 'cities-reader' })
  const read: Read[] = []
  for await (const record of client.reader({ topic: TOPIC })) {
    read.push({ partition: record.partition, offset: record.offset, city: JSON.parse(String(record.value)) as City })
  }
  return read
}

async function within<T>(limitMs: number, work: Promise<T>, state: () => string): Promise<T> {
  const stop = new AbortController()
  const late = pause(limitMs, undefined, { signal: stop.signal }).then(
    () => Promise.reject(new Error(`not done after ${limitMs} ms: ${state()}`)),
    () => work,
  )
  try {
    return await Promise.race([work, late])
  } finally {
    stop.abort()
  }
}
