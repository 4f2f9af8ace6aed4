import { MoonMQError } from '../core/errors.ts'
import type { UInt64 } from '../core/int64.ts'
import type { ByteReader } from '../core/reader.ts'
import type { ByteWriter } from '../core/writer.ts'
import { MAX } from './limits.ts'

/** How one field is read and written. `so far` holds the fields read before it, for those that are there only sometimes. */
export interface Field<T> {
  /** How the field is shown in the protocol's document. */
  readonly layout: string
  /** Fewest bytes of a value: a count is checked against what is left before memory is taken for it. */
  readonly leastBytes: number
  read(reader: ByteReader, soFar: Readonly<Record<string, unknown>>): T
  write(writer: ByteWriter, value: T, all: Readonly<Record<string, unknown>>): void
}

/** A field that may be absent. */
export interface MaybeField<T> extends Field<T | undefined> {
  readonly maybe: true
}

// A table of fields is read by name; what each holds is in its own type.
export type FieldTable = Readonly<Record<string, Field<never> & { readonly layout: string }>>

type MaybeKeys<F> = { [K in keyof F]: F[K] extends { readonly maybe: true } ? K : never }[keyof F]
type ReadOf<F> = F extends { read(...args: never[]): infer T } ? T : never

/** The message that a table of fields describes. */
export type MessageOf<F> = { readonly [K in Exclude<keyof F, MaybeKeys<F>>]: ReadOf<F[K]> } & {
  readonly [K in MaybeKeys<F>]?: Exclude<ReadOf<F[K]>, undefined> | undefined
}

export function badFrame(reason: string): MoonMQError {
  return new MoonMQError('BAD_FRAME', { reason })
}

export const u8: Field<number> = {
  layout: 'u8',
  leastBytes: 1,
  read: (reader) => reader.uint8(),
  write: (writer, value) => writer.uint8(value),
}

export const u16: Field<number> = {
  layout: 'u16',
  leastBytes: 2,
  read: (reader) => reader.uint16(),
  write: (writer, value) => writer.uint16(value),
}

export const u32: Field<number> = {
  layout: 'u32',
  leastBytes: 4,
  read: (reader) => reader.uint32(),
  write: (writer, value) => writer.uint32(value),
}

/** A number where it is safe, else a bigint, so that every value of the wire goes through unharmed (DESIGN D12). */
export const u64: Field<UInt64> = {
  layout: 'u64',
  leastBytes: 8,
  read: (reader) => reader.uint64(),
  write: (writer, value) => writer.uint64(value),
}

export const i32: Field<number> = {
  layout: 'i32',
  leastBytes: 4,
  read: (reader) => reader.int32(),
  write: (writer, value) => writer.int32(value),
}

/** A signed number within ±2^53; the extension has no others. */
export const i64: Field<number> = {
  layout: 'i64',
  leastBytes: 8,
  read: (reader) => {
    const value = reader.int64()
    if (!Number.isSafeInteger(value)) throw badFrame('a 64-bit number is beyond 2^53')
    return value
  },
  write: (writer, value) => writer.int64(value),
}

/** From 1 on the wire, from 0 inside; a 0 on the wire becomes −1, which is no partition. */
export const partition: Field<number> = {
  layout: 'u32 (from 1)',
  leastBytes: 4,
  read: (reader) => reader.uint32() - 1,
  write: (writer, value) => writer.uint32(value + 1),
}

/** A partition of the extension: from 0 on the wire too. */
export const partition0: Field<number> = { ...u32, layout: 'u32 (from 0)' }

/** 16 raw bytes. */
export const id16: Field<string> = {
  layout: '16 bytes',
  leastBytes: 16,
  read: (reader) => reader.uuid(),
  write: (writer, value) => writer.uuid(value),
}

export function readLength(reader: ByteReader, limit: number): number {
  const length = reader.uint32()
  if (length > limit) throw badFrame(`a string of ${length} bytes exceeds ${limit}`)
  return length
}

/** Text in UTF-8 of at most `limit` bytes. */
export function text(limit: number): Field<string> {
  return {
    layout: limit === MAX.string ? 'str' : `str ≤ ${limit}`,
    leastBytes: 4,
    read: (reader) => reader.utf8(readLength(reader, limit)),
    write: writeText,
  }
}

function writeText(writer: ByteWriter, value: string): void {
  const length = Buffer.byteLength(value)
  writer.uint32(length)
  writer.utf8(value, length)
}

/** Bytes that are no text: a view of the frame. */
export function bytes(limit: number): Field<Buffer> {
  return {
    layout: limit === MAX.string ? 'str' : `str ≤ ${limit}`,
    leastBytes: 4,
    read: (reader) => reader.view(readLength(reader, limit)),
    write: writeBytes,
  }
}

function writeBytes(writer: ByteWriter, value: Buffer): void {
  writer.uint32(value.length)
  writer.bytes(value)
}

/** Bytes or null (length −1): the extension's keys and values. Their length is bounded by the frame alone. */
export const nullableBytes: Field<Buffer | null> = {
  layout: 'bytes?',
  leastBytes: 4,
  read: (reader) => {
    const length = reader.int32()
    if (length < -1) throw badFrame(`a length of ${length}`)
    return length === -1 ? null : reader.view(length)
  },
  write: (writer, value) => {
    writer.int32(value === null ? -1 : value.length)
    if (value !== null) writer.bytes(value)
  },
}

/** Absent when the payload ends before it; later fields are absent then too. */
export function optional<T>(field: Field<T>): MaybeField<T> {
  return {
    maybe: true,
    layout: `[${field.layout}]`,
    leastBytes: 0,
    read: (reader, soFar) => (reader.remaining === 0 ? undefined : field.read(reader, soFar)),
    write: (writer, value, all) => {
      if (value !== undefined) field.write(writer, value, all)
    },
  }
}

/** There only when the condition holds for the fields before it. */
export function onlyIf<T>(when: string, holds: (fields: Readonly<Record<string, unknown>>) => boolean, field: Field<T>): MaybeField<T> {
  return {
    maybe: true,
    layout: `${field.layout} if ${when}`,
    leastBytes: 0,
    read: (reader, soFar) => (holds(soFar) ? field.read(reader, soFar) : undefined),
    write: (writer, value, all) => {
      if (holds(all)) field.write(writer, value as T, all)
    },
  }
}

export interface CountLimit {
  readonly max: number
  readonly min?: number
}

export function readCount(count: number, limit: CountLimit, leastBytes: number, reader: ByteReader): number {
  const min = limit.min ?? 0
  if (count < min || count > limit.max) throw badFrame(`a count of ${count} is outside ${min}..${limit.max}`)
  if (count * leastBytes > reader.remaining) throw badFrame(`a count of ${count} does not fit the ${reader.remaining} bytes left`)
  return count
}

const NOTHING: Readonly<Record<string, unknown>> = {}

/** A count, then that many values. */
export function list<T>(item: Field<T>, limit: CountLimit, countField: Field<number> = u32): Field<readonly T[]> {
  return {
    layout: `${countField.layout} n ${limit.min ?? 0}..${limit.max}, n × (${item.layout})`,
    leastBytes: countField.leastBytes,
    read: (reader) => {
      const count = readCount(countField.read(reader, NOTHING), limit, Math.max(1, item.leastBytes), reader)
      const out: T[] = []
      for (let i = 0; i < count; i++) out.push(item.read(reader, NOTHING))
      return out
    },
    write: (writer, values) => {
      countField.write(writer, values.length, NOTHING)
      for (const value of values) item.write(writer, value, NOTHING)
    },
  }
}

/** Several fields in a row. */
export function struct<F extends Readonly<Record<string, { readonly layout: string }>>>(fields: F): Field<MessageOf<F>> {
  const entries = Object.entries(fields) as unknown as readonly (readonly [string, Field<unknown>])[]
  return {
    layout: entries.map(([name, field]) => `${field.layout} ${name}`).join(', '),
    leastBytes: entries.reduce((sum, [, field]) => sum + field.leastBytes, 0),
    read: (reader) => {
      const out: Record<string, unknown> = {}
      for (const [name, field] of entries) {
        const value = field.read(reader, out)
        if (value !== undefined) out[name] = value
      }
      return out as MessageOf<F>
    },
    write: (writer, value) => {
      const all = value as Readonly<Record<string, unknown>>
      for (const [name, field] of entries) field.write(writer, all[name], all)
    },
  }
}

/** A count, then pairs of text, in the order of the map. The last value wins for a key that comes twice. */
export function textMap(keyLimit: number, valueLimit: number, limit: CountLimit): Field<ReadonlyMap<string, string>> {
  const pair = struct({ key: text(keyLimit), value: text(valueLimit) })
  const pairs = list(pair, limit)
  return {
    layout: pairs.layout,
    leastBytes: pairs.leastBytes,
    read: (reader, soFar) => new Map(pairs.read(reader, soFar).map(({ key, value }) => [key, value])),
    write: (writer, values, all) =>
      pairs.write(
        writer,
        [...values].map(([key, value]) => ({ key, value })),
        all,
      ),
  }
}

/** The fastest form of a struct: written by hand, shown as the struct. A test compares the two. */
export function byHand<T>(shown: Field<T>, read: (reader: ByteReader) => T, write: (writer: ByteWriter, value: T) => void): Field<T> {
  return { layout: shown.layout, leastBytes: shown.leastBytes, read, write }
}
