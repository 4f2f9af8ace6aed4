import type { StartPosition } from '../client/types.ts'
import { UsageError } from './context.ts'

const DURATION_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

export interface HostPort {
  readonly host: string
  readonly port: number
}

/** `HOST:PORT`, `[IPV6]:PORT`, `:PORT` (loopback) or `PORT`. */
export function parseHostPort(text: string, option: string): HostPort {
  const match = /^(?:(?:\[([0-9a-fA-F:.]+)\]|([^:\s]*)):)?(\d{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65535) throw new UsageError(`${option} ${text}: expected HOST:PORT, for example 127.0.0.1:9092`)
  return { host: match[1] ?? (match[2] === undefined || match[2] === '' ? '127.0.0.1' : match[2]), port }
}

/** A whole number within bounds. */
export function parseWhole(text: string, option: string, min = 0, max = Number.MAX_SAFE_INTEGER): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= min && value <= max)) {
    throw new UsageError(`${option} ${text}: expected a whole number from ${min}${max === Number.MAX_SAFE_INTEGER ? ' up' : ` to ${max}`}`)
  }
  return value
}

/** `earliest`, `latest`, a time (`2026-01-31T12:00:00Z`, milliseconds since 1970) or an age (`10m`, `2h`, `7d`). */
export function parseFrom(text: string, nowMs: number): StartPosition {
  if (text === 'earliest' || text === 'beginning' || text === 'start') return 'earliest'
  if (text === 'latest' || text === 'end') return 'latest'
  const age = /^(\d+)(ms|s|m|h|d)$/.exec(text)
  if (age !== null) return { timestampMs: nowMs - Number(age[1]) * (DURATION_MS[age[2] as string] as number) }
  const iso = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN
  const timestampMs = /^\d{9,}$/.test(text) ? Number(text) : iso
  if (!Number.isSafeInteger(timestampMs)) {
    throw new UsageError(`--from ${text}: expected earliest, latest, a time such as 2026-01-31T12:00:00Z, or an age such as 10m`)
  }
  return { timestampMs }
}

/** `key=value` settings, later ones win. */
export function parseSettings(pairs: readonly string[]): Record<string, string> {
  const settings: Record<string, string> = {}
  for (const pair of pairs) {
    const at = pair.indexOf('=')
    if (at <= 0) throw new UsageError(`${pair} is no setting: expected KEY=VALUE, for example retention.ms=3600000`)
    settings[pair.slice(0, at)] = pair.slice(at + 1)
  }
  return settings
}
