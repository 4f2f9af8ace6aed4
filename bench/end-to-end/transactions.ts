import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from '../../src/client/index.ts'
import type { Client, RecordToSend } from '../../src/client/types.ts'
import { freePort } from './moonmq-server.ts'
import { median } from './report.ts'

/**
 * What promises cost: `node dist/bench/end-to-end/transactions.js [seconds] [rounds]`. One client sends 1 to 1,000 records at a time over one
 * partition and ten, and waits: as at least once, idempotent, and each time in a transaction. Then how long readers with read committed and
 * a writer of the same name stand still when the broker dies after the decision and before the first marker, by the time that it is away.
 */
const COUNTS = [1, 10, 100, 1000] as const
const PARTITIONS = [1, 10] as const
const AWAY_MS = [0, 1000, 3000] as const
const VALUE = Buffer.alloc(100, 'x')
const MODES = ['at least once', 'idempotent', 'transactional'] as const
type Mode = (typeof MODES)[number]

interface Sample {
  readonly recordsPerSecond: number
  readonly latencyMs: number
}

class Broker {
  readonly #folder: string
  readonly address: string
  #child: ChildProcess | null = null

  constructor(folder: string, address: string) {
    this.#folder = folder
    this.address = address
  }

  async start(failpoint = ''): Promise<Client> {
    const args = ['start', '--listen', this.address, '--http', 'off', '--data', join(this.#folder, 'data')]
    this.#child = spawn(process.execPath, [resolve('dist/bin/moonmq.cjs'), ...args], {
      stdio: ['ignore', 'ignore', 'ignore'],
      env: failpoint === '' ? process.env : { ...process.env, MOONMQ_FAILPOINT: failpoint },
    })
    for (let tries = 0; ; tries++) {
      try {
        return await connect({ address: this.address, timeoutMs: 60_000 })
      } catch (error) {
        if (tries > 400) throw error
        await pause(25)
      }
    }
  }

  /** Resolves when it has died by itself. */
  async died(): Promise<void> {
    const child = this.#child
    if (child !== null && child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  }

  async stop(): Promise<void> {
    this.#child?.kill('SIGTERM')
    await this.died()
  }
}

async function measure(client: Client, mode: Mode, partitions: number, count: number, seconds: number): Promise<Sample> {
  const topic = `t-${partitions}`
  const records = Array.from({ length: count }, (_, index): RecordToSend => ({ partition: index % partitions, value: VALUE }))
  const plain = client.producer({ idempotent: mode === 'idempotent' })
  await using named = await client.transactionalProducer('bench')
  const send = () =>
    mode === 'transactional' ? named.transaction(async (tx) => void (await tx.sendMany(topic, records))) : plain.sendMany(topic, records)
  for (let warm = 0; warm < 20; warm++) await send()
  const latencies: number[] = []
  const startMs = performance.now()
  const endMs = startMs + seconds * 1000
  let nowMs = startMs
  while (nowMs < endMs) {
    await send()
    const doneMs = performance.now()
    latencies.push(doneMs - nowMs)
    nowMs = doneMs
  }
  await plain.close()
  return { recordsPerSecond: (latencies.length * count * 1000) / (nowMs - startMs), latencyMs: median(latencies) }
}

function out(text: string): void {
  process.stdout.write(`${text}\n`)
}

async function costs(client: Client, seconds: number, rounds: number): Promise<void> {
  for (const partitions of PARTITIONS) await client.admin.createTopic(`t-${partitions}`, { partitions })
  for (const partitions of PARTITIONS) {
    out(
      `| ${partitions === 1 ? 'one partition' : `${partitions} partitions`}, records at a time | way | records/s | median ms | records/s, times less | ms, times more |`,
    )
    out('| --- | --- | --- | --- | --- | --- |')
    for (const count of COUNTS) {
      const samples = new Map<Mode, Sample[]>(MODES.map((mode) => [mode, []]))
      for (let round = 0; round < rounds; round++) {
        for (const mode of MODES) samples.get(mode)?.push(await measure(client, mode, partitions, count, seconds))
      }
      const of = (mode: Mode) => ({
        rate: median((samples.get(mode) ?? []).map((sample) => sample.recordsPerSecond)),
        ms: median((samples.get(mode) ?? []).map((sample) => sample.latencyMs)),
      })
      const base = of('at least once')
      for (const mode of MODES) {
        const { rate, ms } = of(mode)
        const cells = [
          count,
          mode,
          Math.round(rate).toLocaleString('en-US'),
          ms.toFixed(2),
          (base.rate / rate).toFixed(2),
          (ms / base.ms).toFixed(2),
        ]
        out(`| ${cells.join(' | ')} |`)
      }
    }
    out('')
  }
}

/** From the death of the broker on. */
async function standstill(broker: Broker, awayMs: number): Promise<{ readonly readerMs: number; readonly writerMs: number }> {
  const client = await broker.start('txn.decided:kill')
  const topic = `still-${awayMs}`
  await client.admin.createTopic(topic, { partitions: 1 })
  const producer = await client.transactionalProducer(topic)
  const reading = (async () => {
    for await (const { value } of client.reader({ topic, follow: true, isolation: 'read_committed' }))
      if (value !== null) return performance.now()
    return Number.NaN
  })()
  const writing = producer.transaction(async (tx) => void (await tx.send(topic, { value: 'x' }))).then(() => performance.now())
  await broker.died()
  const diedMs = performance.now()
  await pause(awayMs)
  const next = await broker.start()
  const [readMs, wroteMs] = await Promise.all([reading, writing])
  await client.close()
  await next.close()
  await broker.stop()
  return { readerMs: readMs - diedMs, writerMs: wroteMs - diedMs }
}

async function main(seconds: number, rounds: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-transactions-'))
  const broker = new Broker(folder, `127.0.0.1:${await freePort()}`)
  try {
    out(`records of ${VALUE.length} bytes, acks leader, one client that waits; medians of ${rounds} rounds of ${seconds} s\n`)
    const client = await broker.start()
    await costs(client, seconds, rounds)
    await client.close()
    await broker.stop()
    out('| broker away before it is started again, ms | reader with read committed stands still, ms | writer of the name, ms |')
    out('| --- | --- | --- |')
    for (const awayMs of AWAY_MS) {
      const { readerMs, writerMs } = await standstill(broker, awayMs)
      out(`| ${awayMs} | ${Math.round(readerMs)} | ${Math.round(writerMs)} |`)
    }
  } finally {
    await broker.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

await main(Number(process.argv[2] ?? '2'), Number(process.argv[3] ?? '3'))
