import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { buildBatch } from '../../src/record/builder.ts'
import { RawKafka } from '../../test/support/raw-kafka.ts'
import { freePortPair } from './moonmq-server.ts'

/**
 * Many partitions on one broker, MoonMQ and, with `--kafka`, Apache Kafka in the same run:
 * `node dist/bench/end-to-end/scale.js [--kafka] [--topics 10] [--partitions 1000] [--only restart]`.
 * Usable: from the first CreateTopics request until each partition has acknowledged one record. Restart: from the start of the process.
 */
const CONNECTIONS = 8
const PARTITIONS_PER_REQUEST = 100
const LIMIT_MS = 180_000
/** As Kafka's clients wait (`retry.backoff.ms`). */
const RETRY_MS = 100

interface Running {
  readonly pid: number
  readonly exited: Promise<void>
}

interface Broker {
  readonly name: string
  start(how: 'fresh' | 'keep'): Promise<Running>
}

interface Result {
  readonly what: string
  readonly unit: string
  readonly value: number
}

class MoonMQ implements Broker {
  readonly name = 'MoonMQ'
  readonly #address: string
  readonly #folder: string
  readonly #nodeArgs: readonly string[]

  constructor(address: string, folder: string, nodeArgs: readonly string[]) {
    this.#address = address
    this.#folder = folder
    this.#nodeArgs = nodeArgs
  }

  async start(how: 'fresh' | 'keep'): Promise<Running> {
    if (how === 'fresh') rmSync(this.#folder, { recursive: true, force: true })
    const bin = resolve('dist/bin/moonmq.cjs')
    const args = [...this.#nodeArgs, bin, 'start', '--listen', this.#address, '--http', 'off', '--data', this.#folder]
    const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    const exited = new Promise<void>((done) => child.once('exit', () => done()))
    return { pid: child.pid ?? 0, exited }
  }
}

class Kafka implements Broker {
  readonly name = 'Kafka'
  readonly #port: number
  readonly #peers: string
  readonly #tools: string

  constructor(port: number, peers: string, tools: string) {
    this.#port = port
    this.#peers = peers
    this.#tools = tools
  }

  async start(how: 'fresh' | 'keep'): Promise<Running> {
    const env = { ...process.env, BENCH_TMP: this.#tools, PORT: `${this.#port}` }
    const script = join(this.#peers, 'kafka-start.sh')
    const printed = execFileSync('bash', [script, how, join(this.#tools, 'data', 'kafka-scale')], {
      env,
      encoding: 'utf8',
      timeout: 60_000,
    })
    const pid = Number(printed.trim().split('\n').at(-1))
    return { pid, exited: gone(pid) }
  }
}

async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0)
    } catch {
      return
    }
    await pause(20)
  }
}

function residentMb(pid: number): number {
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024)
}

function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / 100
}

class Scale {
  readonly #broker: Broker
  readonly #address: string
  readonly #topics: readonly string[]
  readonly #partitions: number
  readonly #results: Result[] = []
  #running: Running = { pid: 0, exited: Promise.resolve() }

  constructor(broker: Broker, address: string, topics: number, partitions: number) {
    this.#broker = broker
    this.#address = address
    this.#topics = Array.from({ length: topics }, (_, index) => `scale${index}`)
    this.#partitions = partitions
  }

  async run(): Promise<readonly Result[]> {
    this.#running = await this.#broker.start('fresh')
    await this.#answering(() => this.#ask((connection) => connection.request('ApiVersions', 0, {})))
    await pause(1000)
    const { pid } = this.#running
    const emptyMb = residentMb(pid)
    const startedMs = performance.now()
    await this.#create()
    this.#note('CreateTopics answered', 'ms', performance.now() - startedMs)
    await pause(2000)
    this.#note('memory of a partition that was only created', 'KB', ((residentMb(pid) - emptyMb) * 1024) / this.#count)
    const writeMs = performance.now() - 2000
    await this.#writeToAll()
    this.#note('usable: created, one record acknowledged by each', 'ms', performance.now() - startedMs - 2000)
    this.#note('of it the first records', 'ms', performance.now() - writeMs - 2000)
    this.#note('CPU until then', 's', cpuSeconds(pid))
    const secondMs = performance.now()
    await this.#writeToAll()
    this.#note('a second record to each', 'ms', performance.now() - secondMs)
    const metadataMs = performance.now()
    await this.#ask((connection) => connection.request('Metadata', 12, { topics: null, allowAutoTopicCreation: false }))
    this.#note('Metadata of all', 'ms', performance.now() - metadataMs)
    await pause(3000)
    this.#note('resident memory', 'MB', residentMb(pid))
    await this.#stopped('stop after writing to all')
    await this.#restarted('clean restart')
    await pause(3000)
    this.#note('resident memory after the restart', 'MB', residentMb(this.#running.pid))
    await this.#stopped('stop of an idle broker')
    await this.#restarted('second clean restart')
    await this.#writeToAll()
    process.kill(this.#running.pid, 'SIGKILL')
    await this.#running.exited
    await this.#restarted('restart after kill -9')
    await this.#stopped('last stop')
    return this.#results
  }

  get #count(): number {
    return this.#topics.length * this.#partitions
  }

  #note(what: string, unit: string, value: number): void {
    const rounded = unit === 'ms' || value > 100 ? Math.round(value) : Math.round(value * 10) / 10
    process.stderr.write(`  ${this.#broker.name.padEnd(7)} ${what}: ${rounded} ${unit}\n`)
    this.#results.push({ what, unit, value: rounded })
  }

  async #stopped(what: string): Promise<void> {
    const startedMs = performance.now()
    process.kill(this.#running.pid, 'SIGTERM')
    await this.#running.exited
    this.#note(what, 'ms', performance.now() - startedMs)
  }

  async #restarted(what: string): Promise<void> {
    const startedMs = performance.now()
    this.#running = await this.#broker.start('keep')
    const { length } = this.#topics
    await this.#answering(() => this.#ask((connection) => this.#produce(connection, this.#topics[length - 1] as string, [0])))
    this.#note(`${what}: first ack`, 'ms', performance.now() - startedMs)
    await this.#answering(() => this.#ask((connection) => this.#listAll(connection)))
    this.#note(`${what}: every partition answers`, 'ms', performance.now() - startedMs)
    this.#note(`${what}: CPU until then`, 's', cpuSeconds(this.#running.pid))
  }

  async #create(): Promise<void> {
    for (const name of this.#topics) {
      const topics = [{ name, numPartitions: this.#partitions, replicationFactor: 1, assignments: [], configs: [] }]
      const { topics: answers } = await this.#ask((connection) => connection.request('CreateTopics', 5, { topics, timeoutMs: 60_000 }))
      if (answers[0]?.errorCode !== 0) throw new Error(`CreateTopics ${name}: ${answers[0]?.errorCode}`)
    }
  }

  async #ask<T>(work: (connection: RawKafka) => Promise<T>): Promise<T> {
    const connection = await RawKafka.connect(this.#address)
    try {
      return await work(connection)
    } finally {
      connection[Symbol.dispose]()
    }
  }

  /** Tries until it works: connections are refused, and partitions answer errors, until the broker is ready. */
  async #answering(work: () => Promise<unknown>): Promise<void> {
    for (const startedMs = performance.now(); ; await pause(10)) {
      try {
        await work()
        return
      } catch (error) {
        if (performance.now() - startedMs > LIMIT_MS) throw error
      }
    }
  }

  async #writeToAll(): Promise<void> {
    const work: { topic: string; partitions: number[] }[] = []
    for (const topic of this.#topics) {
      for (let from = 0; from < this.#partitions; from += PARTITIONS_PER_REQUEST) {
        const size = Math.min(PARTITIONS_PER_REQUEST, this.#partitions - from)
        work.push({ topic, partitions: Array.from({ length: size }, (_, index) => from + index) })
      }
    }
    const worker = async () => {
      await this.#ask(async (connection) => {
        for (let next = work.shift(); next !== undefined; next = work.shift()) {
          const refused = await this.#produceSome(connection, next.topic, next.partitions)
          if (refused.length === 0) continue
          work.push({ topic: next.topic, partitions: refused })
          await pause(RETRY_MS)
        }
      })
    }
    await Promise.all(Array.from({ length: CONNECTIONS }, worker))
  }

  async #produce(connection: RawKafka, topic: string, partitions: readonly number[]): Promise<void> {
    const refused = await this.#produceSome(connection, topic, partitions)
    if (refused.length > 0) throw new Error(`${refused.length} partitions refuse`)
  }

  /** Returns the partitions that did not take their record. */
  async #produceSome(connection: RawKafka, topic: string, partitions: readonly number[]): Promise<number[]> {
    const batch = () => buildBatch([{ key: null, value: Buffer.alloc(100, 'x'), timestampMs: Date.now() }])
    const partitionData = partitions.map((index) => ({ index, records: batch() }))
    const request = { transactionalId: null, acks: -1, timeoutMs: 30_000, topicData: [{ name: topic, partitionData }] }
    const { responses } = await connection.request('Produce', 7, request)
    return (responses[0]?.partitionResponses ?? []).filter((each) => each.errorCode !== 0).map((each) => each.index)
  }

  async #listAll(connection: RawKafka): Promise<void> {
    const latest = -1
    for (const name of this.#topics) {
      const partitions = Array.from({ length: this.#partitions }, (_, partitionIndex) => ({ partitionIndex, timestamp: latest }))
      const topics = [{ name, partitions: partitions.map((each) => ({ ...each, currentLeaderEpoch: -1 })) }]
      const answer = await connection.request('ListOffsets', 5, { replicaId: -1, isolationLevel: 0, topics })
      for (const partition of answer.topics[0]?.partitions ?? []) {
        if (partition.errorCode !== 0 || partition.offset < 1) throw new Error(`${name}-${partition.partitionIndex} does not answer`)
      }
    }
  }
}

function table(brokers: readonly { readonly name: string; readonly results: readonly Result[] }[]): string {
  const [first, second] = brokers
  const lines = [
    `| | ${brokers.map((each) => each.name).join(' | ')} |${second === undefined ? '' : ' ratio |'}`,
    `| --- |${brokers.map(() => ' ---: |').join('')}${second === undefined ? '' : ' ---: |'}`,
  ]
  for (const { what, unit, value } of first?.results ?? []) {
    const other = second?.results.find((each) => each.what === what)?.value
    const ratio = second === undefined ? '' : other === undefined ? ' |' : ` ${(value / other).toFixed(2)} |`
    lines.push(`| ${what} (${unit}) | ${value} |${second === undefined ? '' : ` ${other ?? ''} |`}${ratio}`)
  }
  return `${lines.join('\n')}\n`
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      kafka: { type: 'boolean', default: false },
      topics: { type: 'string', default: '10' },
      partitions: { type: 'string', default: '1000' },
      node: { type: 'string', multiple: true, default: [] },
    },
  })
  const work = await mkdtemp(join(tmpdir(), 'moonmq-scale-'))
  const port = await freePortPair()
  const address = `127.0.0.1:${port}`
  const tools = process.env['BENCH_TMP'] ?? join(tmpdir(), 'peers')
  const brokers: Broker[] = [new MoonMQ(address, join(work, 'data'), values.node)]
  if (values.kafka) brokers.push(new Kafka(port, resolve(process.env['MOONMQ_PEERS'] ?? '../shared/bench'), tools))
  const measured: { name: string; results: readonly Result[] }[] = []
  try {
    for (const broker of brokers) {
      const results = await new Scale(broker, address, Number(values.topics), Number(values.partitions)).run()
      measured.push({ name: broker.name, results })
    }
    process.stdout.write(table(measured))
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

await main()
