import { MoonMQError } from '../../core/errors.ts'
import type { IsolationLevel } from '../../core/types.ts'
import { type BatchHeader, codecOf, isControl, isTransactional, lastOffset, nextOffset, readBatchHeader } from '../../record/batch.ts'
import { readControlKind } from '../../record/control.ts'
import { encodeEnvelope } from '../../record/dead-letter.ts'
import type { Inflater } from '../../record/inflater.ts'
import { RecordCursor } from '../../record/record.ts'
import type { AbortedTransaction } from '../../storage/types.ts'
import { envelopeOf } from '../dlq/provenance.ts'
import type { DeliveredRecord } from '../ports.ts'
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
  /** Largest key or value; Infinity = no limit. */
  readonly maxPartBytes: number
  /** Dead letters are told as version 1 of the native protocol tells them. Default false. */
  readonly withEnvelopes?: boolean
}

/** `nextOffset`: where to go on. `tooLarge`: the record there cannot be given to this reader. `bytes`: of keys, values and headers. */
export interface Decoded {
  readonly records: DeliveredRecord[]
  bytes: number
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
  const decoded: Decoded = { records: [], bytes: 0, nextOffset: request.fromOffset, tooLarge: null, full: false }
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
      if (!filter.hides(header, () => plain)) takeRecords(plain, header, request, decoded)
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
  const cursor = new RecordCursor(section, header)
  while (cursor.next()) {
    if (cursor.offset < request.fromOffset) continue
    const size = Math.max(cursor.keySize, cursor.valueSize)
    if (size > request.maxPartBytes) {
      decoded.tooLarge = tooLargeFor(request, cursor)
      return
    }
    if (
      decoded.records.length >= request.maxRecords ||
      (decoded.records.length > 0 && decoded.bytes + cursor.sizeBytes > request.maxBytes)
    ) {
      decoded.full = true
      return
    }
    const { offset, timestampMs } = cursor
    const { topic, partition } = request
    const headers = cursor.headers()
    const envelope = request.withEnvelopes && headers.length > 0 ? envelopeOf({ headers, value: cursor.value() }) : null
    const value = envelope === null ? cursor.value() : encodeEnvelope(envelope, request.maxPartBytes)
    if (envelope !== null && value !== null && value.length > request.maxPartBytes) {
      decoded.tooLarge = tooLargeFor(request, cursor)
      return
    }
    decoded.records.push({ topic, partition, offset, timestampMs, key: cursor.key(), value, headers })
    decoded.bytes += cursor.sizeBytes
    decoded.nextOffset = offset + 1
  }
}

function tooLargeFor(request: DecodeRequest, cursor: RecordCursor): MoonMQError {
  const part = cursor.valueSize > request.maxPartBytes ? 'value' : 'key'
  return new MoonMQError('VALUE_TOO_LARGE_FOR_CLIENT', {
    offset: cursor.offset,
    topic: request.topic,
    partition: request.partition,
    part,
    size: part === 'value' ? cursor.valueSize : cursor.keySize,
    limit: request.maxPartBytes,
  })
}
