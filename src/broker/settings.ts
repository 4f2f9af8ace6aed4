import { BROKER_SETTINGS } from '../config/broker-settings.ts'
import { kafkaNumber } from '../config/kafka-setting.ts'
import { defined } from '../core/assert.ts'
import type { MetadataImage } from '../metadata/types.ts'

const DEFAULTS = new Map(BROKER_SETTINGS.map((setting) => [setting.name, setting.default]))

/** Kafka's broker settings in force: what the configuration set, else the default of the table. */
export class BrokerSettings {
  /** Only what somebody set. */
  readonly configured: ReadonlyMap<string, string>

  constructor(configured: ReadonlyMap<string, string>) {
    this.configured = configured
  }

  text(name: string): string {
    return this.configured.get(name) ?? defined(DEFAULTS.get(name), `the broker setting ${name}`)
  }

  number(name: string): number {
    return kafkaNumber(this.text(name))
  }

  /** Every setting with its value. */
  all(): ReadonlyMap<string, string> {
    return new Map([...DEFAULTS, ...this.configured])
  }
}

/** Those that somebody set, strongest first: while running for this broker, while running for all, in the configuration. */
export function brokerSettingsInForce(
  image: MetadataImage,
  nodeId: number,
  configured: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const all = image.brokerConfigs.get('')
  const own = image.brokerConfigs.get(String(nodeId))
  if (all === undefined && own === undefined) return configured
  return new Map([...configured, ...(all ?? []), ...(own ?? [])])
}
