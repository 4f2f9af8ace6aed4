import { MoonMQError } from '../core/errors.ts'
import { checkObject } from './arguments.ts'
import type { Acked, Bytes, ClientRecord, RecordHeader, RecordToSend } from './types.ts'

/** How values of a program become bytes of a record, and back. A null is a tombstone or a missing key; `decode` sees it too. */
export interface Serde<T> {
  encode(value: T): Bytes | null | Promise<Bytes | null>
  decode(bytes: Buffer | null): T | Promise<T>
}

/** What https://standardschema.dev describes: the validators of zod, valibot, arktype and others have it. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}

export interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export type StandardResult<Output> = { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly StandardIssue[] }

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Text as UTF-8. Bytes that are none are refused; a missing value stays null. */
export const text: Serde<string | null> = {
  encode: (value) => value,
  decode: (bytes) => (bytes === null ? null : utf8(bytes)),
}

/** Bytes as they are. */
export const bytes: Serde<Buffer | null> = {
  encode: (value) => value,
  decode: (value) => value,
}

/**
 * JSON, checked by a validator where one is given: what is sent before it leaves, what is read before it reaches the program, which gets
 * the validator's output. A missing value is read as null, and null is sent as the JSON text; `nullable` sends it as a tombstone.
 */
export function json(): Serde<unknown>
export function json<T>(schema: StandardSchema<T>): Serde<T>
export function json(schema?: StandardSchema): Serde<unknown> {
  return {
    encode: async (value) => {
      if (schema !== undefined) await validated(schema, value)
      const encoded = JSON.stringify(value) as string | undefined
      if (encoded === undefined) throw refused(`a ${typeof value} has no JSON form`)
      return encoded
    },
    decode: (found) => {
      const value = found === null ? null : parsed(utf8(found))
      return schema === undefined ? value : validated(schema, value)
    },
  }
}

/** The same, but null is a value of its own: a tombstone, or no key. */
export function nullable<T>(inner: Serde<T>): Serde<T | null> {
  return {
    encode: (value) => (value === null ? null : inner.encode(value)),
    decode: (found) => (found === null ? null : inner.decode(found)),
  }
}

export interface TypedRecord<K, V, R extends ClientRecord = ClientRecord> {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly timestampMs: number
  readonly key: K
  readonly value: V
  readonly headers: readonly RecordHeader[]
  /** The record as it was read, with what it can do. */
  readonly record: R
}

export interface TypedRecordToSend<K, V> {
  readonly key: K
  readonly value: V
  readonly headers?: NonNullable<RecordToSend['headers']>
  readonly partition?: number
}

export interface TopicFormatOptions<R extends ClientRecord> {
  /** Gets a record that does not have the topic's form, which is then left out. Without it such a record ends the loop. */
  readonly onInvalid?: (record: R, error: MoonMQError) => void | Promise<void>
}

/** What the records of a topic look like; works with every producer and everything that is read from. */
export class TopicFormat<K, V> {
  readonly topic: string
  readonly #key: Serde<K>
  readonly #value: Serde<V>

  constructor(topic: string, serdes: { readonly key: Serde<K>; readonly value: Serde<V> }) {
    this.topic = topic
    this.#key = serdes.key
    this.#value = serdes.value
  }

  /** Rejects with INVALID_RECORD before anything is sent when the record does not have the topic's form. */
  async send(producer: { send(topic: string, record: RecordToSend): Promise<Acked> }, record: TypedRecordToSend<K, V>): Promise<Acked> {
    checkObject('a record', record, 'give an object with key and value')
    const { key, value, ...rest } = record
    return producer.send(this.topic, { ...rest, key: await this.#key.encode(key), value: await this.#value.encode(value) })
  }

  /** The records of a reader or a consumer, decoded. What the source does between two of them, such as committing, it still does. */
  async *read<R extends ClientRecord>(source: AsyncIterable<R>, options: TopicFormatOptions<R> = {}): AsyncGenerator<TypedRecord<K, V, R>> {
    for await (const record of source) {
      let typed: TypedRecord<K, V, R>
      try {
        typed = await this.#typed(record)
      } catch (cause) {
        const { topic, partition, offset } = record
        const reason = cause instanceof Error ? cause.message : String(cause)
        const error = refused(
          `the record at offset ${offset} of ${topic}-${partition} does not have the form of the topic: ${reason}`,
          cause,
        )
        if (options.onInvalid === undefined) throw error
        await options.onInvalid(record, error)
        continue
      }
      yield typed
    }
  }

  async #typed<R extends ClientRecord>(record: R): Promise<TypedRecord<K, V, R>> {
    const { topic, partition, offset, timestampMs, headers } = record
    const key = await this.#key.decode(record.key)
    const value = await this.#value.decode(record.value)
    return { topic, partition, offset, timestampMs, headers, key, value, record }
  }
}

function utf8(from: Buffer): string {
  try {
    return strictUtf8.decode(from)
  } catch (error) {
    throw refused('the bytes are no UTF-8 text', error)
  }
}

function parsed(from: string): unknown {
  try {
    return JSON.parse(from)
  } catch (error) {
    throw refused(`no JSON: ${error instanceof Error ? error.message : String(error)}`, error)
  }
}

async function validated<T>(schema: StandardSchema<T>, value: unknown): Promise<T> {
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return result.value
  throw refused(result.issues.map(issueText).join('; ') || 'refused by the validator')
}

function issueText({ message, path = [] }: StandardIssue): string {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return keys.length === 0 ? message : `${keys.join('.')}: ${message}`
}

function refused(reason: string, cause?: unknown): MoonMQError {
  return new MoonMQError('INVALID_RECORD', {}, cause, reason)
}
