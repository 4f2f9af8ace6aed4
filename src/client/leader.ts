import { asMoonMQError, isCode, MoonMQError } from '../core/errors.ts'
import type { NetAddress } from '../io/net.ts'
import { ClientConnection } from './connection.ts'
import { type ClientDeps, parseAddress, type Target } from './options.ts'

/** Brokers in a row that may say "not I, but that one" before the next address of the list is tried. */
const MAX_HINTS = 3
const HINT = /\bleader=(\S+)/

/** Where the leader is, when the broker's refusal says so. */
export function leaderIn(error: unknown): NetAddress | null {
  if (!isCode(error, 'NOT_LEADER')) return null
  const named = HINT.exec(error.message)?.[1]
  try {
    return named === undefined ? null : parseAddress(named)
  } catch {
    return null
  }
}

/** What another broker of the list may not have: the broker cannot be reached, ends, or is not the leader. */
const ELSEWHERE = new Set(['CONNECT_FAILED', 'CONNECTION_CLOSED', 'REQUEST_TIMED_OUT', 'SHUTTING_DOWN', 'NOT_LEADER', 'RATE_LIMITED'])

/**
 * Connects to the leader: each address of the list in turn, from each along at most three hints. `first` goes before the list: the last
 * hint that was given. Rejects with the last refusal, or at once with one that every broker would give.
 */
export async function connectToLeader(
  deps: ClientDeps,
  target: Target,
  first: NetAddress | null,
  signal: AbortSignal,
): Promise<ClientConnection> {
  const addresses = first === null ? target.addresses : [first, ...target.addresses]
  let refused = new MoonMQError('CONNECT_FAILED', { address: 'the broker', reason: 'no address is given' })
  for (const start of addresses) {
    let address: NetAddress | null = start
    for (let hints = 0; address !== null && hints <= MAX_HINTS; hints++) {
      try {
        return await ClientConnection.open(deps, target, address, signal)
      } catch (error) {
        refused = asMoonMQError(error)
        if (signal.aborted || !ELSEWHERE.has(refused.code)) throw error
        address = leaderIn(refused)
        if (address !== null) deps.log.debug('client.leader_hint', `${start.host}:${start.port} names another leader: ${refused.message}`)
      }
    }
  }
  throw refused
}
