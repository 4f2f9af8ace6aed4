import type { Environment } from './environment.ts'
import { badSetting, type ConfigFile } from './overlay.ts'
import { type ConfigInputs, type ResolvedConfig, resolveConfig } from './resolve.ts'

export interface LoadInputs extends Pick<ConfigInputs, 'flags'> {
  /** Text of a file, or null when there is none of that name. Relative names are those of the working folder. */
  readonly readText: (path: string) => Promise<string | null>
  readonly env: Environment
  /** `--config FILE`: read in place of `moonmq.json`; it must exist. */
  readonly configFile: string | null
}

export interface LoadedConfig extends ResolvedConfig {
  readonly environment: string
  /** Files that were read, weakest first. */
  readonly files: readonly string[]
}

const DEFAULT_ENVIRONMENT = 'development'

/** Finds the settings files, reads them through `readText` and resolves everything. Throws SETTING_INVALID. */
export async function loadConfig({ readText, env, flags, configFile }: LoadInputs): Promise<LoadedConfig> {
  const environment = environmentName(env)
  const base = await findBase(readText, configFile)
  const files: ConfigFile[] = []
  if (base) {
    files.push(base)
    const overlay = await findOverlay(readText, base, environment)
    if (overlay) files.push(overlay)
  } else {
    const name = `moonmq.${environment}.json`
    const text = await readText(name)
    if (text !== null) files.push({ name, text, style: 'moonmq' })
  }
  const resolved = resolveConfig({ files, env, flags })
  return { ...resolved, environment, files: files.map((file) => file.name) }
}

/** Part of a file's name, so it may not lead to another folder. */
function environmentName(env: Environment): string {
  const name = env.MOONMQ_ENVIRONMENT || DEFAULT_ENVIRONMENT
  if (/^[A-Za-z0-9_-]{1,64}$/.test(name)) return name
  throw badSetting(`MOONMQ_ENVIRONMENT=${JSON.stringify(name)} is not valid: expected 1..64 letters, digits, _ or -`)
}

async function findBase(readText: LoadInputs['readText'], configFile: string | null): Promise<ConfigFile | null> {
  if (configFile !== null) {
    const text = await readText(configFile)
    if (text === null) throw badSetting(`the settings file ${configFile} does not exist`)
    return { name: configFile, text, style: isAppsettings(configFile) ? 'appsettings' : 'moonmq' }
  }
  const own = await readText('moonmq.json')
  const other = await readText('appsettings.json')
  if (own !== null && other !== null) {
    throw badSetting('moonmq.json and appsettings.json are both here and may contradict each other; keep one, or name it with --config')
  }
  if (own !== null) return { name: 'moonmq.json', text: own, style: 'moonmq' }
  return other === null ? null : { name: 'appsettings.json', text: other, style: 'appsettings' }
}

/** `moonmq.production.json` beside `moonmq.json`. `appsettings` files are often named with a capital: `appsettings.Production.json`. */
async function findOverlay(readText: LoadInputs['readText'], base: ConfigFile, environment: string): Promise<ConfigFile | null> {
  const stem = base.name.replace(/\.json$/, '')
  const names = [`${stem}.${environment}.json`]
  if (base.style === 'appsettings') names.push(`${stem}.${environment.charAt(0).toUpperCase()}${environment.slice(1)}.json`)
  for (const name of new Set(names)) {
    const text = await readText(name)
    if (text !== null) return { name, text, style: base.style }
  }
  return null
}

function isAppsettings(path: string): boolean {
  return /(^|[\\/])appsettings[^\\/]*$/i.test(path)
}
