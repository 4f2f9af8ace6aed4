/**
 * What the Kafka door costs for each request, without socket, disk and broker: frames in, answers out.
 * Run: node dist/bench/protocol/kafka-door.js
 */
import type { BrokerPorts, ProduceOutcome } from '../../src/broker/ports.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SystemRandom } from '../../src/core/random.ts'
import type { NetConnection, NetHandlers } from '../../src/io/net.ts'
import { DEFAULT_KAFKA_DOOR, KafkaDoor } from '../../src/kafka/listener.ts'
import { batchOf, createTopic, fakeBroker, produceOne } from '../../test/support/fake-broker.ts'
import { readResponse, requestFrame } from '../../test/support/kafka-frames.ts'

const OUTCOME: ProduceOutcome = { error: null, baseOffset: 1, logAppendTimeMs: -1, logStartOffset: 0 }
const RECORDS = [Buffer.alloc(100_000)]
/** Turns after which a request that waits has looked at everything. */
const PRODUCED_AT = 12

/** Answers at once; Fetch always has 100 KB. */
const broker = {
  cluster: { nodeId: 0, clusterId: 'bench', settings: new Map() },
  produce: {
    append: (_context: unknown, request: { partitions: readonly unknown[] }) => ({ settled: () => request.partitions.map(() => OUTCOME) }),
  },
  fetch: {
    fetch: async (_context: unknown, request: { partitions: readonly { topic: string; partition: number }[] }) => ({
      partitions: request.partitions.map(({ topic, partition }) => ({
        topic,
        partition,
        error: null,
        highWatermark: 1000,
        lastStableOffset: 1000,
        logStartOffset: 0,
        aborted: null,
        divergingEpoch: null,
        read: { buffers: RECORDS, sizeBytes: 100_000, baseOffset: 0, nextOffset: 1000, release() {} },
      })),
      release() {},
    }),
  },
} as unknown as BrokerPorts

class Sink implements NetConnection {
  readonly remote = { host: '127.0.0.1', port: 1 }
  readonly local = { host: '127.0.0.1', port: 9092 }
  readonly queuedBytes = 0
  handlers: NetHandlers | null = null
  sends = 0
  start(handlers: NetHandlers): void {
    this.handlers = handlers
  }
  send(_parts: readonly Buffer[], sent?: () => void): void {
    this.sends++
    sent?.()
  }
  pause(): void {}
  resume(): void {}
  end(): void {}
  destroy(): void {}
}

const deps = { clock: new SystemClock(), random: new SystemRandom(), log: SILENT, metrics: NO_METRICS }
const door = new KafkaDoor({ broker, ...deps }, DEFAULT_KAFKA_DOOR)

async function measure(what: string, frame: Buffer, count: number): Promise<void> {
  const sink = new Sink()
  door.accept(sink, Buffer.alloc(0), { id: 1, listener: 'bench', advertised: null, loggedIn() {} })
  for (let round = 0; round < 3; round++) {
    const began = process.cpuUsage()
    for (let i = 0; i < count; i++) {
      sink.handlers?.data(frame)
      // A fetch is answered in a later microtask.
      if (sink.sends === i) for (let turn = 0; sink.sends === i && turn < 50; turn++) await Promise.resolve()
    }
    const used = process.cpuUsage(began)
    const us = (used.user + used.system) / count
    if (sink.sends !== count) throw new Error(`${what}: ${sink.sends} of ${count} answers`)
    sink.sends = 0
    if (round === 2) console.log(`${what.padEnd(40)} ${us.toFixed(2).padStart(8)} us of processor time a request`)
  }
  sink.handlers?.closed(null)
}

const produceBody = (partitions: number, bytes: number) => ({
  acks: -1,
  timeoutMs: 1000,
  topicData: [
    { name: 'bench', partitionData: Array.from({ length: partitions }, (_, index) => ({ index, records: Buffer.alloc(bytes) })) },
  ],
})
const fetchBody = (partitions: number) => ({
  maxWaitMs: 500,
  minBytes: 1,
  maxBytes: 1_000_000,
  topics: [
    {
      topic: 'bench',
      partitions: Array.from({ length: partitions }, (_, partition) => ({ partition, fetchOffset: 0, partitionMaxBytes: 1_000_000 })),
    },
  ],
})

await measure('Produce 7, 1 partition of 100 bytes', requestFrame('Produce', 7, produceBody(1, 100)), 200_000)
await measure('Produce 9, 1 partition of 100 bytes', requestFrame('Produce', 9, produceBody(1, 100)), 200_000)
await measure('Produce 7, 1 partition of 130 KB', requestFrame('Produce', 7, produceBody(1, 130_000)), 200_000)
await measure('Produce 7, 48 partitions of 1 KB', requestFrame('Produce', 7, produceBody(48, 1000)), 20_000)
await measure('Fetch 11, 1 partition', requestFrame('Fetch', 11, fetchBody(1)), 200_000)
await measure('Fetch 12, 1 partition', requestFrame('Fetch', 12, fetchBody(1)), 200_000)
await measure('Fetch 11, 48 partitions', requestFrame('Fetch', 11, fetchBody(48)), 20_000)

/** One partition of many has records of 100 bytes, through the broker's own fetch. `waits`: there is nothing yet, and then it comes. */
async function measureFetch(partitions: number, { isSession, waits }: { isSession: boolean; waits: boolean }): Promise<void> {
  const { broker: real, clock } = await fakeBroker()
  await createTopic(real, 'bench', partitions)
  const produce = () => produceOne(real, 'bench', 500, batchOf(1, { valueBytes: 100 }))
  await produce()
  const served = new KafkaDoor({ broker: real, ...deps }, DEFAULT_KAFKA_DOOR)
  let answer: readonly Buffer[] = []
  const sink = new Sink()
  sink.send = (parts, sent) => {
    answer = parts
    sent?.()
  }
  served.accept(sink, Buffer.alloc(0), { id: 1, listener: 'bench', advertised: null, loggedIn() {} })
  const ask = async (frame: Buffer) => {
    answer = []
    sink.handlers?.data(frame)
    for (let turn = 0; answer.length === 0; turn++) {
      await clock.advance(0)
      await new Promise((resolve) => setImmediate(resolve))
      if (turn === PRODUCED_AT && waits) await produce()
    }
  }
  const all = { ...fetchBody(partitions), maxWaitMs: 0 }
  await ask(requestFrame('Fetch', 12, { ...all, sessionEpoch: isSession ? 0 : -1 }))
  const { sessionId } = readResponse('Fetch', 12, Buffer.concat(answer).subarray(4)).body
  const count = 600_000 / partitions
  const frames = Array.from({ length: count }, (_, i) => {
    if (!isSession) return requestFrame('Fetch', 12, { ...all, sessionEpoch: -1 })
    const next = { partition: 500, fetchOffset: i + 1, partitionMaxBytes: 1_000_000 }
    const topics = waits ? [{ topic: 'bench', partitions: [next] }] : []
    return requestFrame('Fetch', 12, { ...all, maxWaitMs: waits ? 500 : 0, topics, sessionId, sessionEpoch: i + 1 })
  })
  const began = process.cpuUsage()
  for (const frame of frames) await ask(frame)
  const used = process.cpuUsage(began)
  const bytes = answer.reduce((sum, part) => sum + part.length, 0)
  const us = ((used.user + used.system) / count).toFixed(0).padStart(6)
  const what = waits ? 'in a session, waits' : isSession ? 'in a session' : 'every one named'
  console.log(`Fetch 12, ${partitions} partitions, ${what.padEnd(20)} ${us} us of processor time a request, ${bytes} bytes an answer`)
  sink.handlers?.closed(null)
}

for (const partitions of [1000, 10_000]) {
  await measureFetch(partitions, { isSession: false, waits: false })
  await measureFetch(partitions, { isSession: true, waits: false })
  await measureFetch(partitions, { isSession: true, waits: true })
}
