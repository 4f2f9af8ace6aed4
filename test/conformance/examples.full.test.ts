import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { kafkaLibraries } from '../support/kafka-dump.ts'
import { kafkaClient } from '../support/kafkajs.ts'
import { exists, hasProgram, laneFolder, run } from '../support/programs.ts'
import { inRoot } from '../support/root.ts'

/** The examples of docs/EXAMPLES.md: programs of others, unchanged but for the address. */

const skip = hasProgram('java') && hasProgram('mvn') ? false : 'java and mvn are not installed'
const WAIT_MS = 3 * 60_000
const INSTALL_LIMIT_MS = 5 * 60_000

function libraries(): Promise<string> {
  return kafkaLibraries(inRoot('examples', 'pom.xml'), 'kafka-examples-4.3.1')
}

/** A copy of an example's file with the broker's address in it. */
function withAddress(folder: string, example: string, file: string, address: string): string {
  const text = readFileSync(inRoot('examples', example, file), 'utf8')
  writeFileSync(join(folder, file), text.replace('127.0.0.1:9092', address))
  return join(folder, file)
}

class JavaProgram implements AsyncDisposable {
  readonly #child: ChildProcess
  #said = ''

  constructor(classes: string, cwd: string, args: readonly string[]) {
    this.#child = spawn('java', ['-Xmx300m', '-XX:TieredStopAtLevel=1', '-cp', `${classes}/*`, ...args], { cwd })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#said = (this.#said + text).slice(-16 * 1024)
      })
    }
  }

  /** Resolves when it comes true; rejects with what the program said when it does not in time. */
  async until(what: string, isTrue: () => boolean): Promise<void> {
    const late = AbortSignal.timeout(WAIT_MS)
    while (!isTrue()) {
      if (late.aborted || this.#child.exitCode !== null) throw new Error(`${what}: it did not come to that\n${this.#said}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await ended
  }
}

test('Kafka Connect standalone: lines of a file go through a topic into another file, and on after a restart', { skip }, async () => {
  const classes = await libraries()
  const folder = mkdtempSync(join(tmpdir(), 'moonmq-connect-'))
  await using broker = await BrokerProcess.start()
  const files = ['worker', 'source', 'sink'].map((name) => withAddress(folder, 'kafka-connect', `${name}.properties`, broker.address))
  appendFileSync(files[0] as string, 'listeners=http://127.0.0.1:0\n')
  const args = ['org.apache.kafka.connect.cli.ConnectStandalone', ...files]
  const out = join(folder, 'out.txt')
  const written = () => (exists(out) ? readFileSync(out, 'utf8') : '')
  writeFileSync(join(folder, 'in.txt'), 'first line\nsecond line\n')
  {
    await using worker = new JavaProgram(classes, folder, args)
    await worker.until('two lines', () => written() === 'first line\nsecond line\n')
  }
  appendFileSync(join(folder, 'in.txt'), 'third line\n')
  {
    await using worker = new JavaProgram(classes, folder, args)
    await worker.until('a line after a restart', () => written() === 'first line\nsecond line\nthird line\n')
  }
})

test('Kafka Streams word count: counts of the words that were written', { skip }, async () => {
  const classes = await libraries()
  const folder = mkdtempSync(join(tmpdir(), 'moonmq-streams-'))
  await using broker = await BrokerProcess.start()
  const kafka = kafkaClient(broker.address, 'words')
  const [admin, producer] = [kafka.admin(), kafka.producer()]
  await admin.connect()
  await producer.connect()
  await admin.createTopics({ topics: [{ topic: 'streams-plaintext-input' }, { topic: 'streams-wordcount-output' }] })
  const consumer = kafka.consumer({ groupId: 'readers', maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic: 'streams-wordcount-output', fromBeginning: true })
  const counts = new Map<string, bigint>()
  await consumer.run({
    eachMessage: async ({ message }) => {
      counts.set(String(message.key), message.value?.readBigInt64BE() ?? 0n)
    },
  })
  {
    const settings = withAddress(folder, 'kafka-streams', 'streams.properties', broker.address)
    appendFileSync(settings, `state.dir=${join(folder, 'state')}\n`)
    await using demo = new JavaProgram(classes, folder, ['org.apache.kafka.streams.examples.wordcount.WordCountDemo', settings])
    const messages = ['all streams lead to kafka', 'hello kafka streams'].map((value) => ({ value }))
    await producer.send({ topic: 'streams-plaintext-input', messages })
    await demo.until('two of kafka and of streams', () => counts.get('kafka') === 2n && counts.get('streams') === 2n)
  }
  assert.equal(counts.get('hello'), 1n)
  await consumer.disconnect()
  await producer.disconnect()
  await admin.disconnect()
})

test('NestJS: a request and its answer, and events', { skip: hasProgram('npm') ? false : 'npm is not installed' }, async (t) => {
  const folder = laneFolder('nestjs')
  for (const file of ['package.json', 'tsconfig.json', 'main.ts']) copyFileSync(inRoot('examples', 'nestjs', file), join(folder, file))
  const installed = await run('npm', ['install', '--no-audit', '--no-fund'], { limitMs: INSTALL_LIMIT_MS, cwd: folder })
  if (installed.code !== 0) {
    t.skip(`NestJS could not be installed: ${installed.stderr.slice(-500)}`)
    return
  }
  await using broker = await BrokerProcess.start()
  const env = { BROKER: broker.address }
  const { code, stdout, stderr } = await run('npm', ['start'], { limitMs: 3 * 60_000, cwd: folder, env })
  assert.equal(code, 0, `${stdout}${stderr}\nthe broker said:\n${broker.log.slice(-4000)}`)
  assert.match(stdout, /^answer \{"id":1,"withTax":125\}$/m)
  assert.match(stdout, /^shipped 1 2 3 4 5 6 7 8 9 10$/m)
})
