import { nearest } from '../core/nearest.ts'
import { acceptedValue, type Key, rangeOf } from './key.ts'
import { LISTENER_FIELDS, type ListenerSettings, PROTOCOLS, type Protocol, type ValuesOf } from './keys.ts'
import { badSetting } from './overlay.ts'

const MAX_LISTENERS = 64

/** The list `listeners` as somebody gave it. Throws SETTING_INVALID naming the entry and the field. */
export function readListeners(value: unknown, source: string): readonly ListenerSettings[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_LISTENERS) {
    throw badSetting(`listeners (${source}) must be a list of 1..${MAX_LISTENERS} blocks with name, host, port, protocols`)
  }
  return value.map((entry: unknown, index) => readListener(entry, `listeners[${index}]`, index, source))
}

function readListener(entry: unknown, place: string, index: number, source: string): ListenerSettings {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) throw badSetting(`${place} (${source}) must be a block`)
  const given = new Map<string, unknown>(Object.entries(entry).filter(([name]) => !name.startsWith('_')))
  const fields = new Map<string, Key>(Object.entries(LISTENER_FIELDS))
  for (const name of given.keys()) {
    if (fields.has(name) || name === 'protocols') continue
    const close = nearest(name, [...fields.keys(), 'protocols'])
    throw badSetting(`${place}.${name} (${source}) is not a setting${close === null ? '' : `; did you mean ${close}?`}`)
  }
  const values: Record<string, unknown> = {}
  for (const [name, key] of fields) {
    const fallback = name === 'name' && index > 0 ? `listener-${index}` : key.default
    const value = given.has(name) ? acceptedValue(key, given.get(name)) : fallback
    if (value === undefined) {
      throw badSetting(`${place}.${name}=${JSON.stringify(given.get(name))} (${source}) is not valid: expected ${rangeOf(key)}`)
    }
    values[name] = value
  }
  // Each field was checked against its key.
  return { ...(values as ValuesOf<typeof LISTENER_FIELDS>), protocols: readProtocols(given.get('protocols'), place, source) }
}

function readProtocols(value: unknown, place: string, source: string): readonly Protocol[] {
  if (value === undefined) return PROTOCOLS
  const known: readonly unknown[] = PROTOCOLS
  const list: readonly unknown[] = Array.isArray(value) ? value : []
  if (list.length === 0 || new Set(list).size !== list.length || !list.every((protocol) => known.includes(protocol))) {
    throw badSetting(`${place}.protocols=${JSON.stringify(value)} (${source}) is not valid: expected a list of ${PROTOCOLS.join(', ')}`)
  }
  return PROTOCOLS.filter((protocol) => list.includes(protocol))
}
