import { checkNamedSetting, type KafkaSetting } from './kafka-setting.ts'

/** Settings of a subscription to client metrics (Kafka's resource type 16). They are kept for the tools; nothing is collected. */
export const TELEMETRY_SETTINGS: readonly KafkaSetting[] = [
  row('interval.ms', 'int', '300000', 'ms', { min: 100, max: 3_600_000 }, 'Time between two reports of a client.'),
  row('match', 'list', '', '', {}, 'Clients that report: attribute=regular expression, all of which must match.'),
  row('metrics', 'list', '', '', {}, 'Prefixes of the names of the metrics; * = all.'),
]

function row(
  name: string,
  type: 'int' | 'list',
  fallback: string,
  unit: string,
  bounds: { min?: number; max?: number },
  doc: string,
): KafkaSetting {
  return { name, type, default: fallback, unit, doc, inForce: false, ...bounds }
}

const BY_NAME: ReadonlyMap<string, KafkaSetting> = new Map(TELEMETRY_SETTINGS.map((setting) => [setting.name, setting]))

export function telemetrySetting(name: string): KafkaSetting | undefined {
  return BY_NAME.get(name)
}

/** The value in the form that is stored; throws CONFIG_INVALID. */
export function checkTelemetrySetting(name: string, value: string): string {
  return checkNamedSetting('client metrics', BY_NAME, name, value)
}
