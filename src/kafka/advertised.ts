import type { NetAddress } from '../io/net.ts'

const MAPPED_IPV4 = '::ffff:'

/**
 * Where clients of a connection are told to go on (trap: they drop the first connection and go to the address of the Metadata
 * answer, so a wrong one looks like a hang). Unset, it is the address that this client reached, which works for it by definition.
 */
export function advertisedFor(advertised: NetAddress | null, local: NetAddress): NetAddress {
  if (advertised !== null) return advertised
  const host = local.host.startsWith(MAPPED_IPV4) ? local.host.slice(MAPPED_IPV4.length) : local.host
  return { host, port: local.port }
}
