import { NO_METRICS } from '../../src/core/counters.ts'
import { SeededRandom } from '../../src/core/random.ts'
import type { AcceptInfo } from '../../src/io/door.ts'
import { NativeDoor } from '../../src/native/listener.ts'
import { DEFAULT_NATIVE_DOOR, type NativeDoorOptions } from '../../src/native/options.ts'
import { decodePayload, encodeFrame, FrameCutter } from '../../src/wire/frame.ts'
import { MAX_REPLY_FRAME_BYTES } from '../../src/wire/limits.ts'
import type { Message } from '../../src/wire/messages.ts'
import { FEATURE_EXTENSION, type OpName, opName } from '../../src/wire/opcodes.ts'
import { type FakeBroker, fakeBroker } from './fake-broker.ts'
import { FakeSocket } from './fake-socket.ts'
import { LinesLogger } from './kafka-door.ts'

export interface Received {
  readonly op: OpName
  readonly correlation: string
  readonly message: Record<string, unknown>
}

export interface TestNativeDoor extends FakeBroker {
  readonly door: NativeDoor
  readonly log: LinesLogger
  /** A connection in the state given. */
  connect(state?: 'new' | 'greeted' | 'authenticated' | 'extended'): Promise<TestNativeConnection>
}

/** The native door over the real broker with logs in arrays, on virtual time; with `former`, after a restart of that one. */
export async function testNativeDoor(options: Partial<NativeDoorOptions> = {}, former: FakeBroker | null = null): Promise<TestNativeDoor> {
  const log = new LinesLogger()
  const fake = await fakeBroker({}, NO_METRICS, former, log)
  await fake.broker.loadGroups()
  const door = new NativeDoor(
    { broker: fake.broker, clock: fake.clock, random: new SeededRandom(2), log, metrics: NO_METRICS },
    { ...DEFAULT_NATIVE_DOOR, ...options },
  )
  let id = 0
  return {
    ...fake,
    door,
    log,
    async connect(state = 'authenticated') {
      const socket = new FakeSocket()
      const connection = new TestNativeConnection(socket, fake)
      const info: AcceptInfo = { id: ++id, listener: 'main', advertised: null, loggedIn: () => connection.logins++ }
      door.accept(socket, Buffer.alloc(0), info)
      if (state === 'new') return connection
      await connection.call('HELLO', { version: 1 })
      if (state === 'extended') await connection.call('IDENTIFY_CLIENT', { name: 'test', version: '1', features: FEATURE_EXTENSION })
      if (state !== 'greeted') await connection.call('AUTH', { username: 'any', password: Buffer.from('any') })
      return connection
    },
  }
}

/** A client of the door. */
export class TestNativeConnection {
  readonly socket: FakeSocket
  logins = 0
  readonly #fake: FakeBroker
  readonly #cutter = new FrameCutter(MAX_REPLY_FRAME_BYTES)
  #next = 1

  constructor(socket: FakeSocket, fake: FakeBroker) {
    this.socket = socket
    this.#fake = fake
  }

  send<N extends OpName>(op: N, message: Message<N>, correlation = this.correlation()): string {
    this.socket.push(encodeFrame(op, correlation, message))
    return correlation.toString('hex')
  }

  correlation(): Buffer {
    const correlation = Buffer.alloc(16, 0xc0)
    correlation.writeUInt32BE(this.#next++, 12)
    return correlation
  }

  /** Sends, lets the broker work, and gives every frame that came. */
  async exchange<N extends OpName>(op: N, message: Message<N>): Promise<Received[]> {
    this.send(op, message)
    return this.received()
  }

  /** The one frame that answers. */
  async call<N extends OpName>(op: N, message: Message<N>): Promise<Received> {
    const correlation = this.send(op, message)
    const frames = await this.received()
    const [answer] = frames
    if (frames.length !== 1 || answer === undefined) throw new Error(`${frames.length} answers to ${op}`)
    if (answer.correlation !== correlation) throw new Error(`${answer.op} for ${answer.correlation} instead of ${correlation}`)
    return answer
  }

  async error<N extends OpName>(op: N, message: Message<N>): Promise<number> {
    const answer = await this.call(op, message)
    if (answer.op !== 'ERROR') throw new Error(`${answer.op} instead of ERROR`)
    return Number(answer.message['code'])
  }

  /** Frames that have come, after everything that needs no time has happened. */
  async received(): Promise<Received[]> {
    do await turn()
    while (this.#fake.clock.runDeferred())
    const bytes = this.socket.take()
    const frames: Received[] = []
    if (bytes.length === 0) return frames
    this.#cutter.push(bytes)
    for (let frame = this.#cutter.next(); frame !== null; frame = this.#cutter.next()) {
      const op = opName(frame.opcode)
      if (op === undefined) throw new Error(`opcode ${frame.opcode}`)
      const message = decodePayload(op, frame.payload) as Record<string, unknown>
      frames.push({ op, correlation: frame.correlation.toString('hex'), message })
    }
    return frames
  }
}

/** Lets every promise reaction run that needs no time or input. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
