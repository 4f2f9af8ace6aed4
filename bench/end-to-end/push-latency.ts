import { Kafka, logLevel } from 'kafkajs'
import { connect } from '../../src/client/index.ts'
import { BrokerProcess } from '../../test/support/broker-process.ts'

/**
 * From `send` to the loop of a consumer at a steady rate: the native stream beside the Kafka door's long poll, both reading the same topic in
 * the same run: `node dist/bench/end-to-end/push-latency.js [seconds]`. The broker is a process of its own; a record is delivered when it is durable.
 */
const RATE = 1000
const TICK_MS = 10
const WARM_UP_MS = 2000
const TOPIC = 'latency'
const seconds = Number(process.argv[2] ?? 8)
const timer = (delayMs: number) => new Promise<void>((resolve) => setTimeout(resolve, delayMs))

/** Milliseconds since the record was sent, by the time in its value. */
class Latencies {
  readonly #all: number[] = []

  add(value: Buffer | null, fromMs: number): void {
    const sentMs = Number(value)
    if (sentMs >= fromMs) this.#all.push(performance.now() - sentMs)
  }

  row(name: string): string {
    const sorted = this.#all.sort((left, right) => left - right)
    const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(2)
    return `| ${name} | ${sorted.length} | ${at(0.5)} | ${at(0.99)} |`
  }
}

async function main(): Promise<void> {
  await using broker = await BrokerProcess.start()
  await using client = await connect({ address: broker.address })
  await client.admin.createTopic(TOPIC, { partitions: 4 })
  const kafka = new Kafka({ brokers: [broker.address], logLevel: logLevel.NOTHING })
  const polling = kafka.consumer({ groupId: 'long-poll', maxWaitTimeInMs: 500, minBytes: 1 })
  const [pushed, polled] = [new Latencies(), new Latencies()]
  const fromMs = performance.now() + WARM_UP_MS
  await polling.connect()
  await polling.subscribe({ topic: TOPIC, fromBeginning: true })
  await polling.run({ eachMessage: async ({ message }) => polled.add(message.value, fromMs) })
  const stop = new AbortController()
  const pushing = (async () => {
    for await (const { value } of client.pushConsumer({ group: 'push', topics: [TOPIC], signal: stop.signal })) pushed.add(value, fromMs)
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error
  })
  const producer = client.producer()
  const sends: Promise<unknown>[] = []
  const startMs = performance.now()
  for (let sent = 0; performance.now() - startMs < WARM_UP_MS + seconds * 1000; ) {
    for (const due = ((performance.now() - startMs) * RATE) / 1000; sent < due; sent++) {
      sends.push(producer.send(TOPIC, { value: String(performance.now()), partition: sent % 4 }))
    }
    await timer(TICK_MS)
  }
  await Promise.all(sends)
  await timer(1000)
  stop.abort()
  await Promise.all([pushing, polling.disconnect()])
  process.stdout.write(`| ${RATE} records/s, acks leader | records | p50 ms | p99 ms |\n| --- | ---: | ---: | ---: |\n`)
  process.stdout.write(`${pushed.row('native stream')}\n${polled.row('Kafka door, long poll (kafkajs)')}\n`)
}

await main()
