import { crc32c } from '../core/crc32c.ts'
import { MoonMQError } from '../core/errors.ts'
import { ByteReader } from '../core/reader.ts'
import { ByteWriter } from '../core/writer.ts'
import { type Codec, compileBody, type Input } from './compile.ts'
import { RECORD_DATA } from './data.generated.ts'
import { type RecordData, within } from './fields.ts'
import { dataCodec } from './messages.ts'
import type {
  GroupCoordinatorRecords,
  MetadataRecords,
  ProducerSnapshot,
  ShareCoordinatorRecords,
  TransactionCoordinatorRecords,
} from './types.generated.ts'

/** The records inside internal topics (DESIGN D4, D7), in Kafka's own schemas. */

/** Records by the place where they live. */
export interface RecordPlaces {
  readonly metadata: MetadataRecords
  readonly 'group-coordinator': GroupCoordinatorRecords
  readonly 'transaction-coordinator': TransactionCoordinatorRecords
  readonly 'share-coordinator': ShareCoordinatorRecords
}
export type Place = keyof RecordPlaces
export type MetadataRecordName = keyof MetadataRecords

interface Definition {
  readonly name: string
  readonly data: RecordData
}

interface Catalogue {
  readonly byName: ReadonlyMap<string, RecordData>
  /** Keys and metadata records by id; values by the id of their key. */
  readonly keysById: ReadonlyMap<number, Definition>
  readonly valuesById: ReadonlyMap<number, Definition>
}

const catalogues = new Map<Place, Catalogue>()
/** By place and name, then by version: a look-up makes no garbage, records are read by the million. */
const codecs = new Map<Place, Map<string, (Codec<unknown> | undefined)[]>>()

function catalogue(place: Place): Catalogue {
  let found = catalogues.get(place)
  if (found === undefined) {
    const byName = new Map<string, RecordData>()
    const keysById = new Map<number, Definition>()
    const valuesById = new Map<number, Definition>()
    for (const [name, text] of Object.entries(RECORD_DATA[place] ?? {})) {
      const data = JSON.parse(text) as RecordData
      byName.set(name, data)
      if (data.id !== undefined) (data.kind === 'coordinator-value' ? valuesById : keysById).set(data.id, { name, data })
    }
    found = { byName, keysById, valuesById }
    catalogues.set(place, found)
  }
  return found
}

function bad(reason: string): MoonMQError {
  return new MoonMQError('INVALID_RECORD', { reason })
}

/** The body of one record at one version. Throws UNSUPPORTED_VERSION. */
function recordCodec<P extends Place, N extends keyof RecordPlaces[P] & string>(
  place: P,
  name: N,
  version: number,
): Codec<RecordPlaces[P][N]> {
  let byName = codecs.get(place)
  if (byName === undefined) {
    byName = new Map()
    codecs.set(place, byName)
  }
  let byVersion = byName.get(name)
  if (byVersion === undefined) {
    byVersion = []
    byName.set(name, byVersion)
  }
  let codec = byVersion[version]
  if (codec === undefined) {
    const data = catalogue(place).byName.get(name)
    if (data === undefined || !within(data.versions, version)) {
      throw new MoonMQError('UNSUPPORTED_VERSION', { version, api: name, supported: data?.versions.join('-') ?? 'none' })
    }
    codec = compileBody<unknown>(name, data, version)
    byVersion[version] = codec
  }
  return codec as Codec<RecordPlaces[P][N]>
}

// ---- __cluster_metadata ---------------------------------------------------------------------------------------------------

const FRAME_VERSION = 1

/** unsigned varint frame version, unsigned varint record id, unsigned varint version, body. */
export function encodeMetadataRecord<N extends MetadataRecordName>(name: N, version: number, fields: Input<MetadataRecords[N]>): Buffer {
  const writer = new ByteWriter(128)
  writer.uvarint(FRAME_VERSION)
  writer.uvarint(catalogue('metadata').byName.get(name)?.id ?? -1)
  writer.uvarint(version)
  recordCodec('metadata', name, version).encode(writer, fields)
  return writer.toBuffer()
}

export interface DecodedMetadataRecord<N extends MetadataRecordName = MetadataRecordName> {
  readonly name: N
  readonly version: number
  readonly fields: MetadataRecords[N]
}

/** One of the metadata records, told apart by `name`. */
export type AnyMetadataRecord = { [N in MetadataRecordName]: DecodedMetadataRecord<N> }[MetadataRecordName]

/** Throws INVALID_RECORD for a record that is malformed or not known: skipping metadata would change its meaning. */
export function decodeMetadataRecord(bytes: Buffer): AnyMetadataRecord {
  return guarded('a metadata record', () => {
    const reader = new ByteReader(bytes)
    const frame = reader.uvarint()
    if (frame !== FRAME_VERSION) throw bad(`metadata frame version ${frame} is not ${FRAME_VERSION}`)
    const id = reader.uvarint()
    const version = reader.uvarint()
    const definition = catalogue('metadata').keysById.get(id)
    if (definition === undefined) throw bad(`metadata record ${id} is not known`)
    const name = definition.name as MetadataRecordName
    const fields = recordCodec('metadata', name, version).decode(reader)
    reader.expectEnd(name)
    return { name, version, fields } as AnyMetadataRecord
  })
}

function guarded<T>(what: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof MoonMQError && (error.code === 'BAD_FRAME' || error.code === 'UNSUPPORTED_VERSION')) {
      throw new MoonMQError('INVALID_RECORD', { reason: `${what}: ${error.message}` }, error)
    }
    throw error
  }
}

// ---- coordinator topics ---------------------------------------------------------------------------------------------------

export type CoordinatorPlace = Exclude<Place, 'metadata'>
type KeyName<P extends CoordinatorPlace> = Extract<keyof RecordPlaces[P], `${string}Key`>
type ValueName<P extends CoordinatorPlace> = Extract<keyof RecordPlaces[P], `${string}Value`>

/** int16 id of the key, body at version 0. */
export function encodeCoordinatorKey<P extends CoordinatorPlace, N extends KeyName<P>>(
  place: P,
  name: N,
  fields: Input<RecordPlaces[P][N]>,
): Buffer {
  const writer = new ByteWriter(128)
  writer.int16(catalogue(place).byName.get(name)?.id ?? -1)
  recordCodec(place, name, 0).encode(writer, fields)
  return writer.toBuffer()
}

/** int16 version, body. A tombstone is a null value and needs no encoding. */
export function encodeCoordinatorValue<P extends CoordinatorPlace, N extends ValueName<P>>(
  place: P,
  name: N,
  version: number,
  fields: Input<RecordPlaces[P][N]>,
): Buffer {
  const writer = new ByteWriter(256)
  writer.int16(version)
  recordCodec(place, name, version).encode(writer, fields)
  return writer.toBuffer()
}

/** A record of a coordinator's topic. `value` is null for a tombstone. */
export interface CoordinatorRecord<P extends CoordinatorPlace, K extends KeyName<P>> {
  readonly name: K
  readonly key: RecordPlaces[P][K]
  readonly version: number
  readonly value: K extends `${infer Stem}Key`
    ? `${Stem}Value` extends keyof RecordPlaces[P]
      ? RecordPlaces[P][`${Stem}Value`] | null
      : null
    : null
}

/** One of the records of a coordinator's topic, told apart by the `name` of its key. */
export type AnyCoordinatorRecord<P extends CoordinatorPlace> = { [K in KeyName<P>]: CoordinatorRecord<P, K> }[KeyName<P>]

/** Undefined for a key that a later Kafka defines: readers pass over it. Throws INVALID_RECORD for what is malformed. */
export function decodeCoordinatorRecord<P extends CoordinatorPlace>(
  place: P,
  key: Buffer | null,
  value: Buffer | null,
): AnyCoordinatorRecord<P> | undefined {
  return guarded(`a record of the ${place}`, () => {
    if (key === null) throw bad(`a record of the ${place} has no key`)
    const reader = new ByteReader(key)
    const id = reader.int16()
    const definition = catalogue(place).keysById.get(id)
    if (definition === undefined) return undefined
    const name = definition.name as KeyName<P>
    const fields = recordCodec(place, name, 0).decode(reader)
    reader.expectEnd(name)
    const { version, body } = decodeValue(place, id, value)
    return { name, key: fields, version, value: body } as unknown as AnyCoordinatorRecord<P>
  })
}

function decodeValue(place: CoordinatorPlace, id: number, value: Buffer | null): { version: number; body: unknown } {
  const definition = catalogue(place).valuesById.get(id)
  if (value === null || definition === undefined) return { version: -1, body: null }
  const reader = new ByteReader(value)
  const version = reader.int16()
  const name = definition.name as ValueName<typeof place>
  const body = recordCodec(place, name, version).decode(reader)
  reader.expectEnd(definition.name)
  return { version, body }
}

// ---- files ----------------------------------------------------------------------------------------------------------------

const SNAPSHOT_VERSION = 1
/** int16 version and the checksum itself come before what the checksum covers. */
const SNAPSHOT_HEAD_BYTES = 6

/** A `.snapshot` file: int16 version, CRC-32C of everything after it, producers. `crc` is computed here. */
export function encodeProducerSnapshot(snapshot: Input<ProducerSnapshot>): Buffer {
  const writer = new ByteWriter(1024)
  writer.int16(SNAPSHOT_VERSION)
  dataCodec('ProducerSnapshot', SNAPSHOT_VERSION).encode(writer, { ...snapshot, crc: 0 })
  const bytes = writer.toBuffer()
  bytes.writeUInt32BE(crc32c(bytes, SNAPSHOT_HEAD_BYTES), 2)
  return bytes
}

/** Throws INVALID_RECORD unless version, checksum and length fit. */
export function decodeProducerSnapshot(bytes: Buffer): ProducerSnapshot {
  return guarded('a producer snapshot', () => {
    const reader = new ByteReader(bytes)
    const version = reader.int16()
    if (version !== SNAPSHOT_VERSION) throw bad(`producer snapshot version ${version} is not ${SNAPSHOT_VERSION}`)
    if (bytes.length < SNAPSHOT_HEAD_BYTES) throw bad(`a producer snapshot of ${bytes.length} bytes`)
    const stored = bytes.readUInt32BE(2)
    const computed = crc32c(bytes, SNAPSHOT_HEAD_BYTES)
    if (stored !== computed) throw bad(`producer snapshot checksum ${stored} is stored, ${computed} is computed`)
    const snapshot = dataCodec('ProducerSnapshot', version).decode(reader)
    reader.expectEnd('the producer snapshot')
    return snapshot
  })
}
