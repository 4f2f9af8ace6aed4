export interface Address {
  readonly host: string
  readonly port: number
}

/** `127.0.0.1:9092`, `[::1]:9092`, `broker.example:9092`; null when it is neither. */
export function parseAddress(text: string): Address | null {
  const match = /^(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(text.trim())
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  return host !== undefined && port <= 65_535 ? { host, port } : null
}

/** The text form; an IPv6 address in brackets. */
export function formatAddress({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** Whether only this machine reaches the address. A name other than localhost may be anything, so it does not count. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return name === 'localhost' || name === '::1' || /^(::ffff:)?127(\.\d{1,3}){3}$/.test(name)
}
