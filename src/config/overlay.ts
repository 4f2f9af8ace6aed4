import { MoonMQError } from '../core/errors.ts'

/** Where a value came from. */
export interface Origin {
  readonly source: 'default' | 'file' | 'environment' | 'flag'
  /** Name of the file, variable or flag; '' for a default. */
  readonly name: string
}

/** A value that somebody gave, by the full path of its key. Later ones win. */
export interface Given {
  readonly path: string
  readonly value: unknown
  readonly origin: Origin
}

/** The text of a settings file. `appsettings`: keys in PascalCase, as in `appsettings.json`. */
export interface ConfigFile {
  readonly name: string
  readonly text: string
  readonly style: 'moonmq' | 'appsettings'
}

/** Blocks that are values as a whole: a list, and names with dots in them. */
const WHOLE = new Set(['listeners'])

/** Names of `appsettings.json` that have another place here. */
export const MOVED: ReadonlyMap<string, string> = new Map([
  ['server.metricsHost', 'http.host'],
  ['server.metricsPort', 'http.port'],
])

/** Deeper than any setting: a file that nests more is not one of ours. */
const MAX_DEPTH = 16
const MAX_FILE_CHARS = 4 * 1024 * 1024

export function badSetting(reason: string, cause?: unknown): MoonMQError {
  return new MoonMQError('SETTING_INVALID', { reason }, cause)
}

/** What a file gives. Keys that start with `_` are comments. Throws SETTING_INVALID when it is not a JSON object. */
export function readOverlay(file: ConfigFile): Given[] {
  const origin: Origin = { source: 'file', name: file.name }
  const given: Given[] = []
  const visit = (node: object, prefix: string, depth: number): void => {
    if (depth > MAX_DEPTH) throw badSetting(`${file.name}: ${prefix} is nested too deeply`)
    for (const [name, value] of Object.entries(node)) {
      // Editors find the schema of a file by this key.
      if (name.startsWith('_') || (name === '$schema' && depth === 0)) continue
      const path = `${prefix}${keyName(name, prefix, file.style)}`
      if (isBlock(value) && !WHOLE.has(path)) visit(value, `${path}.`, depth + 1)
      else given.push(file.style === 'appsettings' ? moved({ path, value, origin }) : { path, value, origin })
    }
  }
  visit(parseObject(file), '', 0)
  return given
}

function parseObject(file: ConfigFile): object {
  if (file.text.length > MAX_FILE_CHARS) throw badSetting(`${file.name} is larger than ${MAX_FILE_CHARS} characters`)
  let parsed: unknown
  try {
    // Editors on some systems put a byte order mark before the text.
    parsed = JSON.parse(file.text.replace(/^\uFEFF/, ''))
  } catch (error) {
    throw badSetting(`${file.name} is not valid JSON: ${error instanceof Error ? error.message : String(error)}`, error)
  }
  if (!isObject(parsed)) throw badSetting(`${file.name} must hold one JSON object`)
  return parsed
}

function keyName(name: string, prefix: string, style: ConfigFile['style']): string {
  // Kafka's names are the same in every file.
  if (style === 'moonmq' || prefix === 'kafka.') return name
  return camelCase(name)
}

/** `MaxConnectionsPerIP` → `maxConnectionsPerIp`. */
export function camelCase(name: string): string {
  const words = name.replace(/[A-Z]{2,}(?=[A-Z][a-z]|\b|$)/g, (run) => run.charAt(0) + run.slice(1).toLowerCase())
  return words.charAt(0).toLowerCase() + words.slice(1)
}

/** In `appsettings.json` a metrics port of 0 is "off", as null is. */
function moved(given: Given): Given {
  const path = MOVED.get(given.path)
  if (path === undefined) return given
  return { ...given, path, value: path === 'http.port' && given.value === 0 ? null : given.value }
}

/** An empty block is a value of its own: `"tls": {}` asks for TLS with all its defaults. */
function isBlock(value: unknown): value is object {
  return isObject(value) && Object.keys(value).some((name) => !name.startsWith('_'))
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
