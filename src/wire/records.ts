/**
 * The messages that carry records, written by hand: they are most of what a broker and its clients encode. Their layouts are those of
 * the plain tables below, and a test holds one against the other.
 */
import type { ByteReader } from '../core/reader.ts'
import type { ByteWriter } from '../core/writer.ts'
import type { RecordHeader } from '../record/record.ts'
import {
  badFrame,
  byHand,
  bytes,
  type Field,
  i32,
  i64,
  list,
  nullableBytes,
  partition,
  partition0,
  readCount,
  readLength,
  struct,
  text,
  u16,
  u64,
} from './fields.ts'
import { MAX, MAX_COUNT } from './limits.ts'

/** A record of RECORD and RECORD_BATCH. Version 1 has no null: it is written as the empty string. */
export interface WireRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: number | bigint
  readonly timestampMs: number | bigint
  readonly key: Buffer | null
  readonly value: Buffer | null
}

/** A record of PRODUCE_BATCH. */
export interface KeyValue {
  readonly key: Buffer
  readonly value: Buffer
}

/** A record of SEND. `partition` −1: the broker chooses. */
export interface SendRecord {
  readonly partition: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly RecordHeader[]
}

/** A record of SEND_SEQUENCED: its batch says the partition. */
export interface SequencedRecord {
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly RecordHeader[]
}

/** A record of READ_RESULT. */
export interface ReadRecord {
  readonly offset: number
  readonly timestampMs: number
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: readonly RecordHeader[]
}

const EMPTY = Buffer.alloc(0)
const NO_HEADERS: readonly RecordHeader[] = []

// ---- the same as tables: what the documents show --------------------------------------------------------------------------------

const header = struct({ key: text(MAX.string), value: nullableBytes })
const headers = list(header, { max: MAX_COUNT.headers }, u16)

export const plainKeyValue: Field<KeyValue> = struct({ key: bytes(MAX.string), value: bytes(MAX.string) })
export const plainRecord: Field<WireRecord> = struct({
  topic: text(MAX.topic),
  partition,
  offset: u64,
  timestampMs: u64,
  key: bytes(MAX.string) as Field<Buffer | null>,
  value: bytes(MAX.string) as Field<Buffer | null>,
})
export const plainSendRecord: Field<SendRecord> = struct({ partition: i32, key: nullableBytes, value: nullableBytes, headers })
export const plainSequencedRecord: Field<SequencedRecord> = struct({ key: nullableBytes, value: nullableBytes, headers })
export const plainReadRecord: Field<ReadRecord> = struct({
  offset: i64,
  timestampMs: i64,
  key: nullableBytes,
  value: nullableBytes,
  headers,
})

/** A record of PULLED: of any topic and partition that the connection reads. */
export interface PulledRecord extends ReadRecord {
  readonly topic: string
  readonly partition: number
}

export const pulledRecord: Field<PulledRecord> = struct({
  topic: text(MAX.topic),
  partition: partition0,
  offset: i64,
  timestampMs: i64,
  key: nullableBytes,
  value: nullableBytes,
  headers,
})

// ---- by hand ----------------------------------------------------------------------------------------------------------------------

function readString(reader: ByteReader): Buffer {
  return reader.view(readLength(reader, MAX.string))
}

function writeString(writer: ByteWriter, value: Buffer | null): void {
  const content = value ?? EMPTY
  writer.uint32(content.length)
  writer.bytes(content)
}

export const keyValue = byHand(
  plainKeyValue,
  (reader) => ({ key: readString(reader), value: readString(reader) }),
  (writer, { key, value }) => {
    writeString(writer, key)
    writeString(writer, value)
  },
)

/** Neighbours mostly share their topic: its text is made once for a run of them. */
class TopicText {
  #bytes: Buffer = EMPTY
  #text = ''

  read(reader: ByteReader): string {
    const length = readLength(reader, MAX.topic)
    const at = reader.take(length)
    if (length === this.#bytes.length && reader.bytes.compare(this.#bytes, 0, length, at, at + length) === 0) return this.#text
    this.#bytes = reader.bytes.subarray(at, at + length)
    this.#text = this.#bytes.toString('utf8')
    return this.#text
  }

  write(writer: ByteWriter, topic: string): void {
    if (topic !== this.#text) {
      this.#text = topic
      this.#bytes = Buffer.from(topic)
    }
    writer.uint32(this.#bytes.length)
    writer.bytes(this.#bytes)
  }
}

function readRecord(reader: ByteReader, topics: TopicText): WireRecord {
  return {
    topic: topics.read(reader),
    partition: reader.uint32() - 1,
    offset: reader.uint64(),
    timestampMs: reader.uint64(),
    key: readString(reader),
    value: readString(reader),
  }
}

function writeRecord(writer: ByteWriter, record: WireRecord, topics: TopicText): void {
  topics.write(writer, record.topic)
  writer.uint32(record.partition + 1)
  writer.uint64(record.offset)
  // Kafka's clients may write records without a time (−1) or from before 1970; version 1 has no sign, and its zero stands for both.
  const hasTime = record.timestampMs > 0
  writer.uint64(hasTime ? record.timestampMs : 0)
  writeString(writer, record.key)
  writeString(writer, record.value)
}

export const record = byHand(
  plainRecord,
  (reader) => readRecord(reader, new TopicText()),
  (writer, value) => writeRecord(writer, value, new TopicText()),
)

const plainRecords = list(plainRecord, { max: MAX_COUNT.batchRecords })

export const recordList = byHand<readonly WireRecord[]>(
  plainRecords,
  (reader) => {
    const count = readCount(reader.uint32(), { max: MAX_COUNT.batchRecords }, plainRecord.leastBytes, reader)
    const topics = new TopicText()
    const out: WireRecord[] = []
    for (let i = 0; i < count; i++) out.push(readRecord(reader, topics))
    return out
  },
  (writer, records) => {
    const topics = new TopicText()
    writer.uint32(records.length)
    for (const each of records) writeRecord(writer, each, topics)
  },
)

function readNullable(reader: ByteReader): Buffer | null {
  const length = reader.int32()
  if (length < -1) throw badFrame(`a length of ${length}`)
  return length === -1 ? null : reader.view(length)
}

function writeNullable(writer: ByteWriter, value: Buffer | null): void {
  if (value === null) {
    writer.int32(-1)
    return
  }
  writer.int32(value.length)
  writer.bytes(value)
}

function readHeaders(reader: ByteReader): readonly RecordHeader[] {
  const count = reader.uint16()
  return count === 0 ? NO_HEADERS : readSomeHeaders(reader, count)
}

function readSomeHeaders(reader: ByteReader, count: number): readonly RecordHeader[] {
  readCount(count, { max: MAX_COUNT.headers }, header.leastBytes, reader)
  const out: RecordHeader[] = []
  for (let i = 0; i < count; i++) {
    const key = reader.utf8(readLength(reader, MAX.string))
    out.push({ key, value: readNullable(reader) })
  }
  return out
}

function writeHeaders(writer: ByteWriter, values: readonly RecordHeader[]): void {
  writer.uint16(values.length)
  for (const { key, value } of values) {
    const length = Buffer.byteLength(key)
    writer.uint32(length)
    writer.utf8(key, length)
    writeNullable(writer, value)
  }
}

export const sendRecord = byHand(
  plainSendRecord,
  (reader) => ({ partition: reader.int32(), key: readNullable(reader), value: readNullable(reader), headers: readHeaders(reader) }),
  (writer, value) => {
    writer.int32(value.partition)
    writeNullable(writer, value.key)
    writeNullable(writer, value.value)
    writeHeaders(writer, value.headers)
  },
)

export const sequencedRecord = byHand(
  plainSequencedRecord,
  (reader) => ({ key: readNullable(reader), value: readNullable(reader), headers: readHeaders(reader) }),
  (writer, value) => {
    writeNullable(writer, value.key)
    writeNullable(writer, value.value)
    writeHeaders(writer, value.headers)
  },
)

export const readRecordField = byHand(
  plainReadRecord,
  (reader) => ({
    offset: i64.read(reader, {}),
    timestampMs: i64.read(reader, {}),
    key: readNullable(reader),
    value: readNullable(reader),
    headers: readHeaders(reader),
  }),
  (writer, value) => {
    writer.int64(value.offset)
    writer.int64(value.timestampMs)
    writeNullable(writer, value.key)
    writeNullable(writer, value.value)
    writeHeaders(writer, value.headers)
  },
)

/** An upper bound of what a record takes in READ_RESULT, so that the frame is made in one piece. */
export function readRecordBytes(value: ReadRecord): number {
  let size = 26 + (value.key?.length ?? 0) + (value.value?.length ?? 0)
  for (const each of value.headers) size += 8 + 3 * each.key.length + (each.value?.length ?? 0)
  return size
}

/** The same for PULLED. Names of topics are ASCII. */
export function pulledRecordBytes(value: PulledRecord): number {
  return 8 + value.topic.length + readRecordBytes(value)
}

/** The same for RECORD and RECORD_BATCH. Names of topics are ASCII. */
export function wireRecordBytes(value: WireRecord): number {
  return 32 + value.topic.length + (value.key?.length ?? 0) + (value.value?.length ?? 0)
}
