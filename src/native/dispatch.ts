import { MoonMQError } from '../core/errors.ts'
import { decodePayload, type Frame } from '../wire/frame.ts'
import { OPCODES, type OpName, opName, PRODUCE_BATCH_IDEMPOTENT } from '../wire/opcodes.ts'
import type { AnyHandler, ConnectionState, Session } from './session.ts'

const LOGIN: ReadonlySet<OpName> = new Set(['HELLO', 'AUTH', 'AUTH_SCRAM', 'AUTH_SCRAM_FINAL'])
const GREETED: ReadonlySet<OpName> = new Set(['IDENTIFY_CLIENT', 'AUTH', 'AUTH_SCRAM', 'AUTH_SCRAM_FINAL'])
const ALWAYS: ReadonlySet<OpName> = new Set(['HEARTBEAT_REQ', 'HEARTBEAT_RESP', 'GOODBYE'])
/** Their records gather before they are appended. */
const GATHERED: ReadonlySet<number> = codes('PRODUCE', 'PRODUCE_BATCH', 'SEND')
/** Their records are in their places before the next request begins. */
const PLACED: ReadonlySet<number> = codes('PRODUCE_IDEMPOTENT', 'SEND_SEQUENCED')
const FREE: ReadonlySet<number> = codes('HEARTBEAT_REQ', 'HEARTBEAT_RESP')

export interface Route {
  readonly handler: AnyHandler
  readonly message: never
}

/** Finds what serves a frame: state first, then opcode, then payload. */
export class Dispatch {
  readonly #handlers = new Map<OpName, AnyHandler>()

  constructor(handlers: readonly AnyHandler[]) {
    for (const handler of handlers) this.#handlers.set(handler.op, handler)
  }

  /** Throws BAD_STATE, UNKNOWN_OP, NOT_IN_THIS_VERSION, BAD_FRAME. */
  route(frame: Frame, session: Session): Route {
    const name = this.#known(frame.opcode, session)
    if (!isAllowed(name, session.state)) {
      throw new MoonMQError('BAD_STATE', { op: name ?? hex(frame.opcode), state: session.state })
    }
    if (name === undefined || OPCODES[name].from === 'server') throw new MoonMQError('UNKNOWN_OP', { op: hex(frame.opcode) })
    const message = decodePayload(name, frame.payload) as never
    const handler = this.#handlers.get(name)
    if (handler === undefined) throw new MoonMQError('NOT_IN_THIS_VERSION', { what: name })
    return { handler, message }
  }

  /** Opcodes of the extension are unknown to whoever did not ask for it. */
  #known(opcode: number, session: Session): OpName | undefined {
    const name = opName(opcode)
    return name !== undefined && OPCODES[name].extension && !session.extended ? undefined : name
  }
}

export function isAllowed(name: OpName | undefined, state: ConnectionState): boolean {
  if (name !== undefined && ALWAYS.has(name)) return true
  if (state === 'new') return name === 'HELLO'
  if (state === 'greeted') return name !== undefined && GREETED.has(name)
  return name === undefined || !LOGIN.has(name)
}

/**
 * What a request waits for: `free` nothing, `gathered` no acknowledgement, `placed` those of records that gather, since it would overtake
 * them on their way to the log, `alone` all of them.
 */
export type Pace = 'free' | 'gathered' | 'placed' | 'alone'

export function paceOf({ opcode, payload }: Frame): Pace {
  if (GATHERED.has(opcode)) {
    const isNumbered = opcode === OPCODES.PRODUCE_BATCH.code && ((payload[0] ?? 0) & PRODUCE_BATCH_IDEMPOTENT) !== 0
    return isNumbered ? 'placed' : 'gathered'
  }
  if (PLACED.has(opcode)) return 'placed'
  return FREE.has(opcode) ? 'free' : 'alone'
}

function codes(...names: readonly OpName[]): ReadonlySet<number> {
  return new Set(names.map((name) => OPCODES[name].code))
}

/** Whether the connection ends after this refusal (docs/PROTOCOL.md): a login that failed, or a broker that does not lead. */
export function closesConnection(opcode: number, error: MoonMQError): boolean {
  if (error.code === 'NOT_LEADER') return true
  const name = opName(opcode)
  return name !== undefined && LOGIN.has(name) && error.code !== 'BAD_STATE'
}

export function hex(opcode: number): string {
  return `0x${opcode.toString(16).padStart(2, '0')}`
}
