import { BROKER_SETTINGS } from '../config/broker-settings.ts'
import { groupSetting } from '../config/group-settings.ts'
import { kafkaNumber } from '../config/kafka-setting.ts'
import { defined } from '../core/assert.ts'
import { groupBounds } from '../metadata/config-plans.ts'
import type { Metadata, MetadataImage } from '../metadata/types.ts'

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

/** Settings of groups in force: what the group was given, else the broker's, while running changes included, within the broker's bounds. */
export class GroupSettings {
  readonly #metadata: Metadata
  readonly #nodeId: number
  readonly #configured: ReadonlyMap<string, string>

  constructor(
    deps: { readonly metadata: Metadata },
    options: { readonly nodeId: number; readonly configured: ReadonlyMap<string, string> },
  ) {
    this.#metadata = deps.metadata
    this.#nodeId = options.nodeId
    this.#configured = options.configured
  }

  text(group: string, name: string): string {
    const { image } = this.#metadata
    const setting = defined(groupSetting(name), `the group setting ${name}`)
    const own = image.groupConfigs.get(group)?.get(name)
    if (own !== undefined) return own
    if (setting.broker === null) return setting.default
    return new BrokerSettings(brokerSettingsInForce(image, this.#nodeId, this.#configured)).text(setting.broker)
  }

  number(group: string, name: string): number {
    const value = kafkaNumber(this.text(group, name))
    const broker = brokerSettingsInForce(this.#metadata.image, this.#nodeId, this.#configured)
    const bounds = groupBounds(defined(groupSetting(name), `the group setting ${name}`), broker)
    return bounds === null ? value : Math.max(bounds.least, Math.min(bounds.most, value))
  }
}
