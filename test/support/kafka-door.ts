import { SystemClock } from '../../src/core/clock.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import type { LogFields, Logger } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import type { AcceptInfo } from '../../src/io/door.ts'
import type { NetAddress } from '../../src/io/net.ts'
import { FetchSessions } from '../../src/kafka/fetch-sessions.ts'
import type { AnyApi } from '../../src/kafka/handler.ts'
import { DEFAULT_KAFKA_DOOR, KafkaDoor, type KafkaDoorOptions } from '../../src/kafka/listener.ts'
import type { Input } from '../../src/schema/compile.ts'
import type { ApiName } from '../../src/schema/messages.ts'
import type { Requests, Responses } from '../../src/schema/types.generated.ts'
import { type FakeBroker, fakeBroker } from './fake-broker.ts'
import { FakeSocket, settle } from './fake-socket.ts'
import { frames, readResponse, requestFrame } from './kafka-frames.ts'

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly event: string
  readonly text: string
  readonly fields: LogFields
}

/** Keeps every line. */
export class LinesLogger implements Logger {
  readonly lines: LogLine[] = []

  debug(event: string, text: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'debug', event, text, fields })
  }

  info(event: string, text: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'info', event, text, fields })
  }

  warn(event: string, text: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'warn', event, text, fields })
  }

  error(event: string, text: string, fields: LogFields = {}): void {
    this.lines.push({ level: 'error', event, text, fields })
  }

  child(): Logger {
    return this
  }
}

export interface TestDoor extends FakeBroker {
  readonly door: KafkaDoor
  readonly log: LinesLogger
  connect(options?: { head?: Buffer; advertised?: NetAddress; local?: NetAddress }): TestConnection
}

/** The Kafka door over the real broker with logs in arrays, on virtual time. */
export async function testDoor(options: { door?: Partial<KafkaDoorOptions>; apis?: readonly AnyApi[] } = {}): Promise<TestDoor> {
  const fake = await fakeBroker()
  const log = new LinesLogger()
  const apis = options.apis === undefined ? {} : { apis: options.apis }
  const door = new KafkaDoor(
    { broker: fake.broker, clock: fake.clock, random: new SeededRandom(1), log, metrics: NO_METRICS, ...apis },
    { ...DEFAULT_KAFKA_DOOR, ...options.door },
  )
  let id = 0
  return {
    ...fake,
    door,
    log,
    connect({ head = Buffer.alloc(0), advertised, local } = {}) {
      const socket = new FakeSocket(local === undefined ? {} : { local })
      const connection = new TestConnection(socket)
      const info: AcceptInfo = { id: ++id, listener: 'main', advertised: advertised ?? null, loggedIn: () => connection.logins++ }
      door.accept(socket, head, info)
      return connection
    },
  }
}

/** For handlers that are called without a door: every fetch is a full one. */
export function noSessions(): FetchSessions {
  return new FetchSessions({ clock: new SystemClock(), random: new SeededRandom(1), metrics: NO_METRICS }, { maxSessions: 0, maxBytes: 0 })
}

/** A client of the door: one request at a time, or raw bytes. */
export class TestConnection {
  readonly socket: FakeSocket
  logins = 0
  #correlationId = 0

  constructor(socket: FakeSocket) {
    this.socket = socket
  }

  push(bytes: Buffer): void {
    this.socket.push(bytes)
  }

  async call<N extends ApiName>(name: N, version: number, body: Input<Requests[N]>): Promise<Responses[N]> {
    const correlationId = ++this.#correlationId
    this.push(requestFrame(name, version, body, { correlationId }))
    await settle()
    const answers = this.frames()
    const answer = answers[0]
    if (answers.length !== 1 || answer === undefined) throw new Error(`${answers.length} answers to ${name}`)
    const response = readResponse(name, version, answer)
    if (response.correlationId !== correlationId) throw new Error(`an answer to ${response.correlationId} instead of ${correlationId}`)
    return response.body
  }

  frames(): Buffer[] {
    return frames(this.socket.take())
  }
}
