import { BROKER_SETTINGS } from './broker-settings.ts'
import { variableOf } from './environment.ts'
import { kafkaRange } from './kafka-setting.ts'
import { rangeOf } from './key.ts'
import { allKeys } from './keys.ts'
import type { ResolvedConfig } from './resolve.ts'

/** One line of `moonmq config show`. */
export interface ShownSetting {
  readonly key: string
  /** Secrets are `(secret)` when set. */
  readonly value: unknown
  readonly default: unknown
  /** `default`, or the name of the file, variable or flag. */
  readonly from: string
  readonly source: 'default' | 'file' | 'environment' | 'flag'
  readonly unit: string
  readonly range: string
  readonly variable: string
  readonly reloadable: boolean
}

/** Every setting with its value and where it came from, in the order of the tables. */
export function shownSettings({ settings, origins }: ResolvedConfig): ShownSetting[] {
  const from = (path: string) => {
    const origin = origins.get(path)
    return { from: origin?.name ?? 'default', source: origin?.source ?? ('default' as const) }
  }
  const rows: ShownSetting[] = []
  for (const [path, key] of allKeys()) {
    const value = valueAt(settings, path)
    rows.push({
      key: path,
      value: key.secret && value !== '' ? '(secret)' : value,
      default: key.default,
      ...from(path),
      unit: key.unit ?? '',
      range: rangeOf(key),
      variable: variableOf(path),
      reloadable: key.reloadable ?? false,
    })
  }
  rows.push({
    key: 'listeners',
    value: settings.listeners,
    default: 'one of server.host and server.port',
    ...from('listeners'),
    unit: '',
    range: 'a list of listeners',
    variable: 'MOONMQ_LISTENERS',
    reloadable: false,
  })
  for (const setting of BROKER_SETTINGS) {
    const path = `kafka.${setting.name}`
    rows.push({
      key: path,
      value: settings.kafka.get(setting.name) ?? setting.default,
      default: setting.default,
      ...from(path),
      unit: setting.unit,
      range: kafkaRange(setting),
      variable: variableOf(path),
      reloadable: false,
    })
  }
  return rows
}

function valueAt(settings: object, path: string): unknown {
  let node: unknown = settings
  for (const name of path.split('.')) node = (node as Record<string, unknown>)[name]
  return node
}
