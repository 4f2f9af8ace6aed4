import type { StartPosition } from '../client/types.ts'
import { parseWhen } from '../core/when.ts'
import { UsageError } from './context.ts'

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
export function parseFrom(text: string, nowMs: number, option = '--from'): StartPosition {
  if (text === 'earliest' || text === 'beginning' || text === 'start') return 'earliest'
  if (text === 'latest' || text === 'end') return 'latest'
  const when = parseWhen(text)
  if (when === null) {
    throw new UsageError(`${option} ${text}: expected earliest, latest, a time such as 2026-01-31T12:00:00Z, or an age such as 10m`)
  }
  return { timestampMs: 'ageMs' in when ? nowMs - when.ageMs : when.timestampMs }
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
