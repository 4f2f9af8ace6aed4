import { MoonMQError } from '../core/errors.ts'
import type { ByteReader } from '../core/reader.ts'
import { ZERO_UUID } from '../core/uuid.ts'
import { ByteWriter } from '../core/writer.ts'
import { type BodyData, type FieldData, isFlexible, within } from './fields.ts'
import {
  bad,
  MessageReader,
  readBytes,
  readHash,
  readLength,
  readString,
  writeBytes,
  writeHash,
  writeLength,
  writeLong,
  writeString,
} from './primitives.ts'

/**
 * Turns a message definition and a version into closures, one a field, that are built once. Decoding gives plain objects in which every
 * field of the definition is present, with its default where the version lacks it. Encoding takes objects that may leave fields out.
 */

/** What an encoder accepts for a decoded type: fields may be missing, bytes may come in parts. */
export type Input<T> = T extends Buffer
  ? Buffer | readonly Buffer[]
  : T extends readonly (infer E)[]
    ? readonly Input<E>[]
    : T extends object
      ? { readonly [K in keyof T]?: Input<T[K]> | undefined }
      : T

export interface Codec<T> {
  /** Reads one value and leaves the reader after it. Throws BAD_FRAME. */
  decode(reader: ByteReader): T
  /** Throws INTERNAL when the value cannot be said in this version. */
  encode(writer: ByteWriter, value: Input<T>): void
  /** The same in steps of so many array elements, between which others may have their turn. */
  decodeInSteps(reader: ByteReader): Steps<T>
  encodeInSteps(writer: ByteWriter, value: Input<T>): Steps<void>
}

export type Steps<T> = Generator<undefined, T, undefined>

type Fields = Readonly<Record<string, unknown>>
type Read = (reader: MessageReader) => unknown
type Write = (writer: ByteWriter, value: unknown) => void
type ReadSteps = (reader: MessageReader, pace: Pace) => Steps<unknown>
type WriteSteps = (writer: ByteWriter, value: unknown, pace: Pace) => Steps<void>

/** One type at one version. `minBytes` is the least that a value takes on the wire. */
interface Shape {
  readonly read: Read
  readonly write: Write
  /** Of what may hold many elements. */
  readonly steps?: { readonly read: ReadSteps; readonly write: WriteSteps }
  readonly minBytes: number
  readonly defaultValue: unknown
  readonly isDefault: (value: unknown) => boolean
}

interface Context {
  readonly version: number
  readonly flexible: boolean
}

const NO_BYTES = Buffer.alloc(0)
const NO_ELEMENTS: readonly never[] = Object.freeze([])
/** Structs inside structs; Kafka's deepest message has 5. */
const MAX_DEPTH = 16
/** Array elements of a message that are made or written before others get their turn. */
const ELEMENTS_PER_STEP = 512

/** Counts elements over all arrays of one message. */
class Pace {
  #count = 0

  /** Called for each element: whether a step ends with it. */
  isOver(): boolean {
    if (++this.#count < ELEMENTS_PER_STEP) return false
    this.#count = 0
    return true
  }
}

export function compileBody<T>(name: string, body: BodyData, version: number): Codec<T> {
  const struct = compileStruct(body.fields, { version, flexible: isFlexible(body.flexibleFrom, version) }, name, 0)
  return {
    decode(reader) {
      const inner = new MessageReader(reader.bytes, reader.position, reader.end)
      const value = struct.read(inner)
      reader.position = inner.position
      return value as T
    },
    encode(writer, value) {
      struct.write(writer, value)
    },
    *decodeInSteps(reader) {
      if (struct.steps === undefined) return this.decode(reader)
      const inner = new MessageReader(reader.bytes, reader.position, reader.end)
      const value = yield* struct.steps.read(inner, new Pace())
      reader.position = inner.position
      return value as T
    },
    *encodeInSteps(writer, value) {
      if (struct.steps === undefined) struct.write(writer, value)
      else yield* struct.steps.write(writer, value, new Pace())
    },
  }
}

function cannotSay(path: string, version: number, what: string): MoonMQError {
  return new MoonMQError('INTERNAL', { reason: `${path} ${what} in version ${version}` })
}

// ---- structs --------------------------------------------------------------------------------------------------------------

interface Member {
  readonly name: string
  readonly shape: Shape
  readonly tag: number
}

function compileStruct(fields: readonly FieldData[], context: Context, path: string, depth: number): Shape {
  if (depth > MAX_DEPTH) throw new Error(`${path} is nested too deeply`)
  const inline: Member[] = []
  const tagged: Member[] = []
  const absent: Member[] = []
  const all: Member[] = []
  const template: Record<string, unknown> = {}
  for (const field of fields) {
    const present = within(field.versions, context.version)
    const shape = compileField(field, context, `${path}.${field.name}`, depth)
    template[field.name] = shape.defaultValue
    const isTagged = field.tag !== undefined && within(field.tagVersions ?? field.versions, context.version)
    const member = { name: field.name, shape, tag: field.tag ?? -1 }
    all.push(member)
    if (present && isTagged) tagged.push(member)
    else if (present) inline.push(member)
    else if (!field.ignorable) absent.push(member)
  }
  tagged.sort((a, b) => a.tag - b.tag)
  return {
    read: structReader(inline, tagged, template, context.flexible, path),
    write: structWriter(inline, tagged, absent, context, path),
    ...(inline.some(({ shape }) => shape.steps !== undefined)
      ? { steps: structSteps(inline, tagged, absent, template, context, path) }
      : {}),
    minBytes: inline.reduce((sum, member) => sum + member.shape.minBytes, context.flexible ? 1 : 0),
    defaultValue: Object.freeze({ ...template }),
    isDefault: (value) => all.every(({ name, shape }) => (value as Fields)[name] === undefined || shape.isDefault((value as Fields)[name])),
  }
}

function structReader(inline: Member[], tagged: Member[], template: Fields, flexible: boolean, path: string): Read {
  const names = inline.map((member) => member.name)
  const reads = inline.map((member) => member.shape.read)
  const count = names.length
  const byTag = new Map(tagged.map((member) => [member.tag, member]))
  return (reader) => {
    const value: Record<string, unknown> = { ...template }
    for (let i = 0; i < count; i++) value[names[i] as string] = (reads[i] as Read)(reader)
    if (flexible) readTags(reader, byTag, value, path)
    return value
  }
}

/** What `structReader` and `structWriter` do, field by field in steps. */
function structSteps(
  inline: Member[],
  tagged: Member[],
  absent: Member[],
  template: Fields,
  context: Context,
  path: string,
): NonNullable<Shape['steps']> {
  const byTag = new Map(tagged.map((member) => [member.tag, member]))
  return {
    *read(reader, pace) {
      const value: Record<string, unknown> = { ...template }
      for (const { name, shape } of inline) {
        value[name] = shape.steps === undefined ? shape.read(reader) : yield* shape.steps.read(reader, pace)
      }
      if (context.flexible) readTags(reader, byTag, value, path)
      return value
    },
    *write(writer, input, pace) {
      const value = input as Fields
      refuseAbsent(absent, value, context, path)
      for (const { name, shape } of inline) {
        const field = value[name] === undefined ? shape.defaultValue : value[name]
        if (shape.steps === undefined) shape.write(writer, field)
        else yield* shape.steps.write(writer, field, pace)
      }
      if (context.flexible) writeTags(writer, tagged, value)
    },
  }
}

function refuseAbsent(absent: readonly Member[], value: Fields, context: Context, path: string): void {
  for (const { name, shape } of absent) {
    const field = value[name]
    if (field !== undefined && !shape.isDefault(field)) throw cannotSay(`${path}.${name}`, context.version, 'cannot be said')
  }
}

/** KIP-482: tags rise, so none comes twice; one that is not known is skipped by its size. */
function readTags(reader: MessageReader, byTag: ReadonlyMap<number, Member>, value: Record<string, unknown>, path: string): void {
  const count = reader.uvarint()
  let previous = -1
  for (let i = 0; i < count; i++) {
    const tag = reader.uvarint()
    if (tag <= previous) throw bad(`${path}: tag ${tag} after tag ${previous}`)
    previous = tag
    const size = reader.uvarint()
    const member = byTag.get(tag)
    if (member === undefined) {
      reader.take(size)
      continue
    }
    if (size > reader.remaining) throw bad(`${path}.${member.name}: ${size} bytes needed, ${reader.remaining} left`)
    const end = reader.position + size
    value[member.name] = member.shape.read(reader)
    if (reader.position !== end) throw bad(`${path}.${member.name}: its size of ${size} bytes is not what it has`)
  }
}

function structWriter(inline: Member[], tagged: Member[], absent: Member[], context: Context, path: string): Write {
  return (writer, input) => {
    const value = input as Fields
    refuseAbsent(absent, value, context, path)
    for (const { name, shape } of inline) {
      const field = value[name]
      shape.write(writer, field === undefined ? shape.defaultValue : field)
    }
    if (context.flexible) writeTags(writer, tagged, value)
  }
}

/** A tagged field that has its default is left out. */
function writeTags(writer: ByteWriter, tagged: Member[], value: Fields): void {
  let count = 0
  for (const { name, shape } of tagged) {
    const field = value[name]
    if (field !== undefined && !shape.isDefault(field)) count++
  }
  writer.uvarint(count)
  if (count === 0) return
  for (const { name, shape, tag } of tagged) {
    const field = value[name]
    if (field === undefined || shape.isDefault(field)) continue
    const content = new ByteWriter(64)
    shape.write(content, field)
    writer.uvarint(tag)
    writer.uvarint(content.length)
    for (const part of content.finish()) writer.bytes(part)
  }
}

// ---- fields ---------------------------------------------------------------------------------------------------------------

function compileField(field: FieldData, context: Context, path: string, depth: number): Shape {
  const inner = field.flexible === false ? { ...context, flexible: false } : context
  const nullable = field.nullable === true || (field.nullable !== undefined && within(field.nullable, context.version))
  if (field.type.startsWith('[]'))
    return arrayShape(elementShape(field, field.type.slice(2), inner, path, depth), field, nullable, inner, path)
  if (field.fields !== undefined) return structShape(compileStruct(field.fields, inner, path, depth + 1), field, nullable, inner, path)
  return primitiveShape(field.type, field.default, nullable, inner, path)
}

function elementShape(field: FieldData, type: string, context: Context, path: string, depth: number): Shape {
  if (field.fields !== undefined) return compileStruct(field.fields, context, path, depth + 1)
  return primitiveShape(type, undefined, false, context, path)
}

function arrayShape(element: Shape, field: FieldData, nullable: boolean, context: Context, path: string): Shape {
  const { read, write } = element
  // An element without bytes would make any count true.
  const minBytes = Math.max(1, element.minBytes)
  const compact = context.flexible
  const defaultValue = field.default === null ? null : NO_ELEMENTS
  const readCount = (reader: MessageReader): number => {
    const count = readLength(reader, compact, false)
    if (count >= 0) reader.claim(count, minBytes)
    else if (!nullable) throw bad(`${path} is null`)
    return count
  }
  const writeNull = (writer: ByteWriter): void => {
    if (!nullable) throw cannotSay(path, context.version, 'cannot be null')
    writeLength(writer, -1, compact, false)
  }
  return {
    minBytes: compact ? 1 : 4,
    defaultValue,
    isDefault: (value) => (value === null ? defaultValue === null : defaultValue !== null && (value as readonly unknown[]).length === 0),
    read: (reader) => {
      const count = readCount(reader)
      if (count < 0) return null
      const values: unknown[] = []
      for (let i = 0; i < count; i++) values.push(read(reader))
      return values
    },
    write: (writer, value) => {
      if (value === null) {
        writeNull(writer)
        return
      }
      const values = value as readonly unknown[]
      writeLength(writer, values.length, compact, false)
      for (const each of values) write(writer, each)
    },
    steps: {
      *read(reader, pace) {
        const count = readCount(reader)
        if (count < 0) return null
        const values: unknown[] = []
        for (let i = 0; i < count; i++) {
          values.push(element.steps === undefined ? read(reader) : yield* element.steps.read(reader, pace))
          if (pace.isOver()) yield
        }
        return values
      },
      *write(writer, value, pace) {
        if (value === null) {
          writeNull(writer)
          return
        }
        const values = value as readonly unknown[]
        writeLength(writer, values.length, compact, false)
        for (const each of values) {
          if (element.steps === undefined) write(writer, each)
          else yield* element.steps.write(writer, each, pace)
          if (pace.isOver()) yield
        }
      },
    },
  }
}

function structShape(struct: Shape, field: FieldData, nullable: boolean, context: Context, path: string): Shape {
  const defaultValue = field.default === null ? null : struct.defaultValue
  const isDefault = (value: unknown) => (value === null ? defaultValue === null : defaultValue !== null && struct.isDefault(value))
  const isThere = (reader: MessageReader): boolean => {
    if (!nullable) return true
    const present = reader.int8()
    if (present < -1) throw bad(`${path}: ${present} is neither null nor present`)
    return present >= 0
  }
  const saysThere = (writer: ByteWriter, value: unknown): boolean => {
    if (nullable) writer.int8(value === null ? -1 : 1)
    else if (value === null) throw cannotSay(path, context.version, 'cannot be null')
    return value !== null
  }
  const { steps } = struct
  return {
    minBytes: nullable ? 1 : struct.minBytes,
    defaultValue,
    isDefault,
    read: (reader) => (isThere(reader) ? struct.read(reader) : null),
    write: (writer, value) => {
      if (saysThere(writer, value)) struct.write(writer, value)
    },
    ...(steps === undefined
      ? {}
      : {
          steps: {
            *read(reader: MessageReader, pace: Pace) {
              return isThere(reader) ? yield* steps.read(reader, pace) : null
            },
            *write(writer: ByteWriter, value: unknown, pace: Pace) {
              if (saysThere(writer, value)) yield* steps.write(writer, value, pace)
            },
          },
        }),
  }
}

// ---- primitives -----------------------------------------------------------------------------------------------------------

interface NumberForm {
  readonly bytes: number
  readonly read: (reader: MessageReader) => number
  readonly write: (writer: ByteWriter, value: number) => void
}

const NUMBERS: Readonly<Record<string, NumberForm>> = {
  int8: { bytes: 1, read: (reader) => reader.int8(), write: (writer, value) => writer.int8(value) },
  int16: { bytes: 2, read: (reader) => reader.int16(), write: (writer, value) => writer.int16(value) },
  int32: { bytes: 4, read: (reader) => reader.int32(), write: (writer, value) => writer.int32(value) },
  int64: { bytes: 8, read: (reader) => reader.int64(), write: writeLong },
  uint16: { bytes: 2, read: (reader) => reader.uint16(), write: (writer, value) => writer.uint16(value) },
  uint32: { bytes: 4, read: (reader) => reader.uint32(), write: (writer, value) => writer.uint32(value) },
  float64: { bytes: 8, read: (reader) => reader.float64(), write: (writer, value) => writer.float64(value) },
}

function primitiveShape(type: string, given: FieldData['default'], nullable: boolean, context: Context, path: string): Shape {
  const form = NUMBERS[type]
  if (form !== undefined) {
    const defaultValue = Number(given ?? 0)
    return { minBytes: form.bytes, defaultValue, isDefault: (value) => value === defaultValue, read: form.read, write: form.write as Write }
  }
  switch (type) {
    case 'bool': {
      const defaultValue = given === true || given === 'true'
      return {
        minBytes: 1,
        defaultValue,
        isDefault: (value) => value === defaultValue,
        read: (reader) => reader.uint8() !== 0,
        write: (writer, value) => writer.uint8(value ? 1 : 0),
      }
    }
    case 'hash64':
      return {
        minBytes: 8,
        defaultValue: '0',
        isDefault: (value) => value === '0',
        read: (reader) => readHash(reader),
        write: (writer, value) => writeHash(writer, value as string),
      }
    case 'uuid':
      return {
        minBytes: 16,
        defaultValue: ZERO_UUID,
        isDefault: (value) => value === ZERO_UUID,
        read: (reader) => reader.uuid(),
        write: (writer, value) => writer.uuid(value as string),
      }
    case 'string':
      return stringShape(given, nullable, context, path)
    case 'bytes':
    case 'records':
      return bytesShape(given, nullable, context, path)
    default:
      throw new Error(`${path} has the unknown type ${type}`)
  }
}

function stringShape(given: FieldData['default'], nullable: boolean, context: Context, path: string): Shape {
  const compact = context.flexible
  const defaultValue = given === null ? null : String(given ?? '')
  return {
    minBytes: compact ? 1 : 2,
    defaultValue,
    isDefault: (value) => value === defaultValue,
    read: (reader) => readString(reader, compact, nullable, path),
    write: (writer, value) => {
      if (value !== null) writeString(writer, value as string, compact, path)
      else if (nullable) writeLength(writer, -1, compact, true)
      else throw cannotSay(path, context.version, 'cannot be null')
    },
  }
}

function bytesShape(given: FieldData['default'], nullable: boolean, context: Context, path: string): Shape {
  const compact = context.flexible
  const defaultValue = given === null ? null : NO_BYTES
  return {
    minBytes: compact ? 1 : 4,
    defaultValue,
    isDefault: (value) => (value === null ? defaultValue === null : defaultValue !== null && (value as Buffer).length === 0),
    read: (reader) => readBytes(reader, compact, nullable, path),
    write: (writer, value) => {
      if (value !== null) writeBytes(writer, value as Buffer | readonly Buffer[], compact)
      else if (nullable) writeLength(writer, -1, compact, false)
      else throw cannotSay(path, context.version, 'cannot be null')
    },
  }
}
