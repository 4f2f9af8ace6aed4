import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Kafka } from 'kafkajs'
import { kafkaClient } from './kafkajs.ts'
import { run } from './programs.ts'

const TOOL_LIMIT_MS = 3 * 60_000
/** The Java client ends when nothing more came for so long. */
const IDLE_MS = 20_000

/** Apache Kafka 4.4 as one node, broker and controller, in a process of its own. */
export class RealKafka implements AsyncDisposable {
  readonly folder: string
  readonly logs: string
  readonly #libraries: string
  readonly #port: number
  #child: ChildProcess | null = null

  private constructor(folder: string, libraries: string, port: number) {
    this.folder = folder
    this.logs = join(folder, 'logs')
    this.#libraries = libraries
    this.#port = port
  }

  /** A new node in an empty folder, with `more` settings; not started. */
  static async format(folder: string, libraries: string, more: Readonly<Record<string, string>> = {}): Promise<RealKafka> {
    const [port, controller] = [await freePort(), await freePort()]
    mkdirSync(folder, { recursive: true })
    const kafka = new RealKafka(folder, libraries, port)
    writeFileSync(join(folder, 'server.properties'), settings(kafka.logs, port, controller, more))
    const args = ['format', '-t', 'MkU3OEVBNTcwNTJENDM2Qk', '-c', join(folder, 'server.properties')]
    await javaTool(libraries, 'kafka.tools.StorageTool', args)
    return kafka
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`
  }

  get client(): Kafka {
    return kafkaClient(this.address, 'conformance')
  }

  /** Resolves when it answers. */
  async start(): Promise<void> {
    const args = ['-Xmx512m', '-XX:TieredStopAtLevel=1', '-Dlog4j2.level=OFF', '-cp', `${this.#libraries}/*`, 'kafka.Kafka']
    this.#child = spawn('java', [...args, join(this.folder, 'server.properties')], { stdio: 'ignore' })
    const admin = this.client.admin()
    await admin.connect()
    await admin.listTopics()
    await admin.disconnect()
  }

  stop(): Promise<void> {
    return this.#end('SIGTERM')
  }

  kill(): Promise<void> {
    return this.#end('SIGKILL')
  }

  /** The segments of a partition, by name. */
  segments(partition: string): string[] {
    return readdirSync(join(this.logs, partition)).filter((name) => name.endsWith('.log'))
  }

  topicId(partition: string): string {
    return /topic_id: (\S+)/.exec(readFileSync(join(this.logs, partition, 'partition.metadata'), 'utf8'))?.[1] ?? ''
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }
}

function settings(logs: string, port: number, controller: number, more: Readonly<Record<string, string>>): string {
  return [
    'process.roles=broker,controller',
    'node.id=1',
    `controller.quorum.voters=1@127.0.0.1:${controller}`,
    `listeners=PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    `advertised.listeners=PLAINTEXT://127.0.0.1:${port}`,
    'controller.listener.names=CONTROLLER',
    'listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
    `log.dirs=${logs}`,
    'offsets.topic.replication.factor=1',
    'offsets.topic.num.partitions=4',
    'transaction.state.log.replication.factor=1',
    'transaction.state.log.min.isr=1',
    'share.coordinator.state.topic.replication.factor=1',
    'share.coordinator.state.topic.min.isr=1',
    'transaction.state.log.num.partitions=2',
    'group.initial.rebalance.delay.ms=0',
    'auto.create.topics.enable=false',
    'log.cleaner.backoff.ms=300',
    ...Object.entries(more).map(([name, value]) => `${name}=${value}`),
    '',
  ].join('\n')
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Runs one of Kafka's command line tools; what it prints. */
async function javaTool(libraries: string, main: string, args: readonly string[], input = ''): Promise<string> {
  const java = ['-Xshare:auto', '-XX:TieredStopAtLevel=1', '-Dlog4j2.level=OFF', '-cp', `${libraries}/*`, main]
  const { code, stdout, stderr } = await run('java', [...java, ...args], { limitMs: TOOL_LIMIT_MS, input })
  if (code !== 0) throw new Error(`${main} ended with ${code}: ${stdout.slice(-2000)}${stderr.slice(-2000)}`)
  return stdout
}

/** Writes lines `header:value<TAB>key<TAB>value` with Kafka's console producer. */
export async function consoleProduce(
  libraries: string,
  address: string,
  topic: string,
  lines: readonly string[],
  codec: string,
): Promise<void> {
  const properties = ['parse.key=true', 'parse.headers=true', 'null.marker=<null>'].flatMap((each) => ['--reader-property', each])
  const args = ['--bootstrap-server', address, '--topic', topic, '--compression-codec', codec, ...properties]
  await javaTool(libraries, 'org.apache.kafka.tools.ConsoleProducer', args, `${lines.join('\n')}\n`)
}

/** Every record of a topic as Kafka's own Java client reads it, a line each: partition, offset, timestamp, headers, key, value. */
export async function consoleConsume(
  libraries: string,
  address: string,
  topic: string,
  options: { isolation: 'read_committed' | 'read_uncommitted'; count: number },
): Promise<string[]> {
  const properties = ['print.partition', 'print.offset', 'print.timestamp', 'print.headers', 'print.key', 'print.value']
    .map((each) => `${each}=true`)
    .concat('null.literal=<null>')
    .flatMap((each) => ['--formatter-property', each])
  const args = ['--bootstrap-server', address, '--topic', topic, '--from-beginning', '--isolation-level', options.isolation]
  const limits = ['--timeout-ms', String(IDLE_MS), ...(options.count === 0 ? [] : ['--max-messages', String(options.count)])]
  const text = await javaTool(libraries, 'org.apache.kafka.tools.consumer.ConsoleConsumer', [...args, ...limits, ...properties])
  return text.split('\n').filter((line) => line !== '')
}

/** Moves the start of a partition's log up with Kafka's own tool. */
export async function deleteRecords(
  libraries: string,
  kafka: RealKafka,
  place: { topic: string; partition: number; offset: number },
): Promise<void> {
  const file = join(kafka.folder, 'delete-records.json')
  writeFileSync(file, JSON.stringify({ version: 1, partitions: [place] }))
  const args = ['--bootstrap-server', kafka.address, '--offset-json-file', file]
  const out = await javaTool(libraries, 'org.apache.kafka.tools.DeleteRecordsCommand', args)
  if (!out.includes(`low_watermark: ${place.offset}`)) throw new Error(`the records were not deleted: ${out}`)
}

/** Commits offsets for a group without members, with Kafka's own tool. */
export async function commitOffsets(
  libraries: string,
  kafka: RealKafka,
  group: string,
  offsets: readonly { topic: string; partition: number; offset: number }[],
): Promise<void> {
  const file = join(kafka.folder, 'offsets.csv')
  writeFileSync(file, offsets.map(({ topic, partition, offset }) => `${topic},${partition},${offset}\n`).join(''))
  const args = ['--bootstrap-server', kafka.address, '--group', group, '--reset-offsets', '--from-file', file, '--execute']
  await javaTool(libraries, 'org.apache.kafka.tools.consumer.group.ConsumerGroupCommand', args)
}
