import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { LoadClients } from '../end-to-end/load-clients.ts'
import { freePortPair } from '../end-to-end/moonmq-server.ts'
import type { Mortal } from '../end-to-end/recovery.ts'
import type { Server } from '../end-to-end/workloads.ts'

/** Apache Kafka 4.4, one KRaft node, started by the scripts of the peers' folder; with an fsync for each request and without. */
export class KafkaRival implements Server, Mortal {
  readonly name = 'Kafka'
  readonly modes = [
    { label: 'flush.messages=1', config: ['flush.messages=1'] },
    { label: 'page cache', config: [] },
  ]
  readonly #peers: string
  readonly #tools: string
  readonly #clients: LoadClients
  #pid = 0
  #port = 0

  constructor(peers: string, tools: string, clients: LoadClients) {
    this.#peers = peers
    this.#tools = tools
    this.#clients = clients
  }

  async start() {
    this.#port = await freePortPair()
    const firstAckMs = await this.#run('fresh', 'first-ack')
    return { address: `127.0.0.1:${this.#port}`, pid: this.#pid, firstAckMs }
  }

  restart(topic: string): Promise<number> {
    return this.#run('keep', topic)
  }

  async #run(how: 'fresh' | 'keep', topic: string): Promise<number> {
    const env = { ...process.env, BENCH_TMP: this.#tools, PORT: `${this.#port}` }
    if (!existsSync(join(this.#tools, 'kafka', 'libs'))) {
      execFileSync('bash', [join(this.#peers, 'setup.sh'), 'kafka'], { env, stdio: ['ignore', 'ignore', 'inherit'], timeout: 600_000 })
    }
    const printed = execFileSync('bash', [join(this.#peers, 'kafka-start.sh'), how, join(this.#tools, 'data', 'kafka')], {
      env,
      encoding: 'utf8',
      timeout: 120_000,
    })
    this.#pid = Number(printed.trim().split('\n').at(-1))
    // The controller takes the next port. A start that fails leaves nothing behind.
    const first = await this.#clients.kraw(['first', '127.0.0.1', env.PORT, topic, '-S', '240'], 270).catch(async (error: unknown) => {
      await this.stop()
      throw error
    })
    return Number(first['ms'])
  }

  async kill(): Promise<void> {
    process.kill(this.#pid, 'SIGKILL')
    await this.#gone(100)
  }

  async stop(): Promise<void> {
    if (!this.#isThere()) return
    process.kill(this.#pid, 'SIGTERM')
    if (!(await this.#gone(600))) process.kill(this.#pid, 'SIGKILL')
  }

  async #gone(tenths: number): Promise<boolean> {
    for (let waited = 0; waited < tenths && this.#isThere(); waited++) await pause(100)
    return !this.#isThere()
  }

  #isThere(): boolean {
    try {
      process.kill(this.#pid, 0)
      return true
    } catch {
      return false
    }
  }
}
