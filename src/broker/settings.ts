import { BROKER_SETTINGS } from '../config/broker-settings.ts'
import { kafkaNumber } from '../config/kafka-setting.ts'
import { defined } from '../core/assert.ts'

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
