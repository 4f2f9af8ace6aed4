import * as v from 'valibot'

/** What may be said about a setting besides its default. */
export interface KeyFacts {
  readonly doc: string
  /** `s`, `ms`, `bytes`; '' for a count, a word or a name. */
  readonly unit?: string
  /** Least number; of a text, least length. */
  readonly min?: number
  readonly max?: number
  /** Words allowed, in the spelling in which they are kept; given in any case. */
  readonly values?: readonly string[]
  /** Null is a value, with this meaning. */
  readonly nullMeans?: string
  /** Never shown or logged. */
  readonly secret?: boolean
  /** Takes effect without a restart. */
  readonly reloadable?: boolean
  /** True: accepted and kept, and without effect in this version. */
  readonly idle?: boolean
}

export type KeyKind = 'boolean' | 'integer' | 'number' | 'string'

/** One setting, described once: validation, documents, the editors' schema and `config show` all come from it. */
export interface Key<T = unknown> extends KeyFacts {
  readonly kind: KeyKind
  readonly default: T
}

export function flag(fallback: boolean, facts: KeyFacts): Key<boolean> {
  return { kind: 'boolean', default: fallback, ...facts }
}

export function integer(fallback: number, facts: KeyFacts): Key<number> {
  return { kind: 'integer', default: fallback, ...facts }
}

export function integerOrNull(fallback: number | null, facts: KeyFacts & { nullMeans: string }): Key<number | null> {
  return { kind: 'integer', default: fallback, ...facts }
}

export function decimal(fallback: number, facts: KeyFacts): Key<number> {
  return { kind: 'number', default: fallback, ...facts }
}

export function text(fallback: string, facts: KeyFacts): Key<string> {
  return { kind: 'string', default: fallback, ...facts }
}

export function textOrNull(fallback: string | null, facts: KeyFacts & { nullMeans: string }): Key<string | null> {
  return { kind: 'string', default: fallback, ...facts }
}

/** One of a few words. */
export function word<const W extends string>(fallback: NoInfer<W>, values: readonly W[], facts: KeyFacts): Key<W> {
  return { kind: 'string', default: fallback, values, ...facts }
}

/** What is accepted, for people: `a whole number 1..65535`, `one of none, leader, all`. */
export function rangeOf(key: Key): string {
  const unit = key.unit === undefined ? '' : ` ${key.unit}`
  const orNull = key.nullMeans === undefined ? '' : `, or null (${key.nullMeans})`
  if (key.values) return `one of ${key.values.join(', ')}${orNull}`
  if (key.kind === 'boolean') return `true or false${orNull}`
  if (key.kind === 'string') return `text${key.min ? ', not empty' : ''}${orNull}`
  const kind = key.kind === 'integer' ? 'a whole number' : 'a number'
  const limits = key.min === undefined && key.max === undefined ? '' : ` ${key.min ?? ''}..${key.max ?? ''}`
  return `${kind}${limits}${unit}${orNull}`
}

/** Checks a value as it stands in a file. The words of a list of values are taken in any case. */
export function schemaOf(key: Key): v.GenericSchema<unknown, unknown> {
  const schema = bareSchema(key)
  return key.nullMeans === undefined ? schema : v.nullable(schema)
}

function bareSchema(key: Key): v.GenericSchema<unknown, unknown> {
  if (key.values) {
    const byLowerCase = new Map(key.values.map((value) => [value.toLowerCase(), value]))
    return v.pipe(
      v.string(),
      v.check((value) => byLowerCase.has(value.toLowerCase())),
      v.transform((value) => byLowerCase.get(value.toLowerCase()) ?? value),
    )
  }
  if (key.kind === 'boolean') return v.boolean()
  if (key.kind === 'string') return v.pipe(v.string(), v.minLength(key.min ?? 0))
  const least = v.minValue<number, number>(key.min ?? Number.MIN_SAFE_INTEGER)
  const most = v.maxValue<number, number>(key.max ?? Number.MAX_SAFE_INTEGER)
  return key.kind === 'integer' ? v.pipe(v.number(), v.integer(), least, most) : v.pipe(v.number(), least, most)
}

/** The accepted value, or undefined when it is not acceptable. No setting has undefined as a value. */
export function acceptedValue(key: Key, value: unknown): unknown {
  const result = v.safeParse(schemaOf(key), value)
  return result.success ? result.output : undefined
}

/** Text of a variable or a flag as the value that a file would hold; text of another kind stays text and is then refused. */
export function valueFromText(key: Key, given: string): unknown {
  if (key.nullMeans !== undefined && given === 'null') return null
  if (key.kind === 'boolean' && /^(true|false)$/i.test(given)) return given.toLowerCase() === 'true'
  if ((key.kind === 'integer' || key.kind === 'number') && /^-?\d+(\.\d+)?$/.test(given)) return Number(given)
  return given
}
