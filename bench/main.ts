import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type LoadClients, prepareLoadClients } from './end-to-end/load-clients.ts'
import { MoonMQServer } from './end-to-end/moonmq-server.ts'
import { type Mortal, measureRecovery } from './end-to-end/recovery.ts'
import { type Measured, markdownTable } from './end-to-end/report.ts'
import { runWorkloads, type Server, WORKLOADS } from './end-to-end/workloads.ts'
import { KafkaRival } from './rivals/kafka.ts'

const USAGE = `usage: npm run bench -- [storage [PART] | broker | batching | push | transactions | cold | recovery | NAME ...] [--kafka] [--reps N] [--seconds N]

  storage [PART]   the log alone, without a server; PART: small, bulk, many, fresh, device (default: all)
  batching         400 records sent one by one and in batches through both doors, with the syncs of each
  push             from send to the consumer's loop at 1,000 records/s: the native stream beside the Kafka door's long poll
  transactions     at least once, idempotent and transactional, as ratios; the standstill when the broker dies after a decision
  cold             what readers of old records cost a consumer of the newest (a broker, 2 GB of disk, no load clients)
  recovery         the first acknowledged record after kill -9 with 2 GB of log
  NAME             one of: ${Object.keys(WORKLOADS).join(', ')} (default: all)
  --kafka          measure Apache Kafka 4.4 in the same session, alternating with MoonMQ
  --reps N         rounds; medians are shown (default 3)
  --seconds N      length of each timed run (default 8)

The load clients are C programs of the folder MOONMQ_PEERS (default ../shared/bench). gcc and librdkafka-dev build them; --kafka, transactions, copies
and groups need Java 17 as well, and Maven the first time. Load goes to 127.0.0.1 only.`

/** Benchmarks that are programs of their own and need no load clients, with their arguments. */
const PROGRAMS: Record<string, (seconds: string, rounds: string, parts: readonly string[]) => string[]> = {
  storage: (seconds, _rounds, parts) => ['dist/bench/storage/main.js', seconds, ...parts],
  broker: (seconds, _rounds, parts) => ['dist/bench/broker/main.js', seconds, ...parts],
  batching: (_seconds, rounds) => ['dist/bench/end-to-end/batching.js', rounds],
  push: (seconds) => ['dist/bench/end-to-end/push-latency.js', seconds],
  transactions: (seconds, rounds) => ['dist/bench/end-to-end/transactions.js', seconds, rounds],
  cold: (seconds, rounds) => ['dist/bench/end-to-end/cold-readers.js', seconds, rounds],
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      kafka: { type: 'boolean', default: false },
      reps: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '8' },
      help: { type: 'boolean', default: false },
    },
  })
  const isProgram = (positionals[0] ?? '') in PROGRAMS
  const unknown = isProgram ? undefined : positionals.find((name) => !(name in WORKLOADS) && name !== 'recovery')
  if (values.help || unknown !== undefined) {
    process.stdout.write(`${unknown === undefined ? '' : `there is no benchmark "${unknown}"\n\n`}${USAGE}\n`)
    return unknown === undefined ? 0 : 2
  }
  const program = PROGRAMS[positionals[0] ?? '']
  if (program !== undefined) {
    const args = program(values.seconds, values.reps, positionals.slice(1))
    // As many threads as the command has.
    const env = { UV_THREADPOOL_SIZE: '16', ...process.env }
    const { status, signal, error } = spawnSync(process.execPath, args, { stdio: 'inherit', env })
    // It says by itself what it failed with, but not who ended it.
    if (status === null) process.stderr.write(`${args[0]} was ended: ${error?.message ?? signal}\n`)
    return status ?? 1
  }

  const peers = resolve(process.env['MOONMQ_PEERS'] ?? '../shared/bench')
  if (!existsSync(join(peers, 'kraw.c'))) {
    process.stderr.write(`the load clients are missing: ${join(peers, 'kraw.c')} does not exist; set MOONMQ_PEERS to their folder\n`)
    return 2
  }
  const work = await mkdtemp(join(tmpdir(), 'moonmq-bench-'))
  const tools = process.env['BENCH_TMP'] ?? join(tmpdir(), 'peers')
  await mkdir(tools, { recursive: true })
  try {
    const clients = prepareLoadClients(peers, tools)
    const names = positionals.length > 0 ? positionals : Object.keys(WORKLOADS)
    const rounds = Number(values.reps)
    const results: Measured[] = []
    for (let round = 1; round <= rounds; round++) {
      for (const server of servers(work, clients, peers, tools, values.kafka)) {
        process.stderr.write(`round ${round} of ${rounds}: ${server.name}\n`)
        if (names.includes('recovery')) {
          results.push(await measureRecovery(server, clients))
          if (names.length === 1) continue
        }
        results.push(
          ...(await runWorkloads(
            server,
            names.filter((name) => name !== 'recovery'),
            clients,
            Number(values.seconds),
          )),
        )
      }
    }
    process.stdout.write(markdownTable(results))
    return 0
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

function servers(work: string, clients: LoadClients, peers: string, tools: string, kafka: boolean): (Server & Mortal)[] {
  const list: (Server & Mortal)[] = [new MoonMQServer(join(work, 'moonmq'), clients)]
  if (kafka) list.push(new KafkaRival(peers, tools, clients))
  return list
}

process.exitCode = await main()
