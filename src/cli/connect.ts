import { connect } from '../client/index.ts'
import type { Client } from '../client/types.ts'
import type { CliContext } from './context.ts'
import { parseHostPort, parseWhole } from './parse.ts'

/** Options of every command that talks to a broker. */
export interface ConnectOptions {
  readonly broker?: string
  readonly timeout?: string
}

export const DEFAULT_BROKER = '127.0.0.1:9092'

/** The broker that is meant: the option, else MOONMQ_BROKER, else the local default. */
export function brokerAddress(context: CliContext, options: ConnectOptions): string {
  const named = options.broker ?? context.env['MOONMQ_BROKER'] ?? DEFAULT_BROKER
  const { host, port } = parseHostPort(named, '--broker')
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** Connects, runs, and closes again whatever happens. */
export async function withClient(context: CliContext, options: ConnectOptions, run: (client: Client) => Promise<number>): Promise<number> {
  const timeoutMs = options.timeout === undefined ? 10_000 : parseWhole(options.timeout, '--timeout', 1, 3600) * 1000
  await using client = await connect({ address: brokerAddress(context, options), name: 'moonmq-cli', timeoutMs, signal: context.signal })
  return await run(client)
}
