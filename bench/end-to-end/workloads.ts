import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { LoadClients, LoadResult } from './load-clients.ts'
import type { Measured } from './report.ts'

/** A broker under load. `start` begins with an empty data folder. */
export interface Server {
  readonly name: string
  /** Milliseconds from the start of the process to the first acknowledged record. */
  start(): Promise<{ address: string; pid: number; firstAckMs: number }>
  stop(): Promise<void>
  /** Topic settings under which each workload runs, each shown as a column of its own. */
  readonly modes: readonly { readonly label: string; readonly config: readonly string[] }[]
}

interface Run {
  readonly clients: LoadClients
  readonly address: string
  readonly pid: number
  readonly topic: string
  readonly seconds: number
}

interface Workload {
  readonly unit: string
  /** Whether a larger number is better; decides how the ratio is taken. */
  readonly higherIsBetter: boolean
  readonly run: (run: Run) => Promise<number>
}

const PARTITIONS = 4
const RECORD_BYTES = 1024
const CONSUMED_RECORDS = 600_000
const COPIED_RECORDS = 30_000
const SHARED_RECORDS = 50_000

/** What is measured. Each run gets a fresh topic of four partitions. */
export const WORKLOADS: Readonly<Record<string, Workload>> = {
  'bulk-produce': {
    unit: 'MB/s, 1 KiB records, librdkafka, acks=all',
    higherIsBetter: true,
    run: async (r) =>
      number(
        await r.clients.kload(
          [
            'produce',
            '-b',
            r.address,
            '-t',
            r.topic,
            '-s',
            `${RECORD_BYTES}`,
            '-S',
            `${r.seconds}`,
            '-l',
            '5',
            '-B',
            '131072',
            '-a',
            '-1',
            '-p',
            `${r.pid}`,
          ],
          r.seconds + 90,
        ),
        'MB_s',
      ),
  },
  'bulk-produce-raw': {
    unit: 'MB/s, 120 KiB batches, raw client, 4 connections × 4 in flight',
    higherIsBetter: true,
    run: async (r) => number(await raw(r, ['-c', '4', '-k', '120', '-d', '4']), 'MB_s'),
  },
  'bulk-consume': {
    unit: 'MB/s, 1 KiB records, librdkafka, from the beginning',
    higherIsBetter: true,
    run: async (r) => {
      await r.clients.kload(
        ['produce', '-b', r.address, '-t', r.topic, '-s', `${RECORD_BYTES}`, '-n', `${CONSUMED_RECORDS}`, '-S', '60', '-p', `${r.pid}`],
        150,
      )
      const consumed = await r.clients.kload(
        ['consume', '-b', r.address, '-t', r.topic, '-P', `${PARTITIONS}`, '-S', '40', '-p', `${r.pid}`],
        90,
      )
      if (number(consumed, 'records') < CONSUMED_RECORDS) throw new Error(`consumed only ${consumed['records']} records`)
      return number(consumed, 'MB_s')
    },
  },
  'durable-1': {
    unit: 'acks/s, one 1 KiB record a request, 1 connection',
    higherIsBetter: true,
    run: async (r) => number(await raw(r, ['-c', '1', '-k', '1', '-d', '1']), 'acks_s'),
  },
  'durable-64': {
    unit: 'acks/s, one 1 KiB record a request, 64 connections',
    higherIsBetter: true,
    run: async (r) => number(await raw(r, ['-c', '64', '-k', '1', '-d', '1']), 'acks_s'),
  },
  'latency-p50': {
    unit: 'ms, produce to consume at 1,000 records/s',
    higherIsBetter: false,
    run: async (r) => {
      const args = [
        'latency',
        '-b',
        r.address,
        '-t',
        r.topic,
        '-P',
        `${PARTITIONS}`,
        '-s',
        `${RECORD_BYTES}`,
        '-r',
        '1000',
        '-S',
        `${r.seconds}`,
        '-l',
        '0',
        '-p',
        `${r.pid}`,
      ]
      return number(await r.clients.kload(args, r.seconds + 60), 'p50_ms')
    },
  },
  'transactional-produce': {
    unit: 'transactions/s, 100 records of 1 KiB each, Java client, one producer',
    higherIsBetter: true,
    run: async (r) => number(await java(r, 'transactions'), 'transactions_s'),
  },
  'exactly-once-copy': {
    unit: 'records/s, 1 KiB, Java client: read committed, write and commit in one transaction a poll',
    higherIsBetter: true,
    run: async (r) => number(await java(r, 'copy', `${COPIED_RECORDS}`), 'records_s'),
  },
  'group-join': {
    unit: 'ms until 10 members that start together share 40 partitions, Java client, classic protocol',
    higherIsBetter: false,
    run: async (r) => number(await java(r, 'join', 'classic'), 'stable_ms'),
  },
  'group-join-848': {
    unit: 'ms, the same with the consumer protocol (KIP-848)',
    higherIsBetter: false,
    run: async (r) => number(await java(r, 'join', 'consumer'), 'stable_ms'),
  },
  'group-commits': {
    unit: 'commits/s, 10 members with 4 partitions each, every commit awaited, Java client',
    higherIsBetter: true,
    run: async (r) => number(await java(r, 'commits', 'classic'), 'commits_s'),
  },
  share: {
    unit: 'records/s, 1 KiB, a share group of two members, Java client',
    higherIsBetter: true,
    run: async (r) => number(await java(r, 'share', `${SHARED_RECORDS}`), 'records_s'),
  },
  'first-ack': { unit: 'ms, process start to first acknowledged record', higherIsBetter: false, run: async () => Number.NaN },
  'idle-rss': { unit: 'MB, resident memory three seconds after start', higherIsBetter: false, run: async () => Number.NaN },
}

/** Starts the server, runs the named workloads in each of its modes, stops it. */
export async function runWorkloads(server: Server, names: readonly string[], clients: LoadClients, seconds: number): Promise<Measured[]> {
  const measured: Measured[] = []
  const add = (workload: string, mode: string, value: number) => {
    const { unit, higherIsBetter } = WORKLOADS[workload] as Workload
    process.stderr.write(`  ${server.name}${mode === '' ? '' : ` (${mode})`} ${workload}: ${value} ${unit}\n`)
    measured.push({ workload, unit, higherIsBetter, server: server.name, mode, value })
  }
  const { address, pid, firstAckMs } = await server.start()
  try {
    if (names.includes('first-ack')) add('first-ack', '', firstAckMs)
    if (names.includes('idle-rss')) {
      await pause(3000)
      add('idle-rss', '', await residentMb(pid))
    }
    for (const name of names) {
      if (name === 'first-ack' || name === 'idle-rss') continue
      for (const mode of server.modes) {
        const topic = `bench-${name}-${mode.label.replace(/\W/g, '-')}-${process.hrtime.bigint()}`
        const config = mode.config.flatMap((setting) => ['-C', setting])
        await clients.kload(['create', '-b', address, '-t', topic, '-P', `${PARTITIONS}`, ...config], 60)
        await pause(1000)
        add(name, mode.label, await (WORKLOADS[name] as Workload).run({ clients, address, pid, topic, seconds }))
      }
    }
    return measured
  } finally {
    await server.stop()
  }
}

function raw(r: Run, args: readonly string[]): Promise<LoadResult> {
  const [host = '', port = ''] = r.address.split(':')
  return r.clients.kraw(
    ['sync', host, port, r.topic, `${PARTITIONS}`, '-s', `${RECORD_BYTES}`, '-S', `${r.seconds}`, '-p', `${r.pid}`, ...args],
    r.seconds + 60,
  )
}

function java(r: Run, what: string, ...args: string[]): Promise<LoadResult> {
  return r.clients.java([what, r.address, r.topic, `${r.seconds}`, ...args], r.seconds + 120)
}

function number(result: LoadResult, field: string): number {
  const value = result[field]
  if (typeof value !== 'number') throw new Error(`no ${field} in ${JSON.stringify(result)}`)
  return value
}

async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
}
