import { MoonMQError } from '../../core/errors.ts'
import type { IsolationLevel } from '../../core/types.ts'
import { type BatchHeader, codecOf, isControl, isTransactional, lastOffset, nextOffset, readBatchHeader } from '../../record/batch.ts'
import { readControlKind } from '../../record/control.ts'
import { encodeEnvelope } from '../../record/dead-letter.ts'
import type { Inflater } from '../../record/inflater.ts'
import { RecordCursor } from '../../record/record.ts'
import type { AbortedTransaction } from '../../storage/types.ts'
import { envelopeOf } from '../dlq/provenance.ts'
import type { DeliveredRecord, RecordLimits } from '../ports.ts'
import type { PartialSections } from './partial-sections.ts'

export interface DecodeDeps {
  readonly inflater: Inflater
  readonly partial: PartialSections
}

/** What a reader takes from one read of one partition. */
export interface DecodeRequest {
  readonly topic: string
  readonly partition: number
  readonly buffers: readonly Buffer[]
  /** Records below it are in the first batch only because batches are whole. */
  readonly fromOffset: number
  readonly isolation: IsolationLevel
  readonly aborted: readonly AbortedTransaction[]
  readonly maxRecords: number
  readonly maxBytes: number
  readonly limits: RecordLimits
  /** One record is given even beyond `maxBytes`, or a reader could never pass it. Only the first of an answer is. */
  readonly mustGive: boolean
  /** Dead letters are told as version 1 of the native protocol tells them. Default false. */
  readonly withEnvelopes?: boolean
}

/** `nextOffset`: where to go on. `tooLarge`: the record there cannot be given to this reader. */
export interface Decoded {
  records: DeliveredRecord[]
  /** Of the records, as the limits count them. */
  bytes: number
  /** Inflated memory that the records are views of. */
  inflatedBytes: number
  nextOffset: number
  tooLarge: MoonMQError | null
  /** A limit was reached: there may be more in what was read. */
  full: boolean
}

/**
 * Which transactions of a range were aborted, followed batch by batch as a client does (KIP-98): one is open from its first offset to its
 * abort marker.
 */
export class AbortedFilter {
  readonly #upcoming: AbortedTransaction[]
  readonly #open = new Set<number>()

  constructor(aborted: readonly AbortedTransaction[]) {
    this.#upcoming = [...aborted].sort((a, b) => b.firstOffset - a.firstOffset)
  }

  /** Whether the batch is hidden; a control batch always is. */
  hides(header: BatchHeader, section: () => Buffer): boolean {
    for (let next = this.#upcoming.at(-1); next !== undefined && next.firstOffset <= lastOffset(header); next = this.#upcoming.at(-1)) {
      this.#open.add(next.producerId)
      this.#upcoming.pop()
    }
    if (isControl(header)) {
      if (this.#open.has(header.producerId) && isAbort(section(), header)) this.#open.delete(header.producerId)
      return true
    }
    return isTransactional(header) && this.#open.has(header.producerId)
  }
}

function isAbort(section: Buffer, header: BatchHeader): boolean {
  const cursor = new RecordCursor(section, header)
  return cursor.next() && readControlKind(cursor.key()) === 'abort'
}

/** Decodes batches that were read, as far as the limits allow. Throws CORRUPT_BATCH, INVALID_RECORD for bytes that the log let through. */
export async function decodeRecords(deps: DecodeDeps, request: DecodeRequest): Promise<Decoded> {
  const decoded: Decoded = { records: [], bytes: 0, inflatedBytes: 0, nextOffset: request.fromOffset, tooLarge: null, full: false }
  const filter = new AbortedFilter(request.aborted)
  for (const bytes of request.buffers) {
    for (let position = 0; position < bytes.length; ) {
      const header = readBatchHeader(bytes, position)
      const batch = bytes.subarray(position, position + header.sizeBytes)
      position += header.sizeBytes
      if (nextOffset(header) <= request.fromOffset) continue
      const isPacked = codecOf(header) !== 0
      const kept = isPacked ? deps.partial.take(request.topic, request.partition, header) : undefined
      const section = kept ?? deps.inflater.section(batch, header)
      const plain = section instanceof Promise ? await section : section
      const before = decoded.records.length
      if (!filter.hides(header, () => plain)) takeRecords(plain, header, request, decoded)
      if (isPacked && decoded.records.length > before) decoded.inflatedBytes += plain.length
      if (decoded.full || decoded.tooLarge !== null) {
        if (isPacked) deps.partial.put(request.topic, request.partition, header, plain)
        return decoded
      }
      decoded.nextOffset = nextOffset(header)
    }
  }
  return decoded
}

function takeRecords(section: Buffer, header: BatchHeader, request: DecodeRequest, decoded: Decoded): void {
  const { topic, partition, fromOffset, limits, withEnvelopes } = request
  const { maxPartBytes = Number.POSITIVE_INFINITY, maxRecordBytes = Number.POSITIVE_INFINITY, recordBytes } = limits
  const cursor = new RecordCursor(section, header)
  while (cursor.next()) {
    if (cursor.offset < fromOffset) continue
    if (Math.max(cursor.keySize, cursor.valueSize) > maxPartBytes) {
      decoded.tooLarge = partTooLarge(request, cursor, maxPartBytes)
      return
    }
    if (decoded.records.length >= request.maxRecords) {
      decoded.full = true
      return
    }
    const { offset, timestampMs } = cursor
    const headers = cursor.headers()
    const envelope = withEnvelopes && headers.length > 0 ? envelopeOf({ headers, value: cursor.value() }) : null
    const value = envelope === null ? cursor.value() : encodeEnvelope(envelope, maxPartBytes)
    if (envelope !== null && value !== null && value.length > maxPartBytes) {
      decoded.tooLarge = partTooLarge(request, cursor, maxPartBytes)
      return
    }
    const record: DeliveredRecord = { topic, partition, offset, timestampMs, key: cursor.key(), value, headers }
    const size = recordBytes === undefined ? cursor.sizeBytes : recordBytes(record)
    if (size > maxRecordBytes) {
      decoded.tooLarge = tooLarge(record, 'record', size, maxRecordBytes)
      return
    }
    if (decoded.bytes + size > request.maxBytes && !(request.mustGive && decoded.records.length === 0)) {
      decoded.full = true
      return
    }
    decoded.records.push(record)
    decoded.bytes += size
    decoded.nextOffset = offset + 1
  }
}

function partTooLarge({ topic, partition }: DecodeRequest, { offset, keySize, valueSize }: RecordCursor, limit: number): MoonMQError {
  return valueSize > limit
    ? tooLarge({ topic, partition, offset }, 'value', valueSize, limit)
    : tooLarge({ topic, partition, offset }, 'key', keySize, limit)
}

function tooLarge(
  { topic, partition, offset }: Pick<DeliveredRecord, 'topic' | 'partition' | 'offset'>,
  part: 'record' | 'key' | 'value',
  size: number,
  limit: number,
): MoonMQError {
  return new MoonMQError('VALUE_TOO_LARGE_FOR_CLIENT', { offset, topic, partition, part, size, limit })
}

/** Memory held by what was read, as many times the bytes of the records in it, beyond which they are copied out of it. */
const MAX_HELD_RATIO = 4

/**
 * Copies the records when they hold much more memory than they take: a few small ones of many large batches would keep all of these for
 * as long as their client needs to take them. True: nothing is a view of what was read any more.
 */
export function copiedOut(decoded: Decoded, readBytes: number): boolean {
  if (readBytes + decoded.inflatedBytes <= MAX_HELD_RATIO * decoded.bytes) return false
  decoded.records = decoded.records.map(copyOf)
  return true
}

/** In memory of its own. */
export function copyOf(record: DeliveredRecord): DeliveredRecord {
  const copy = (bytes: Buffer | null) => (bytes === null ? null : Buffer.from(bytes))
  const headers = record.headers.map(({ key, value }) => ({ key, value: copy(value) }))
  return { ...record, key: copy(record.key), value: copy(record.value), headers }
}
