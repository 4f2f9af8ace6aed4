import { type Clock, SystemClock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import { type Logger, SILENT } from '../core/logger.ts'
import { type Random, SystemRandom } from '../core/random.ts'
import type { Net, NetAddress } from '../io/net.ts'
import { NodeNet } from '../io/node-net.ts'
import { MAX } from '../wire/limits.ts'
import { OPCODES } from '../wire/opcodes.ts'
import { checkObject, checkSignal, checkText, checkWhole, wrong } from './arguments.ts'
import type { ClientOptions } from './types.ts'

/** What every part of a client works with. */
export interface ClientDeps {
  readonly net: Net
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
}

export interface Target {
  /** Tried in this order. */
  readonly addresses: readonly NetAddress[]
  readonly name: string
  readonly username: string
  readonly password: Buffer
  readonly timeoutMs: number
}

const DEFAULT_PORT = 9092
const DEFAULT_TIMEOUT_MS = 30_000
export const CLIENT_VERSION = '0.1.0'

export function depsOf(options: ClientOptions): ClientDeps {
  const clock = options.clock ?? new SystemClock()
  const log = options.log ?? SILENT
  return { clock, log, random: options.random ?? new SystemRandom(), net: options.net ?? new NodeNet({ clock, log }) }
}

/** The network of the machine, for whoever wraps it: what `net` is unless another one is given. */
export function systemNet(): Net {
  return new NodeNet({ clock: new SystemClock(), log: SILENT })
}

const OPCODE_AT = 4
const STORING: ReadonlySet<number> = new Set(
  (['PRODUCE', 'PRODUCE_BATCH', 'PRODUCE_IDEMPOTENT', 'SEND', 'SEND_SEQUENCED'] as const).map((name) => OPCODES[name].code),
)

/** For whoever wraps the network: whether these bytes, as a client hands them to its connection, ask the broker to store records. */
export function storesRecords(parts: readonly Buffer[]): boolean {
  return STORING.has(parts[0]?.[OPCODE_AT] ?? -1)
}

/** Throws INVALID_REQUEST. */
export function targetOf(options: ClientOptions): Target {
  checkObject('what connect is given', options, 'give an object, such as { address: "127.0.0.1:9092" }')
  for (const each of ['name', 'username', 'password'] as const) if (options[each] !== undefined) checkText(each, options[each])
  if (options.timeoutMs !== undefined) checkWhole('timeoutMs', options.timeoutMs, 1)
  if (options.signal !== undefined) checkSignal('signal', options.signal)
  const name = options.name ?? 'moonmq-client'
  if (Buffer.byteLength(name) > MAX.clientName) throw invalid(`a client name has at most ${MAX.clientName} bytes`)
  const { address } = options
  const list = Array.isArray(address) ? (address as readonly (string | NetAddress)[]) : [address as string | NetAddress]
  if (list.length === 0) throw wrong('address', address, ADDRESS)
  return {
    name,
    username: options.username ?? 'anonymous',
    password: Buffer.from(options.password ?? ''),
    addresses: list.map(addressOf),
    timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
  }
}

const ADDRESS = 'give "host:port", { host, port }, or a list of them'

function addressOf(given: string | NetAddress): NetAddress {
  if (typeof given === 'string') return parseAddress(given)
  const { host, port } = given ?? {}
  if (typeof host !== 'string' || host === '' || !Number.isInteger(port) || port < 1 || port > 65535) throw wrong('address', given, ADDRESS)
  return given
}

/** `host:port`, `host`, or `[ipv6]:port`. */
export function parseAddress(text: string): NetAddress {
  const match = /^(?:\[([^\]]+)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text)
  const host = match?.[1] ?? match?.[2]
  const port = match?.[3] === undefined ? DEFAULT_PORT : Number(match[3])
  if (host === undefined || host === '' || port < 1 || port > 65535) throw invalid(`"${text}" is not an address: host:port`)
  return { host, port }
}

export function invalid(reason: string): MoonMQError {
  return new MoonMQError('INVALID_REQUEST', { reason })
}
