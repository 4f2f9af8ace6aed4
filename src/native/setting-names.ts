import { TOPIC_SETTINGS, type TopicSetting, topicSetting } from '../config/topic-settings.ts'
import { MoonMQError } from '../core/errors.ts'

/** The native protocol's names of settings and their units, beside Kafka's. */

const BY_NATIVE_NAME: ReadonlyMap<string, TopicSetting> = new Map(
  TOPIC_SETTINGS.flatMap((setting) => (setting.native === null ? [] : [[setting.native.name, setting] as const])),
)

/** A setting with its value as a version-1 client reads it; those that it has no name for keep their own. */
export function toNative(name: string, value: string): readonly [name: string, value: string] {
  const native = topicSetting(name)?.native ?? null
  if (native === null) return [name, value]
  return [native.name, native.factor > 1 ? String(Math.trunc(Number(value) / native.factor)) : value]
}

/** Decimal, with the fraction and the exponent that a number of the version-1 clients may have. */
const NUMBER = /^[+]?(\d+\.?\d*|\.\d+)(e[+]?\d{1,2})?$/i
const POLICIES: ReadonlySet<string> = new Set(['delete', 'compact', 'compact,delete'])

/**
 * The setting that a client names, by either name, with its value in Kafka's form: numbers under a native name are positive and lose
 * their fraction (docs/PROTOCOL.md). Throws CONFIG_INVALID.
 */
export function fromNative(name: string, value: string): readonly [name: string, value: string] {
  const setting = BY_NATIVE_NAME.get(name)
  if (setting === undefined || setting.native === null) return [name, value]
  if (setting.native.factor > 0) return [setting.name, wholeNumber(name, value, setting.native.factor)]
  if (name === 'cleanup_policy' && !POLICIES.has(value)) {
    throw new MoonMQError('CONFIG_INVALID', { key: name, value: printable(value), reason: 'expected delete, compact or compact,delete' })
  }
  return [setting.name, value]
}

/** The setting that a client names, by either name. */
export function fromNativeName(name: string): string {
  return BY_NATIVE_NAME.get(name)?.name ?? name
}

function wholeNumber(name: string, value: string, factor: number): string {
  const number = NUMBER.test(value) ? Math.trunc(Number(value)) * factor : 0
  if (number < 1 || !Number.isSafeInteger(number)) {
    throw new MoonMQError('CONFIG_INVALID', { key: name, value: printable(value), reason: 'expected a number of at least 1' })
  }
  return String(number)
}

/** A client's text in a message that may land in a log. */
function printable(value: string): string {
  return value.replaceAll(/\p{Cc}/gu, '?')
}
