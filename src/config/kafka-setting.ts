import { MoonMQError } from '../core/errors.ts'
import { nearest } from '../core/nearest.ts'

/** Kafka's kinds of setting; `KAFKA_CONFIG_TYPE` has the number of each on the wire (DescribeConfigs v3+). */
export type KafkaSettingType = 'boolean' | 'string' | 'int' | 'short' | 'long' | 'double' | 'list'

export const KAFKA_CONFIG_TYPE: Readonly<Record<KafkaSettingType, number>> = {
  boolean: 1,
  string: 2,
  int: 3,
  short: 4,
  long: 5,
  double: 6,
  list: 7,
}

/** A setting under one of Kafka's dotted names. Values are text, as on Kafka's wire. */
export interface KafkaSetting {
  readonly name: string
  readonly type: KafkaSettingType
  readonly default: string
  readonly min?: number
  readonly max?: number
  /** The words allowed; of a list, of each element. */
  readonly values?: readonly string[]
  /** What a text must look like, and that in words. */
  readonly pattern?: { readonly expression: RegExp; readonly words: string }
  /** `bytes`, `ms`, `minutes`, `hours`, or '' for a plain count or word. */
  readonly unit: string
  readonly doc: string
  /** False: checked and stored, and without effect in this version. */
  readonly inForce: boolean
}

/** Kafka's "no limit" of a long. As a number it is `Number.MAX_SAFE_INTEGER`. */
export const LONG_MAX = '9223372036854775807'

const LARGEST = BigInt(LONG_MAX)
const INT_MAX = 2 ** 31 - 1

const WHOLE_LIMITS = {
  int: [-(2 ** 31), INT_MAX],
  short: [-(2 ** 15), 2 ** 15 - 1],
  long: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
} as const

/** The value in the form that is stored; throws CONFIG_INVALID with the range when it is not acceptable. */
export function checkKafkaSetting(setting: KafkaSetting, value: string): string {
  const text = value.trim()
  const reason = problemOf(setting, text)
  if (reason !== null) throw new MoonMQError('CONFIG_INVALID', { key: setting.name, value, reason })
  return setting.type === 'boolean' ? text.toLowerCase() : text
}

/** The value as a number. It must have been checked. Longs beyond 2^53 are "no limit" and come out as the largest safe integer. */
export function kafkaNumber(value: string): number {
  const number = Number(value)
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, number))
}

/** What is accepted, in words: `1..2147483647 bytes`, `one of delete, compact`. */
export function kafkaRange(setting: KafkaSetting): string {
  if (setting.pattern) return setting.pattern.words
  if (setting.values) return setting.type === 'list' ? `a list of ${setting.values.join(', ')}` : `one of ${setting.values.join(', ')}`
  if (setting.type === 'boolean') return 'true or false'
  if (setting.type === 'string') return 'text'
  if (setting.type === 'list') return 'a list, elements separated by commas'
  const unit = setting.unit === '' ? '' : ` ${setting.unit}`
  if (setting.type === 'double') return `a number ${setting.min ?? ''}..${setting.max ?? ''}${unit}`
  const [lowest, highest] = WHOLE_LIMITS[setting.type]
  const top = setting.max ?? (setting.type === 'long' ? LONG_MAX : highest)
  return `a whole number ${setting.min ?? lowest}..${top}${unit}`
}

function problemOf(setting: KafkaSetting, text: string): string | null {
  const expected = `expected ${kafkaRange(setting)}`
  if (setting.pattern?.expression.test(text) === false) return expected
  switch (setting.type) {
    case 'boolean':
      return /^(true|false)$/i.test(text) ? null : expected
    case 'string':
      return setting.values && !setting.values.includes(text) ? expected : null
    case 'list':
      // Kafka's tools refuse a list with an empty element; no elements at all is a list, too.
      if (text !== '' && text.split(',').some((element) => element.trim() === '')) return `${expected}, without empty elements`
      return setting.values && !elementsOf(text).every((element) => setting.values?.includes(element)) ? expected : null
    case 'double':
      return /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i.test(text) && within(setting, Number(text)) ? null : expected
    default: {
      if (!/^[+-]?\d{1,20}$/.test(text)) return expected
      // Beyond 2^53 digits decide: what no long holds is refused by every Kafka tool that reads the value back.
      if (BigInt(text.replace(/^[+-]/, '')) > LARGEST) return expected
      const number = kafkaNumber(text)
      const [lowest, highest] = WHOLE_LIMITS[setting.type]
      return number >= lowest && number <= highest && within(setting, number) ? null : expected
    }
  }
}

function within(setting: KafkaSetting, number: number): boolean {
  return number >= (setting.min ?? Number.NEGATIVE_INFINITY) && number <= (setting.max ?? Number.POSITIVE_INFINITY)
}

/** Elements of a list value. */
export function elementsOf(text: string): string[] {
  return text
    .split(',')
    .map((element) => element.trim())
    .filter((element) => element !== '')
}

/** Checks a value by its name in one table; throws CONFIG_INVALID for an unknown name, naming the nearest, and for a bad value. */
export function checkNamedSetting(
  kind: 'broker' | 'topic' | 'group' | 'client metrics',
  table: ReadonlyMap<string, KafkaSetting>,
  name: string,
  value: string,
): string {
  const setting = table.get(name)
  if (setting) return checkKafkaSetting(setting, value)
  const close = nearest(name, table.keys())
  const hint = close === null ? '' : `; did you mean ${close}?`
  throw new MoonMQError('CONFIG_INVALID', { key: name, value, reason: `there is no such ${kind} setting${hint}` })
}
