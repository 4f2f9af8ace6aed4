import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { loadavg, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { requestFrame } from '../../test/support/kafka-frames.ts'
import { RawKafka } from '../../test/support/raw-kafka.ts'
import { freePort } from './moonmq-server.ts'
import { median } from './report.ts'

/**
 * What readers of old records cost a consumer of the newest: `node dist/bench/end-to-end/cold-readers.js [seconds] [rounds]`.
 * One partition with 1 GB in it gets 1,000 records/s of 1 KiB with acks=all; a consumer waits at its end. The broker, the
 * cold readers and this process, which produces and consumes, are three processes that share the cores. Before each case `dd`
 * asks the system to forget the files (posix_fadvise), so the first pass comes from the device and later ones from the page cache.
 */
const TOPIC = 'cold'
const STORED_BYTES = 1_000_000_000
const RECORD_BYTES = 1024
const RATE_PER_S = 1000
const WARM_UP_S = 2
const SLOW_BYTES_PER_S = 10_000
/** As Kafka's consumers ask (`max.partition.fetch.bytes`). */
const FETCH_BYTES = 1024 * 1024
const FORGET = 'for file in "$0"/*.log; do dd if="$file" iflag=nocache count=0 status=none; done'

interface Case {
  readonly name: string
  readonly readers: number
  /** Asks for the old end of the log and takes the answer off its socket at 10 KB/s. */
  readonly slow?: boolean
  /** The files are forgotten again and again. */
  readonly device?: boolean
  /** The readers read from a second broker: what sharing the cores alone does. */
  readonly elsewhere?: boolean
}

const NO_READER: Case = { name: 'no cold reader', readers: 0 }
const CASES: readonly Case[] = [
  NO_READER,
  { name: '1 cold reader', readers: 1 },
  { name: '4 cold readers', readers: 4 },
  { name: '4 cold readers, files forgotten all the time', readers: 4, device: true },
  { name: '4 cold readers of another broker', readers: 4, elsewhere: true },
  { name: 'slow consumer at the head, 10 KB/s', readers: 0, slow: true },
]

interface Outcome {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly readMbPerS: number
  readonly brokerCores: number
}

/** A broker as a process of its own, with its default settings and one partition of 1 GB. */
class StoredBroker {
  readonly address: string
  readonly #folder: string
  readonly #child: ChildProcess

  private constructor(address: string, folder: string) {
    this.address = address
    this.#folder = folder
    const args = [resolve('dist/bin/moonmq.cjs'), 'start', '--listen', address, '--http', 'off', '--data', folder]
    this.#child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  }

  static async start(folder: string): Promise<StoredBroker> {
    const broker = new StoredBroker(`127.0.0.1:${await freePort()}`, folder)
    try {
      await broker.#fill()
      return broker
    } catch (error) {
      await broker.stop()
      throw error
    }
  }

  async #fill(): Promise<void> {
    using connection = await this.#connected()
    const topics = [{ name: TOPIC, numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }]
    const { topics: answers } = await connection.request('CreateTopics', 5, { topics, timeoutMs: 30_000 })
    if (answers[0]?.errorCode !== 0) throw new Error(`CreateTopics: error ${answers[0]?.errorCode}`)
    const value = Buffer.alloc(RECORD_BYTES, 'x')
    const batch = buildBatch(Array.from({ length: 125 }, () => ({ key: null, value, timestampMs: Date.now() })))
    let missing = Math.ceil(STORED_BYTES / batch.length)
    const worker = async () => {
      while (missing-- > 0) await produce(connection, batch)
    }
    await Promise.all(Array.from({ length: 8 }, worker))
  }

  async #connected(): Promise<RawKafka> {
    for (const startedMs = performance.now(); ; await pause(20)) {
      try {
        return await RawKafka.connect(this.address)
      } catch (error) {
        if (performance.now() - startedMs > 30_000) throw error
      }
    }
  }

  /** Needs no rights: pages that are on disk and nobody maps leave the page cache. */
  async forgetFiles(): Promise<void> {
    await once(spawn('sh', ['-c', FORGET, this.#logFolder], { stdio: 'inherit' }), 'exit')
  }

  /** The same four times a second, by another process, until it is ended. */
  keepForgetting(): ChildProcess {
    return spawn('sh', ['-c', `while sleep 0.25; do ${FORGET}; done`, this.#logFolder], { stdio: 'inherit' })
  }

  get #logFolder(): string {
    return join(this.#folder, `${TOPIC}-0`)
  }

  cpuSeconds(): number {
    const fields = readFileSync(`/proc/${this.#child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11]) + Number(fields[12])) / 100
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    this.#child.kill('SIGTERM')
    await once(this.#child, 'exit')
  }
}

async function produce(connection: RawKafka, records: Buffer): Promise<number> {
  const topicData = [{ name: TOPIC, partitionData: [{ index: 0, records }] }]
  const { responses } = await connection.request('Produce', 7, { transactionalId: null, acks: -1, timeoutMs: 30_000, topicData })
  const answer = responses[0]?.partitionResponses[0]
  if (answer === undefined || answer.errorCode !== 0) throw new Error(`Produce: error ${answer?.errorCode}`)
  return answer.baseOffset
}

function fetchRequest(fetchOffset: number, maxBytes: number) {
  const common = { currentLeaderEpoch: -1, lastFetchedEpoch: -1, logStartOffset: -1 }
  const partitions = [{ partition: 0, fetchOffset, partitionMaxBytes: maxBytes, ...common }]
  const session = { isolationLevel: 0, sessionId: 0, sessionEpoch: -1, forgottenTopicsData: [], rackId: '' }
  return { replicaId: -1, maxWaitMs: 500, minBytes: 1, maxBytes, topics: [{ topic: TOPIC, partitions }], ...session }
}

/** Bytes of the next batches, and the offset behind them. */
async function fetchBatches(connection: RawKafka, from: number): Promise<{ sizeBytes: number; nextOffset: number }> {
  const answer = await connection.request('Fetch', 12, fetchRequest(from, FETCH_BYTES))
  const data = answer.responses[0]?.partitions[0]
  if (data === undefined || data.errorCode !== 0) throw new Error(`Fetch at ${from}: error ${data?.errorCode ?? answer.errorCode}`)
  const records = data.records ?? Buffer.alloc(0)
  let nextOffset = from
  for (let at = 0; at < records.length; ) {
    const header = readBatchHeader(records, at, records.length)
    nextOffset = header.baseOffset + header.lastOffsetDelta + 1
    at += header.sizeBytes
  }
  return { sizeBytes: records.length, nextOffset }
}

async function endOffset(connection: RawKafka): Promise<number> {
  const partitions = [{ partitionIndex: 0, currentLeaderEpoch: -1, timestamp: -1 }]
  const answer = await connection.request('ListOffsets', 5, { replicaId: -1, isolationLevel: 0, topics: [{ name: TOPIC, partitions }] })
  return answer.topics[0]?.partitions[0]?.offset ?? -1
}

/** Milliseconds from handing a record to the socket until the consumer has it, for each record after the warm-up, sorted. */
async function tailLatencies(address: string, seconds: number): Promise<number[]> {
  using producer = await RawKafka.connect(address)
  using consumer = await RawKafka.connect(address)
  const batch = buildBatch([{ key: null, value: Buffer.alloc(RECORD_BYTES, 'y'), timestampMs: Date.now() }])
  const base = await endOffset(consumer)
  const count = (WARM_UP_S + seconds) * RATE_PER_S
  const sentMs: number[] = []
  const latencies: number[] = []
  const consume = async () => {
    for (let next = base; next < base + count; ) {
      const { nextOffset } = await fetchBatches(consumer, next)
      const nowMs = performance.now()
      for (; next < nextOffset; next++) {
        if (next >= base + WARM_UP_S * RATE_PER_S) latencies.push(nowMs - (sentMs[next - base] ?? Number.NaN))
      }
    }
  }
  const send = async (index: number) => {
    sentMs.push(performance.now())
    const offset = await produce(producer, batch)
    if (offset !== base + index) throw new Error(`record ${index} is at ${offset} and not at ${base + index}`)
  }
  const sendAll = async () => {
    const answers: Promise<void>[] = []
    for (const startedMs = performance.now(); answers.length < count; await pause(1)) {
      const due = Math.min(count, Math.floor(((performance.now() - startedMs) / 1000) * RATE_PER_S))
      while (answers.length < due) answers.push(send(answers.length))
    }
    await Promise.all(answers)
  }
  await Promise.all([consume(), sendAll()])
  return latencies.sort((a, b) => a - b)
}

/** The cold readers, in a process of their own: from the start to the old end again and again. Prints how much they read in a second. */
async function readAgainAndAgain(address: string, readers: number, seconds: number): Promise<void> {
  const startedMs = performance.now()
  let bytes = 0
  const read = async () => {
    using connection = await RawKafka.connect(address)
    const end = await endOffset(connection)
    for (let next = 0; performance.now() - startedMs < seconds * 1000; ) {
      const { sizeBytes, nextOffset } = await fetchBatches(connection, next)
      bytes += sizeBytes
      next = nextOffset >= end ? 0 : nextOffset
    }
  }
  await Promise.all(Array.from({ length: readers }, read))
  process.stdout.write(`${bytes / (performance.now() - startedMs) / 1000}\n`)
}

/** Resolves with MB/s when its time is over. */
async function coldReaders(address: string, readers: number, seconds: number): Promise<number> {
  if (readers === 0) return 0
  const args = [fileURLToPath(import.meta.url), 'readers', address, `${readers}`, `${seconds}`]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const printed = Number((await text(child.stdout)).trim() || Number.NaN)
  if (!Number.isFinite(printed)) throw new Error('the cold readers failed')
  return printed
}

function slowConsumer(address: string) {
  const [host = '', port = ''] = address.split(':')
  const socket = connect(Number(port), host)
  let taken = 0
  let ended = ''
  socket.on('error', (error) => {
    ended = error.message
  })
  // With this listener the socket hands out bytes only when it is asked for them.
  socket.on('readable', () => {})
  socket.write(requestFrame('Fetch', 12, fetchRequest(0, 16 * FETCH_BYTES)))
  const timer = setInterval(() => {
    taken += (socket.read(SLOW_BYTES_PER_S / 10) as Buffer | null)?.length ?? 0
  }, 100)
  return {
    check() {
      if (socket.destroyed || taken === 0) throw new Error(`the slow consumer took ${taken} bytes and lost its connection: ${ended}`)
    },
    stop() {
      clearInterval(timer)
      socket.destroy()
    },
  }
}

async function measure(each: Case, broker: StoredBroker, other: StoredBroker, seconds: number): Promise<Outcome> {
  await broker.forgetFiles()
  const slow = each.slow === true ? slowConsumer(broker.address) : null
  const forgetting = each.device === true ? broker.keepForgetting() : null
  try {
    const startedMs = performance.now()
    const startedCpu = broker.cpuSeconds()
    const reading = coldReaders(each.elsewhere === true ? other.address : broker.address, each.readers, WARM_UP_S + seconds)
    const [latencies, readMbPerS] = await Promise.all([tailLatencies(broker.address, seconds), reading])
    const at = (part: number) => latencies[Math.floor(latencies.length * part)] ?? Number.NaN
    const brokerCores = (broker.cpuSeconds() - startedCpu) / ((performance.now() - startedMs) / 1000)
    slow?.check()
    return { p50Ms: at(0.5), p99Ms: at(0.99), readMbPerS, brokerCores }
  } finally {
    forgetting?.kill()
    slow?.stop()
  }
}

/** Medians over the rounds; a ratio is taken in each round. */
function table(rounds: readonly ReadonlyMap<Case, Outcome>[]): string {
  const lines = [
    '| | p50 (ms) | p99 (ms) | p50 / none | p99 / none | p99 / none, each round | read (MB/s) | broker (cores) |',
    `|${' --- |'.repeat(8)}`,
  ]
  for (const each of CASES) {
    const over = (take: (outcome: Outcome) => number) => rounds.map((round) => take(round.get(each) as Outcome))
    const ratios = (take: (outcome: Outcome) => number) =>
      rounds.map((round) => take(round.get(each) as Outcome) / take(round.get(NO_READER) as Outcome))
    const p99Ratios = ratios((outcome) => outcome.p99Ms)
    const cells = [
      each.name,
      median(over((outcome) => outcome.p50Ms)).toFixed(2),
      median(over((outcome) => outcome.p99Ms)).toFixed(2),
      median(ratios((outcome) => outcome.p50Ms)).toFixed(2),
      median(p99Ratios).toFixed(2),
      p99Ratios.map((ratio) => ratio.toFixed(2)).join(', '),
      median(over((outcome) => outcome.readMbPerS)).toFixed(0),
      median(over((outcome) => outcome.brokerCores)).toFixed(2),
    ]
    lines.push(`| ${cells.join(' | ')} |`)
  }
  return `${lines.join('\n')}\n`
}

async function main(seconds: number, rounds: number): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'moonmq-cold-'))
  const brokers: StoredBroker[] = []
  try {
    const broker = await StoredBroker.start(join(work, 'data'))
    brokers.push(broker)
    const other = await StoredBroker.start(join(work, 'other'))
    brokers.push(other)
    const measured: Map<Case, Outcome>[] = []
    for (let round = 1; round <= rounds; round++) {
      const outcomes = new Map<Case, Outcome>()
      for (const each of CASES) {
        const outcome = await measure(each, broker, other, seconds)
        outcomes.set(each, outcome)
        const numbers = `p50 ${outcome.p50Ms.toFixed(2)} ms, p99 ${outcome.p99Ms.toFixed(2)} ms, read ${outcome.readMbPerS.toFixed(0)} MB/s`
        process.stderr.write(`round ${round}, load ${loadavg()[0]?.toFixed(1)}, ${each.name}: ${numbers}\n`)
      }
      measured.push(outcomes)
    }
    process.stdout.write(table(measured))
  } finally {
    await Promise.all(brokers.map((each) => each.stop()))
    await rm(work, { recursive: true, force: true })
  }
}

const [first = '8', second = '3', third = '', fourth = ''] = process.argv.slice(2)
await (first === 'readers' ? readAgainAndAgain(second, Number(third), Number(fourth)) : main(Number(first), Number(second)))
