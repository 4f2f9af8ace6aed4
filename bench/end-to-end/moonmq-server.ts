import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { resolve } from 'node:path'
import type { LoadClients } from './load-clients.ts'
import type { Mortal } from './recovery.ts'
import type { Server } from './workloads.ts'

/** The broker of this repository as a process of its own, with its default settings. */
export class MoonMQServer implements Server, Mortal {
  readonly name = 'MoonMQ'
  readonly modes = [{ label: 'fsync before each ack', config: [] }]
  readonly #dataDir: string
  readonly #clients: LoadClients
  #child: ChildProcess | null = null
  #address = ''

  constructor(dataDir: string, clients: LoadClients) {
    this.#dataDir = dataDir
    this.#clients = clients
  }

  async start() {
    await rm(this.#dataDir, { recursive: true, force: true })
    this.#address = `127.0.0.1:${await freePort()}`
    const firstAckMs = await this.restart('first-ack')
    return { address: this.#address, pid: this.#child?.pid ?? 0, firstAckMs }
  }

  async restart(topic: string): Promise<number> {
    const address = this.#address
    const [host = '', port = ''] = address.split(':')
    const first = this.#clients.kraw(['first', host, port, topic, '-S', '240'], 270)
    const bin = resolve('dist/bin/moonmq.cjs')
    const child = spawn(process.execPath, [bin, 'start', '--listen', address, '--http', 'off', '--data', this.#dataDir], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    this.#child = child
    return Number((await first)['ms'])
  }

  async kill(): Promise<void> {
    const child = this.#child
    child?.kill('SIGKILL')
    if (child !== null) await once(child, 'exit')
  }

  async stop(): Promise<void> {
    const child = this.#child
    if (child === null || child.exitCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
    await rm(this.#dataDir, { recursive: true, force: true })
  }
}

export async function freePort(port = 0): Promise<number> {
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** A free port whose successor is free too: a Kafka node listens on both. */
export async function freePortPair(): Promise<number> {
  for (let tries = 0; tries < 20; tries++) {
    const port = await freePort()
    const next = await freePort(port + 1).catch(() => 0)
    if (next === port + 1) return port
  }
  throw new Error('no two free ports in a row')
}
