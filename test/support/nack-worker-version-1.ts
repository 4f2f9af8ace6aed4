import { appendFileSync, renameSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { decodePayload, encodeFrame, FrameCutter } from '../../src/wire/frame.ts'
import { MAX_REPLY_FRAME_BYTES } from '../../src/wire/limits.ts'
import type { Message } from '../../src/wire/messages.ts'
import { FETCH_BATCHED, type OpName, opName } from '../../src/wire/opcodes.ts'
import { JOBS, lowIn, PULLED } from './nack-jobs.ts'

const EMPTY = Buffer.alloc(0)
const RECORDS = 40

interface Frame {
  readonly op: OpName
  readonly message: Record<string, unknown>
}

/** A connection of version 1 of the protocol: one request at a time. Whatever goes wrong ends it. */
class Plain {
  readonly #socket: Socket
  readonly #frames: AsyncGenerator<Frame>
  #next = 1

  private constructor(socket: Socket) {
    this.#socket = socket
    this.#frames = framesOf(socket)
  }

  static async open(address: string): Promise<Plain> {
    const [host = '', port = ''] = address.split(':')
    const socket = connect({ host, port: Number(port), noDelay: true })
    const plain = new Plain(socket)
    try {
      await plain.ask('HELLO', { version: 1 })
      await plain.ask('AUTH', { username: 'any', password: EMPTY })
    } catch (error) {
      plain.close()
      throw error
    }
    return plain
  }

  /** Everything up to the final answer. */
  async ask<N extends OpName>(op: N, message: Message<N>): Promise<Frame[]> {
    const correlation = Buffer.alloc(16)
    correlation.writeUInt32BE(this.#next++, 12)
    this.#socket.write(encodeFrame(op, correlation, message))
    const frames: Frame[] = []
    for (;;) {
      const { value: frame, done } = await this.#frames.next()
      if (done === true || frame.op === 'ERROR') throw new Error(`no answer to ${op}: ${JSON.stringify(frame?.message)}`)
      if (frame.op === 'HEARTBEAT_REQ') this.#socket.write(encodeFrame('HEARTBEAT_RESP', Buffer.alloc(16), {}))
      else frames.push(frame)
      if (frames.length > 0 && frame.op !== 'RECORD_BATCH' && frame.op !== 'HEARTBEAT_REQ') return frames
    }
  }

  close(): void {
    this.#socket.destroy()
  }
}

async function* framesOf(socket: Socket): AsyncGenerator<Frame> {
  const cutter = new FrameCutter(MAX_REPLY_FRAME_BYTES)
  for await (const bytes of socket) {
    cutter.push(bytes as Buffer)
    for (let frame = cutter.next(); frame !== null; frame = cutter.next()) {
      const op = opName(frame.opcode)
      if (op === undefined) throw new Error(`opcode ${frame.opcode}`)
      yield { op, message: decodePayload(op, frame.payload) as Record<string, unknown> }
    }
  }
}

interface Pulled {
  readonly partition: number
  readonly offset: number
  readonly value: Buffer
}

/**
 * Version 1 commits what it delivers, so a worker that may be killed keeps its own account in a file: below it, by partition, everything is
 * processed or dead. It tells its group to begin there, reads in batches, and refuses everything that is bad in one.
 */
class Puller {
  readonly #path: string
  readonly #plain: Plain
  readonly #low: number[]
  #round = 0

  private constructor(path: string, plain: Plain, low: number[]) {
    this.#path = path
    this.#plain = plain
    this.#low = low
  }

  static async open(address: string, path: string): Promise<Puller> {
    const low = lowIn(path)
    const first = await Plain.open(address)
    try {
      await first.ask('FETCH', { topic: JOBS.topic, group: PULLED.group, maxRecords: 0, isolation: 0, flags: FETCH_BATCHED })
      for (const [partition, offset] of low.entries()) await first.ask('COMMIT', { topic: JOBS.topic, partition, offset })
    } finally {
      first.close()
    }
    return new Puller(path, await Plain.open(address), low)
  }

  async run(): Promise<never> {
    try {
      for (;;) await this.#batch()
    } finally {
      this.#plain.close()
    }
  }

  async #batch(): Promise<void> {
    const message = { topic: JOBS.topic, group: PULLED.group, maxRecords: RECORDS, isolation: 0, flags: FETCH_BATCHED }
    const frames = await this.#plain.ask('FETCH', message)
    const records = frames.flatMap(({ message }) => (message['records'] ?? []) as Pulled[])
    if (records.length === 0) await pause(50)
    const isFirst = this.#round++ === 0
    const ends = new Map<number, number>()
    for (const { partition, offset } of records) {
      if (!ends.has(partition) && offset > (this.#low[partition] ?? 0)) {
        // On its first round somebody else's last commit may have come between; later on nothing may be passed.
        if (!isFirst) appendFileSync(`${this.#path}.skipped`, `${partition}: ${this.#low[partition]} to ${offset}\n`)
        throw new Error('begins behind what is not done')
      }
      ends.set(partition, offset + 1)
    }
    await this.#process(records, ends)
    for (const [partition, end] of ends) this.#low[partition] = end
    writeFileSync(`${this.#path}.new`, JSON.stringify(this.#low))
    renameSync(`${this.#path}.new`, this.#path)
  }

  async #process(records: readonly Pulled[], ends: Map<number, number>): Promise<void> {
    const good = records.filter(({ value }) => !String(value).startsWith('bad'))
    const bad = records.filter(({ value }) => String(value).startsWith('bad'))
    if (good.length > 0) {
      const some = good.map(({ value }) => ({ key: EMPTY, value }))
      const [answer] = await this.#plain.ask('PRODUCE_BATCH', { flags: 0, codec: 0, topic: PULLED.done, records: some })
      if (answer?.message['errorCode'] !== 0) throw new Error('not produced')
    }
    // One way and the other.
    for (const { partition, offset, value } of this.#round % 2 === 0 ? bad : bad.reverse()) {
      const [answer] = await this.#plain.ask('NACK', { topic: JOBS.topic, partition, offset, reason: `cannot process ${value}` })
      if (answer?.message['deadLettered'] === 0) ends.set(partition, Math.min(ends.get(partition) ?? offset, offset))
    }
  }
}

const [address, path] = process.argv.slice(2)
for (; address !== undefined && path !== undefined; ) {
  try {
    const puller = await Puller.open(address, path)
    await puller.run()
  } catch {
    // The broker was killed: the loop begins again, from where its account says.
    await pause(50)
  }
}
