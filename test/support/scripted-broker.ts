import { SystemClock } from '../../src/core/clock.ts'
import type { NetConnection } from '../../src/io/net.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { decodePayload, encodeFrame, FrameCutter } from '../../src/wire/frame.ts'
import type { Message } from '../../src/wire/messages.ts'
import { FEATURE_EXTENSION, type OpName, opName } from '../../src/wire/opcodes.ts'

export interface Asked {
  readonly op: OpName
  readonly correlation: Buffer
  readonly message: Record<string, unknown>
  readonly connection: NetConnection
  answer<N extends OpName>(name: N, message: Message<N>): void
}

/** The far end of a client: it logs in as a broker would, and leaves everything else to the script. */
export class ScriptedBroker {
  readonly net: VirtualNet
  readonly address = 'broker:9092'
  readonly asked: Asked[] = []
  connections: NetConnection[] = []
  /** What IDENTIFY_ACK ends with. */
  identity: Partial<Message<'IDENTIFY_ACK'>> = { features: FEATURE_EXTENSION }
  script: (asked: Asked) => void = () => {}
  /** Answers HELLO with NOT_LEADER and these words; null: it is the leader. */
  refusal: () => string | null = () => null

  constructor(net = new VirtualNet({ clock: new SystemClock() })) {
    this.net = net
  }

  async listen(host = 'broker'): Promise<this> {
    await this.net.listen({ host, port: 9092 }, (connection) => this.#accept(connection))
    return this
  }

  /** Every connection has ended on both sides. */
  async allGone(): Promise<boolean> {
    for (let turn = 0; turn < 1000 && this.net.openEnds > 0; turn++) await new Promise((resolve) => setImmediate(resolve))
    return this.net.openEnds === 0
  }

  #accept(connection: NetConnection): void {
    this.connections.push(connection)
    const cutter = new FrameCutter(1 << 20)
    connection.start({
      data: (bytes) => {
        cutter.push(bytes)
        for (let frame = cutter.next(); frame !== null; frame = cutter.next()) {
          const op = opName(frame.opcode)
          if (op === undefined) throw new Error(`opcode ${frame.opcode}`)
          const { correlation } = frame
          this.#serve({
            op,
            correlation,
            connection,
            message: decodePayload(op, frame.payload) as Record<string, unknown>,
            answer: (name, message) => connection.send([encodeFrame(name, correlation, message)]),
          })
        }
      },
      drain() {},
      end: () => connection.end(),
      closed() {},
    })
  }

  #serve(asked: Asked): void {
    if (asked.op === 'HELLO') {
      const message = this.refusal()
      if (message === null) asked.answer('WELCOME', { version: 1 })
      else {
        asked.answer('ERROR', { code: 20, message })
        asked.connection.end()
      }
    } else if (asked.op === 'IDENTIFY_CLIENT') asked.answer('IDENTIFY_ACK', { name: 'Scripted', version: '9', ...this.identity })
    else if (asked.op === 'AUTH') asked.answer('AUTH_OK', {})
    else if (asked.op === 'GOODBYE') asked.connection.end()
    else {
      this.asked.push(asked)
      this.script(asked)
    }
  }
}
