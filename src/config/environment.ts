import { nearest } from '../core/nearest.ts'
import { BROKER_SETTINGS } from './broker-settings.ts'
import { isGatewayKey, missingFeature } from './foreign.ts'
import { type Key, valueFromText } from './key.ts'
import { allKeys } from './keys.ts'
import { badSetting, type Given, MOVED } from './overlay.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const PREFIX = 'MOONMQ_'

/** Variables that are no overlay of a key. The last ones belong to the tests and load programs, which share the environment. */
export const OTHER_VARIABLES: ReadonlyMap<string, string> = new Map([
  ['MOONMQ_ENVIRONMENT', 'Name of the environment: which overlay file is read. Default: development.'],
  ['MOONMQ_METRICS_TOKEN', 'Token of metrics and statistics when server.metricsAuth.token is empty.'],
  ['MOONMQ_LISTENERS', 'The list `listeners` as JSON.'],
  ['MOONMQ_BROKER', 'HOST:PORT of the broker that the commands talk to when --broker is not given.'],
  ['MOONMQ_PASSWORD', 'Password with which `moonmq sql` logs in.'],
  ['MOONMQ_ADDR', 'HOST:PORT of the broker that `npm run test:external` uses.'],
  ['MOONMQ_SUITES', 'Folder of client suites for the conformance tests.'],
  ['MOONMQ_PEERS', 'Folder of load programs for the benchmarks.'],
  ['MOONMQ_FAILPOINT', 'For tests: `name:kill@N` or `name:error=EIO@N`, the moment at which the broker dies or a step of it fails.'],
  ['MOONMQ_SEED', 'Seed that a random test replays.'],
  ['MOONMQ_CI_INSTALL', 'no = .ci/run installs nothing.'],
])

const TEST_PREFIX = 'MOONMQ_TEST_'

/** `server.maxFrameSize` → `MOONMQ_SERVER__MAX_FRAME_SIZE`; `kafka.num.partitions` → `MOONMQ_KAFKA__NUM_PARTITIONS`. */
export function variableOf(path: string): string {
  const levels = path.startsWith('kafka.') ? ['kafka', path.slice('kafka.'.length).replaceAll('.', '_')] : path.split('.')
  const words = levels.map((level) => level.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase())
  return PREFIX + words.join('__')
}

/** What the variables give. Throws SETTING_INVALID for a `MOONMQ_` name that nobody knows. */
export function readEnvironment(env: Environment): Given[] {
  const known = variables()
  const given: Given[] = []
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith(PREFIX) || text === undefined || name.startsWith(TEST_PREFIX)) continue
    const origin = { source: 'environment', name } as const
    const entry = known.get(name)
    if (entry) given.push({ path: entry.path, value: entry.key ? valueFromText(entry.key, text) : text, origin })
    else if (name === 'MOONMQ_LISTENERS') given.push({ path: 'listeners', value: parseJson(name, text), origin })
    else if (!OTHER_VARIABLES.has(name)) given.push(foreign(name, text, [...known.keys(), ...OTHER_VARIABLES.keys()]))
  }
  return given
}

interface Variable {
  readonly path: string
  /** Null for one of Kafka's settings, whose values are text anyway. */
  readonly key: Key | null
}

function variables(): Map<string, Variable> {
  const known = new Map<string, Variable>()
  for (const [path, key] of allKeys()) known.set(variableOf(path), { path, key })
  for (const { name } of BROKER_SETTINGS) known.set(variableOf(`kafka.${name}`), { path: `kafka.${name}`, key: null })
  return known
}

function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw badSetting(`${name} is not valid JSON: ${error instanceof Error ? error.message : String(error)}`, error)
  }
}

/** A key of a block that is refused or ignored wherever it stands; the rest of the names nobody knows. */
function foreign(name: string, text: string, known: readonly string[]): Given {
  const path = pathOf(name)
  if (!isGatewayKey(path) && missingFeature(path) === null) throw unknownVariable(name, known)
  return { path, value: text, origin: { source: 'environment', name } }
}

/** `MOONMQ_SERVER__MAX_FRAME_SIZE` → `server.maxFrameSize`. */
function pathOf(name: string): string {
  const levels = name.slice(PREFIX.length).toLowerCase().split('__')
  return levels.map((level) => level.replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())).join('.')
}

function unknownVariable(name: string, known: readonly string[]): Error {
  const moved = MOVED.get(pathOf(name))
  const close = moved === undefined ? nearest(name, known) : variableOf(moved)
  return badSetting(`the environment variable ${name} is not a setting${close === null ? '' : `; did you mean ${close}?`}`)
}
