import { assert } from '../core/assert.ts'
import { isCode } from '../core/errors.ts'
import { nearest } from '../core/nearest.ts'
import { formatAddress, isLoopback, parseAddress } from './address.ts'
import { BROKER_SETTINGS, brokerSetting, checkBrokerSetting } from './broker-settings.ts'
import { type Environment, readEnvironment } from './environment.ts'
import { isGatewayKey, missingFeature } from './foreign.ts'
import { kafkaNumber } from './kafka-setting.ts'
import { acceptedValue, type Key, rangeOf } from './key.ts'
import { allKeys, type ListenerSettings, SETTINGS, type Settings, type ValuesOf } from './keys.ts'
import { readListeners } from './listeners.ts'
import { badSetting, type ConfigFile, type Given, MOVED, type Origin, readOverlay } from './overlay.ts'

/** Texts and values from outside; nothing is read here. */
export interface ConfigInputs {
  /** Weakest first: the base file, then its overlay. */
  readonly files: readonly ConfigFile[]
  readonly env: Environment
  /** What the command line sets, by the path of the key. */
  readonly flags: readonly { readonly flag: string; readonly path: string; readonly value: unknown }[]
}

export interface ResolvedConfig {
  readonly settings: Settings
  /** Where each value comes from; a path that is not here has its default. */
  readonly origins: ReadonlyMap<string, Origin>
  /** For the log: what was read and has no effect. */
  readonly warnings: readonly string[]
}

/**
 * The settings in force: defaults, then files, then `MOONMQ_` variables, then flags. Throws SETTING_INVALID naming key, value, range
 * and the nearest known key, and where the value came from.
 */
export function resolveConfig(inputs: ConfigInputs): ResolvedConfig {
  const given: Given[] = [
    ...inputs.files.flatMap(readOverlay),
    ...readEnvironment(inputs.env),
    ...inputs.flags.map(({ flag, path, value }) => ({ path, value, origin: { source: 'flag', name: flag } as const })),
  ]
  const keys = allKeys()
  const blocks = blocksOf(keys)
  const values = new Map<string, unknown>()
  const kafka = new Map<string, string>()
  const origins = new Map<string, Origin>()
  const warnings: string[] = []
  let listeners: readonly ListenerSettings[] | null = null
  for (const entry of given) {
    const { path, value, origin } = entry
    if (isGatewayKey(path)) {
      warnings.push(`${path} (${origin.name}) has no effect: there is no gateway program, HTTP is part of the broker (http.port)`)
      continue
    }
    const key = keys.get(path)
    if (key) {
      values.set(path, checked(entry, key))
      origins.set(path, origin)
    } else if (path === 'listeners') {
      listeners = readListeners(value, origin.name)
      // Who writes the whole list after the first entry's address means the list.
      for (const replaced of ['server.host', 'server.port']) {
        values.delete(replaced)
        origins.delete(replaced)
      }
      origins.set(path, origin)
    } else if (path.startsWith('kafka.')) {
      kafka.set(path.slice('kafka.'.length), checkedKafka(entry))
      origins.set(path, origin)
    } else if (!blocks.has(path) || !isEmptyBlock(value)) {
      throw unknownKey(entry, keys, blocks)
    }
  }
  applyMetricsToken(values, origins, inputs.env)
  const settings = assemble(values, listeners, kafka)
  checkInvariants(settings)
  return { settings, origins, warnings }
}

function checked({ path, value, origin }: Given, key: Key): unknown {
  const accepted = acceptedValue(key, value)
  if (accepted !== undefined) return accepted
  const shown = key.secret ? '(secret)' : JSON.stringify(value)
  throw badSetting(`${path}=${shown} (${origin.name}) is not valid: expected ${rangeOf(key)}`)
}

function checkedKafka({ path, value, origin }: Given): string {
  const name = path.slice('kafka.'.length)
  if (typeof value === 'object') throw badSetting(`${path} (${origin.name}) must be one value, not a list or a block`)
  try {
    return checkBrokerSetting(name, String(value))
  } catch (error) {
    if (isCode(error, 'CONFIG_INVALID')) throw badSetting(`kafka: ${error.message} (${origin.name})`, error)
    throw error
  }
}

/** Every `a`, `a.b` that has keys below it. */
function blocksOf(keys: ReadonlyMap<string, Key>): ReadonlySet<string> {
  const blocks = new Set(['kafka'])
  for (const path of keys.keys()) {
    for (let dot = path.indexOf('.'); dot >= 0; dot = path.indexOf('.', dot + 1)) blocks.add(path.slice(0, dot))
  }
  return blocks
}

/** What is left of a block without keys but comments. */
function isEmptyBlock(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function unknownKey({ path, value, origin }: Given, keys: ReadonlyMap<string, Key>, blocks: ReadonlySet<string>): Error {
  const missing = missingFeature(path)
  if (missing !== null) return badSetting(`${path} (${origin.name}): ${missing} is not in this version of MoonMQ`)
  if (blocks.has(path)) return badSetting(`${path}=${JSON.stringify(value)} (${origin.name}) is not valid: expected a block of settings`)
  const known = [...keys.keys(), 'listeners', ...BROKER_SETTINGS.map((setting) => `kafka.${setting.name}`)]
  const close = MOVED.get(path) ?? nearest(path, known)
  const hint = close === null ? '' : `; did you mean ${close}${rangeHint(close, keys)}?`
  return badSetting(`${path}=${JSON.stringify(value)} (${origin.name}) is not a setting${hint}`)
}

function rangeHint(path: string, keys: ReadonlyMap<string, Key>): string {
  const key = keys.get(path)
  return key ? ` (${rangeOf(key)})` : ''
}

/** The variable stands in for a token that is absent or empty. */
function applyMetricsToken(values: Map<string, unknown>, origins: Map<string, Origin>, env: Environment): void {
  const path = 'server.metricsAuth.token'
  const token = env.MOONMQ_METRICS_TOKEN
  if (!token || values.get(path)) return
  values.set(path, token)
  origins.set(path, { source: 'environment', name: 'MOONMQ_METRICS_TOKEN' })
}

function assemble(
  values: ReadonlyMap<string, unknown>,
  list: readonly ListenerSettings[] | null,
  kafka: ReadonlyMap<string, string>,
): Settings {
  const fill = (node: object, prefix: string): object =>
    Object.fromEntries(
      Object.entries(node).map(([name, child]) => {
        const path = `${prefix}${name}`
        const isLeaf = typeof child === 'object' && child !== null && 'kind' in child
        if (!isLeaf) return [name, fill(child, `${path}.`)]
        return [name, values.has(path) ? values.get(path) : (child as Key).default]
      }),
    )
  // The tree has the shape of SETTINGS, and every value was checked against its key.
  const tree = fill(SETTINGS, '') as ValuesOf<typeof SETTINGS>
  const first: ListenerSettings = {
    name: 'default',
    host: tree.server.host,
    port: tree.server.port,
    protocols: ['native', 'kafka'],
    advertised: null,
    allowPlaintext: false,
  }
  const listeners = list === null ? [first] : withFirstAddress(list, values)
  const head = listeners[0]
  assert(head !== undefined, 'there is a listener')
  return { ...tree, server: { ...tree.server, host: head.host, port: head.port }, listeners, kafka }
}

/** `server.host` and `server.port` that were given after the list are those of its first entry. */
function withFirstAddress(list: readonly ListenerSettings[], values: ReadonlyMap<string, unknown>): ListenerSettings[] {
  return list.map((listener, index) => {
    if (index > 0) return listener
    const host = values.get('server.host')
    const port = values.get('server.port')
    return { ...listener, ...(typeof host === 'string' ? { host } : {}), ...(typeof port === 'number' ? { port } : {}) }
  })
}

/** What holds between settings (DESIGN D14 among it). */
function checkInvariants(settings: Settings): void {
  const names = new Set<string>()
  const places = new Set<string>()
  for (const { name, host, port, advertised } of settings.listeners) {
    if (names.has(name)) throw badSetting(`listeners: two are named "${name}"`)
    names.add(name)
    const place = formatAddress({ host, port })
    if (port !== 0 && places.has(place)) throw badSetting(`listeners: two listen on ${place}`)
    places.add(place)
    if (advertised !== null && parseAddress(advertised) === null) {
      throw badSetting(`listeners: advertised=${JSON.stringify(advertised)} of "${name}" is not valid: expected HOST:PORT`)
    }
    if (!isLoopback(host) && !settings.security.allowAnonymous) throw openToAll(`listener "${name}" on ${place}`)
  }
  const { http, server } = settings
  if (server.metricsAuth.basic) throw badSetting('server.metricsAuth.basic: HTTP Basic login is not in this version of MoonMQ')
  if (http.port !== null && !isLoopback(http.host) && server.metricsAuth.token === '' && !settings.security.allowAnonymous) {
    throw openToAll(`the HTTP listener on ${formatAddress({ host: http.host, port: http.port })}`)
  }
  if (http.port !== null && http.port !== 0 && places.has(formatAddress({ host: http.host, port: http.port }))) {
    throw badSetting(`http.port=${http.port} is the port of a listener; HTTP needs one of its own`)
  }
  const least = kafkaValue(settings, 'group.min.session.timeout.ms')
  const most = kafkaValue(settings, 'group.max.session.timeout.ms')
  if (least > most) {
    throw badSetting(`kafka: group.min.session.timeout.ms=${least} is above group.max.session.timeout.ms=${most}`)
  }
}

function openToAll(what: string): Error {
  return badSetting(
    `${what} can be reached from other machines and nobody has to log in; set security.allowAnonymous=true to allow that, or listen on 127.0.0.1`,
  )
}

/** A number of the block `kafka`, its default when nobody set it. */
function kafkaValue(settings: Settings, name: string): number {
  return kafkaNumber(kafkaText(settings, name))
}

/** A value of the block `kafka` as text, its default when nobody set it. */
function kafkaText(settings: Settings, name: string): string {
  const setting = brokerSetting(name)
  assert(setting !== undefined, `${name} is in the table of broker settings`)
  return settings.kafka.get(name) ?? setting.default
}
