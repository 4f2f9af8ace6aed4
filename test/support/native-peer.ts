import { connect } from '../../src/client/index.ts'
import type { Client, ClientOptions } from '../../src/client/types.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { NativeDoor } from '../../src/native/listener.ts'
import { DEFAULT_NATIVE_DOOR } from '../../src/native/options.ts'
import { decodePayload, encodeFrame, FrameCutter } from '../../src/wire/frame.ts'
import { MAX_REPLY_FRAME_BYTES } from '../../src/wire/limits.ts'
import type { Message } from '../../src/wire/messages.ts'
import { FEATURE_EXTENSION, type OpName, opName } from '../../src/wire/opcodes.ts'
import { type DiskBroker, type DiskBrokerOptions, diskBroker } from './disk-broker.ts'
import { FakeSocket } from './fake-socket.ts'
import { LeapingClock } from './leaping-clock.ts'

export interface Answer {
  readonly op: OpName
  /** 0 unless it is an ERROR. */
  readonly code: number
  readonly message: Record<string, unknown>
}

/** The native door over the real broker and its logs, on a disk in memory and a clock that the test may put forward. */
export class NativeBroker {
  readonly running: DiskBroker
  readonly clock: LeapingClock
  readonly #door: NativeDoor
  #next = 0

  private constructor(running: DiskBroker, clock: LeapingClock) {
    this.running = running
    this.clock = clock
    const deps = { broker: running.broker, clock, random: new SeededRandom(7), log: SILENT, metrics: NO_METRICS }
    // The clock may leap: nobody is dropped for silence.
    this.#door = new NativeDoor(deps, { ...DEFAULT_NATIVE_DOOR, heartbeatIntervalMs: 1e12 })
  }

  static async open(...[disk, settings, failpoint, options]: Parameters<typeof diskBroker>): Promise<NativeBroker> {
    const clock = new LeapingClock()
    const all: DiskBrokerOptions = { ...options, clock }
    return new NativeBroker(await diskBroker(disk, settings, failpoint, all), clock)
  }

  get broker(): DiskBroker['broker'] {
    return this.running.broker
  }

  /** A connection that is logged in. */
  async connect(features = 0): Promise<NativePeer> {
    const socket = new FakeSocket()
    const peer = new NativePeer(socket)
    this.#door.accept(socket, Buffer.alloc(0), { id: ++this.#next, listener: 'main', advertised: null, loggedIn() {} })
    await peer.call('HELLO', { version: 1 })
    if (features !== 0) await peer.call('IDENTIFY_CLIENT', { name: 'test', version: '1', features })
    await peer.call('AUTH', { username: 'any', password: Buffer.alloc(0) })
    return peer
  }

  /** A client of it, over a network in memory. */
  async client(options: Partial<ClientOptions> = {}): Promise<{ client: Client; net: VirtualNet }> {
    const net = new VirtualNet({ clock: this.clock })
    await net.listen({ host: 'broker', port: 9092 }, (connection) =>
      this.#door.accept(connection, Buffer.alloc(0), { id: ++this.#next, listener: 'main', advertised: null, loggedIn() {} }),
    )
    return { client: await connect({ address: 'broker:9092', net, clock: this.clock, ...options }), net }
  }

  extended(): Promise<NativePeer> {
    return this.connect(FEATURE_EXTENSION)
  }

  async close(): Promise<void> {
    await this.#door.close()
    await this.running.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** A client that waits for the answer to each request; answers find theirs by correlation id. */
export class NativePeer {
  readonly socket: FakeSocket
  readonly #cutter = new FrameCutter(MAX_REPLY_FRAME_BYTES)
  readonly #answers = new Map<string, Answer[]>()
  #next = 1

  constructor(socket: FakeSocket) {
    this.socket = socket
  }

  /** Sends without waiting; the id to wait for. */
  send<N extends OpName>(op: N, message: Message<N>): string {
    const correlation = Buffer.alloc(16, 0xc0)
    correlation.writeUInt32BE(this.#next++, 12)
    this.socket.push(encodeFrame(op, correlation, message))
    return correlation.toString('hex')
  }

  async call<N extends OpName>(op: N, message: Message<N>): Promise<Answer> {
    return await this.answer(this.send(op, message))
  }

  /** Everything up to the final answer of a FETCH. */
  async fetch(message: Message<'FETCH'>): Promise<Answer[]> {
    const id = this.send('FETCH', message)
    const all: Answer[] = []
    do all.push(await this.answer(id))
    while (all.at(-1)?.op === 'RECORD')
    return all
  }

  async answer(id: string): Promise<Answer> {
    for (let turn = 0; turn < 100_000; turn++) {
      this.#take()
      const found = this.#answers.get(id)?.shift()
      if (found !== undefined) return found
      if (this.socket.closed) throw new Error('the connection is closed')
      await new Promise((resolve) => setImmediate(resolve))
    }
    throw new Error('no answer')
  }

  #take(): void {
    const bytes = this.socket.take()
    if (bytes.length === 0) return
    this.#cutter.push(bytes)
    for (let frame = this.#cutter.next(); frame !== null; frame = this.#cutter.next()) {
      const op = opName(frame.opcode)
      if (op === undefined) throw new Error(`opcode ${frame.opcode}`)
      const message = decodePayload(op, frame.payload) as Record<string, unknown>
      const id = frame.correlation.toString('hex')
      const answer = { op, code: op === 'ERROR' ? Number(message['code']) : 0, message }
      const known = this.#answers.get(id)
      if (known === undefined) this.#answers.set(id, [answer])
      else known.push(answer)
    }
  }
}
