/** Blocks that this version does not have. Starting without them would be less safe or less durable than the file says. */
const NOT_YET: ReadonlyMap<string, string> = new Map([
  ['server.tls', 'TLS'],
  ['tls', 'TLS'],
  ['ssl', 'TLS'],
  ['server.metricsTls', 'TLS'],
  ['server.replication', 'replication'],
  ['server.cluster', 'a cluster of several brokers'],
  ['server.autobalance', 'balancing'],
  ['replication', 'replication'],
  ['cluster', 'a cluster of several brokers'],
  ['autobalance', 'balancing'],
  ['auth', 'login'],
])

/** What a key would need that this version does not have, or null. */
export function missingFeature(path: string): string | null {
  for (const [block, what] of NOT_YET) if (isWithin(path, block)) return what
  return null
}

/** Keys of a program that does not exist here; they warn. */
export function isGatewayKey(path: string): boolean {
  return isWithin(path, 'gateway')
}

function isWithin(path: string, block: string): boolean {
  return path === block || path.startsWith(`${block}.`)
}
