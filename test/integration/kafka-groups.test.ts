import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import kafkajs from 'kafkajs'
import { deferred } from '../../src/core/deferred.ts'
import { startBroker } from '../../src/server/embedded.ts'
import { startTestBroker } from '../../src/testing/index.ts'

const { Kafka, logLevel } = kafkajs

const TOPIC = 'work'
const GROUP = 'workers'

/** A consumer and what it has seen. `die` cuts its connections and keeps it from making new ones, as a killed process would. */
class Worker {
  readonly consumer: kafkajs.Consumer
  readonly seen: string[] = []
  assigned: readonly number[] = []
  generation = 0
  onChange: () => void = () => {}
  readonly #sockets = new Set<net.Socket>()
  #dead = false

  constructor(address: string, name: string) {
    const kafka = new Kafka({
      clientId: name,
      brokers: [address],
      logLevel: logLevel.NOTHING,
      retry: { retries: 3, initialRetryTime: 30, restartOnFailure: async () => !this.#dead },
      socketFactory: ({ host, port, onConnect }) => {
        const socket = net.connect({ host, port }, onConnect)
        this.#sockets.add(socket)
        if (this.#dead) socket.destroy(new Error('cut'))
        return socket
      },
    })
    this.consumer = kafka.consumer({
      groupId: GROUP,
      sessionTimeout: 2000,
      rebalanceTimeout: 5000,
      heartbeatInterval: 200,
      maxWaitTimeInMs: 100,
    })
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.assigned = payload.memberAssignment[TOPIC] ?? []
      this.onChange()
    })
  }

  /** Also one that died can be disconnected: it may reach the broker again for that. */
  async close(): Promise<void> {
    this.#dead = false
    await this.consumer.disconnect()
  }

  async start(fromBeginning = true): Promise<void> {
    await this.consumer.connect()
    await this.consumer.subscribe({ topic: TOPIC, fromBeginning })
    await this.consumer.run({
      autoCommitThreshold: 1,
      eachMessage: async ({ message }) => {
        this.seen.push(message.value?.toString() ?? '')
        this.onChange()
      },
    })
  }

  die(): void {
    this.#dead = true
    this.assigned = []
    // With an error, since kafkajs does not look at a mere close.
    for (const socket of this.#sockets) socket.destroy(new Error('cut'))
  }
}

/** Resolves when `done` holds; it is asked after each event of a worker. */
async function until(workers: readonly Worker[], done: () => boolean): Promise<void> {
  const reached = deferred()
  const look = () => {
    if (done()) reached.resolve()
  }
  for (const worker of workers) worker.onChange = look
  look()
  await reached.promise
}

function covered(workers: readonly Worker[], partitions: number): boolean {
  const all = workers.flatMap((worker) => worker.assigned).sort((left, right) => left - right)
  return all.length === partitions && all.every((partition, index) => partition === index)
}

async function prepared(address: string, partitions: number): Promise<kafkajs.Producer> {
  const kafka = new Kafka({ clientId: 'prepare', brokers: [address], logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: partitions }] })
  await admin.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  return producer
}

async function send(producer: kafkajs.Producer, from: number, to: number): Promise<void> {
  const messages = Array.from({ length: to - from }, (_, index) => ({ key: `k${from + index}`, value: String(from + index) }))
  await producer.send({ topic: TOPIC, messages })
}

function numbers(to: number): string[] {
  return Array.from({ length: to }, (_, index) => String(index)).sort()
}

describe('kafkajs consumers in a group', () => {
  it('three members share the partitions, and take over from one that dies without a word', { timeout: 60_000 }, async () => {
    await using broker = await startTestBroker()
    const producer = await prepared(broker.address, 6)
    const workers = ['a', 'b', 'c'].map((name) => new Worker(broker.address, name))
    try {
      for (const worker of workers) await worker.start()
      await until(workers, () => covered(workers, 6) && workers.every((worker) => worker.assigned.length === 2))
      await send(producer, 0, 60)
      await until(workers, () => workers.reduce((sum, worker) => sum + worker.seen.length, 0) >= 60)
      assert.deepEqual(workers.flatMap((worker) => worker.seen).sort(), numbers(60))
      const [dying, ...rest] = workers
      assert.ok(dying !== undefined)
      dying.die()
      await until(rest, () => covered(rest, 6))
      await send(producer, 60, 90)
      const all = () => new Set(workers.flatMap((worker) => worker.seen))
      await until(rest, () => all().size >= 90)
      assert.deepEqual([...all()].sort(), numbers(90))
    } finally {
      await producer.disconnect()
      for (const worker of workers) await worker.close()
    }
  })

  it('goes on where the group has committed', { timeout: 60_000 }, async () => {
    await using broker = await startTestBroker()
    const producer = await prepared(broker.address, 2)
    await send(producer, 0, 20)
    const first = new Worker(broker.address, 'first')
    await first.start()
    await until([first], () => first.seen.length >= 20)
    await first.close()
    await send(producer, 20, 30)
    const second = new Worker(broker.address, 'second')
    try {
      await second.start()
      await until([second], () => second.seen.length >= 10)
      assert.deepEqual([...first.seen, ...second.seen].sort(), numbers(30))
    } finally {
      await producer.disconnect()
      await second.close()
    }
  })

  it('shows groups and offsets to an admin, and lets it delete them', { timeout: 60_000 }, async () => {
    await using broker = await startTestBroker()
    const producer = await prepared(broker.address, 1)
    await send(producer, 0, 5)
    const worker = new Worker(broker.address, 'a')
    await worker.start()
    const admin = new Kafka({ clientId: 'admin', brokers: [broker.address], logLevel: logLevel.NOTHING, retry: { retries: 0 } }).admin()
    await admin.connect()
    try {
      await until([worker], () => worker.seen.length >= 5)
      assert.deepEqual((await admin.listGroups()).groups, [{ groupId: GROUP, protocolType: 'consumer' }])
      const { groups } = await admin.describeGroups([GROUP])
      assert.equal(groups[0]?.state, 'Stable')
      assert.equal(groups[0]?.members[0]?.clientId, 'a')
      await assert.rejects(admin.deleteGroups([GROUP]))
      await worker.close()
      const [offsets] = await admin.fetchOffsets({ groupId: GROUP, topics: [TOPIC] })
      assert.deepEqual(
        offsets?.partitions.map(({ offset }) => offset),
        ['5'],
      )
      await admin.deleteGroups([GROUP])
      assert.deepEqual((await admin.listGroups()).groups, [])
    } finally {
      await producer.disconnect()
      await worker.close()
      await admin.disconnect()
    }
  })

  it('goes on after a restart of the broker, from the offsets that were committed', { timeout: 60_000 }, async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'moonmq-groups-'))
    const first = await startBroker({ port: 0, dataDir })
    const { address, port } = first
    const producer = await prepared(address, 4)
    const workers = ['a', 'b'].map((name) => new Worker(address, name))
    try {
      for (const worker of workers) await worker.start()
      await until(workers, () => covered(workers, 4) && workers.every((worker) => worker.assigned.length === 2))
      await send(producer, 0, 20)
      await until(workers, () => workers.reduce((sum, worker) => sum + worker.seen.length, 0) >= 20)
      const before = await described(address)
      await first.close()
      await using second = await startBroker({ port, dataDir })
      assert.equal(second.address, address)
      // kafkajs comes back under new ids; the old ones are there again too, and go with their sessions.
      const after = await described(address)
      assert.ok(after.members.length >= before.members.length)
      await send(producer, 20, 40)
      const all = () => new Set(workers.flatMap((worker) => worker.seen))
      await until(workers, () => all().size >= 40)
      assert.deepEqual([...all()].sort(), numbers(40))
      const seen = workers.reduce((sum, worker) => sum + worker.seen.length, 0)
      assert.ok(seen <= 40 + 4, `${seen} messages were seen: more than one of each partition came twice`)
      await producer.disconnect()
      for (const worker of workers) await worker.close()
    } finally {
      await first.close()
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})

/** The group as an admin sees it, asked until the coordinator has read its offsets. */
async function described(address: string): Promise<kafkajs.GroupDescription> {
  const admin = new Kafka({ clientId: 'admin', brokers: [address], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    for (;;) {
      const { groups } = await admin.describeGroups([GROUP])
      const [group] = groups
      if (group !== undefined && group.members.length > 0) return group
    }
  } finally {
    await admin.disconnect()
  }
}
