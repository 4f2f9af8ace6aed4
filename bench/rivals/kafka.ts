import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { LoadClients } from '../end-to-end/load-clients.ts'
import { freePortPair } from '../end-to-end/moonmq-server.ts'
import type { Server } from '../end-to-end/workloads.ts'

/** Apache Kafka 4.4, one KRaft node, started by the scripts of the peers' folder; with an fsync for each request and without. */
export class KafkaRival implements Server {
  readonly name = 'Kafka'
  readonly modes = [
    { label: 'flush.messages=1', config: ['flush.messages=1'] },
    { label: 'page cache', config: [] },
  ]
  readonly #peers: string
  readonly #tools: string
  readonly #clients: LoadClients
  #pid = 0

  constructor(peers: string, tools: string, clients: LoadClients) {
    this.#peers = peers
    this.#tools = tools
    this.#clients = clients
  }

  async start() {
    const env = { ...process.env, BENCH_TMP: this.#tools, PORT: `${await freePortPair()}` }
    if (!existsSync(join(this.#tools, 'kafka', 'libs'))) {
      execFileSync('bash', [join(this.#peers, 'setup.sh'), 'kafka'], { env, stdio: ['ignore', 'ignore', 'inherit'], timeout: 600_000 })
    }
    const printed = execFileSync('bash', [join(this.#peers, 'kafka-start.sh'), 'fresh', join(this.#tools, 'data', 'kafka')], {
      env,
      encoding: 'utf8',
      timeout: 120_000,
    })
    this.#pid = Number(printed.trim().split('\n').at(-1))
    // The controller takes the next port. A start that fails leaves nothing behind.
    const first = await this.#clients.kraw(['first', '127.0.0.1', env.PORT, 'first-ack', '-S', '60'], 90).catch(async (error: unknown) => {
      await this.stop()
      throw error
    })
    return { address: `127.0.0.1:${env.PORT}`, pid: this.#pid, firstAckMs: Number(first['ms']) }
  }

  async stop(): Promise<void> {
    process.kill(this.#pid, 'SIGTERM')
    for (let waited = 0; waited < 600; waited++) {
      try {
        process.kill(this.#pid, 0)
      } catch {
        return
      }
      await pause(100)
    }
    process.kill(this.#pid, 'SIGKILL')
  }
}
