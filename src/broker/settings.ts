import { BROKER_SETTINGS } from '../config/broker-settings.ts'
import { groupSetting } from '../config/group-settings.ts'
import { kafkaNumber } from '../config/kafka-setting.ts'
import { defined } from '../core/assert.ts'
import { groupBounds } from '../metadata/config-plans.ts'
import type { Metadata, MetadataImage } from '../metadata/types.ts'

const DEFAULTS = new Map(BROKER_SETTINGS.map((setting) => [setting.name, setting.default]))

/** Kafka's broker settings in force: what was set while running, else what the configuration set, else the default of the table. */
export class BrokerSettings {
  /** Only what somebody set in the configuration. */
  readonly configured: ReadonlyMap<string, string>
  #image: (() => MetadataImage) | null = null
  #nodeId = 0
  /** Settings of brokers as they were when `#inForce` was made of them. */
  #seen: MetadataImage['brokerConfigs'] | null = null
  #inForce: ReadonlyMap<string, string>

  constructor(configured: ReadonlyMap<string, string>) {
    this.configured = configured
    this.#inForce = configured
  }

  /** From now on changes while running count, for who asks again. */
  follow(image: () => MetadataImage, nodeId: number): this {
    this.#image = image
    this.#nodeId = nodeId
    return this
  }

  /** Only what somebody set, wherever. */
  get set(): ReadonlyMap<string, string> {
    const image = this.#image?.()
    if (image !== undefined && image.brokerConfigs !== this.#seen) {
      this.#seen = image.brokerConfigs
      this.#inForce = brokerSettingsInForce(image, this.#nodeId, this.configured)
    }
    return this.#inForce
  }

  text(name: string): string {
    return this.set.get(name) ?? defined(DEFAULTS.get(name), `the broker setting ${name}`)
  }

  number(name: string): number {
    return kafkaNumber(this.text(name))
  }

  /** Every setting with its value. */
  all(): ReadonlyMap<string, string> {
    return new Map([...DEFAULTS, ...this.set])
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

/** Settings of groups in force: what the group was given, else the broker's, within the broker's bounds. */
export class GroupSettings {
  readonly #metadata: Metadata
  readonly #broker: BrokerSettings

  constructor(deps: { readonly metadata: Metadata; readonly broker: BrokerSettings }) {
    this.#metadata = deps.metadata
    this.#broker = deps.broker
  }

  /** Whether the group has a value of its own. */
  isSet(group: string, name: string): boolean {
    return this.#metadata.image.groupConfigs.get(group)?.has(name) === true
  }

  text(group: string, name: string): string {
    const setting = defined(groupSetting(name), `the group setting ${name}`)
    const own = this.#metadata.image.groupConfigs.get(group)?.get(name)
    if (own !== undefined) return own
    return setting.broker === null ? setting.default : this.#broker.text(setting.broker)
  }

  number(group: string, name: string): number {
    const value = kafkaNumber(this.text(group, name))
    const bounds = groupBounds(defined(groupSetting(name), `the group setting ${name}`), this.#broker.set)
    return bounds === null ? value : Math.max(bounds.least, Math.min(bounds.most, value))
  }
}
