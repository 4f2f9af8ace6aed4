import { type Clock, SystemClock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import { type Logger, SILENT } from '../core/logger.ts'
import { type Random, SystemRandom } from '../core/random.ts'
import type { Net, NetAddress } from '../io/net.ts'
import { NodeNet } from '../io/node-net.ts'
import { MAX } from '../wire/limits.ts'
import { OPCODES } from '../wire/opcodes.ts'
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
  const name = options.name ?? 'moonmq-client'
  if (Buffer.byteLength(name) > MAX.clientName) throw invalid(`a client name has at most ${MAX.clientName} bytes`)
  const { address } = options
  const list = Array.isArray(address) ? (address as readonly (string | NetAddress)[]) : [address as string | NetAddress]
  if (list.length === 0) throw invalid('a client needs an address')
  return {
    name,
    username: options.username ?? 'anonymous',
    password: Buffer.from(options.password ?? ''),
    addresses: list.map((each) => (typeof each === 'string' ? parseAddress(each) : each)),
    timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
  }
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
