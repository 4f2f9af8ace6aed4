import { MoonMQError } from '../../core/errors.ts'
import {
  ATTRIBUTE,
  type BatchHeader,
  codecOf,
  hasProducer,
  isControl,
  isTransactional,
  lastOffset,
  lastSequence,
  timestampType,
} from '../../record/batch.ts'
import { type Codecs, codecName } from '../../record/compression.ts'
import { type RecordView, readRecords, recordsSection } from '../../record/record.ts'
import { type Decoding, decodeControl, decodeRecord } from './decode.ts'
import { type CellOptions, cell, jsonCell, quoted, timeText } from './text.ts'

export interface ShowOptions extends CellOptions {
  readonly json: boolean
  readonly batches: boolean
  readonly decoding: Decoding
  /** Offsets of records that are shown: from, and below. */
  readonly from: number
  readonly to: number
}

export interface BatchPlace {
  readonly file: string
  readonly position: number
}

/** The line of one batch. */
export function batchLine(header: BatchHeader, place: BatchPlace, json: boolean): string {
  const codec = codecName(codecOf(header)) ?? `codec ${codecOf(header)}`
  const { baseOffset, sizeBytes, leaderEpoch, recordCount, baseTimestampMs, maxTimestampMs, producerId, producerEpoch } = header
  if (json) {
    return JSON.stringify({
      kind: 'batch',
      ...place,
      baseOffset,
      lastOffset: lastOffset(header),
      sizeBytes,
      leaderEpoch,
      codec,
      recordCount,
      baseTimestampMs,
      maxTimestampMs,
      timestampType: timestampType(header),
      producerId,
      producerEpoch,
      baseSequence: header.baseSequence,
      transactional: isTransactional(header),
      control: isControl(header),
      crc: header.crc,
    })
  }
  const words = [`offsets ${baseOffset}-${lastOffset(header)}`, `byte ${place.position}`, `size ${sizeBytes}`, `epoch ${leaderEpoch}`]
  words.push(`codec ${codec}`, `records ${recordCount}`, `time ${timeText(baseTimestampMs)} max ${timeText(maxTimestampMs)}`)
  if (timestampType(header) === 'LogAppendTime') words.push('log append time')
  if (hasProducer(header)) {
    const sequences = header.baseSequence < 0 ? '' : ` sequences ${header.baseSequence}-${lastSequence(header)}`
    words.push(`producer ${producerId} epoch ${producerEpoch}${sequences}`)
  }
  if (isTransactional(header)) words.push('transactional')
  if (isControl(header)) words.push('control')
  if ((header.attributes & ATTRIBUTE.deleteHorizon) !== 0) words.push('delete horizon')
  if (recordCount === 0) words.push('empty')
  return words.join('  ')
}

/** The records of a batch within the range, a line each. Throws what inflating and reading throw: then the batch is damaged inside. */
export function* recordLines(
  header: BatchHeader,
  batch: { readonly bytes: Buffer; readonly at: number },
  place: BatchPlace,
  codecs: Codecs,
  options: ShowOptions,
): Generator<string, void, undefined> {
  const section = codecs.inflate(codecOf(header), recordsSection(batch.bytes, batch.at, header))
  for (const record of readRecords(section, header)) {
    if (record.offset < options.from || record.offset >= options.to) continue
    yield options.json ? jsonLine(header, record, place, options) : textLine(header, record, options)
  }
}

function jsonLine(header: BatchHeader, record: RecordView, place: BatchPlace, options: ShowOptions): string {
  const head = { kind: 'record', ...place, offset: record.offset, timestampMs: record.timestampMs }
  if (isControl(header)) {
    const { name, fields } = decodeControl(record.key, record.value)
    return JSON.stringify({ ...head, kind: 'control', control: name, ...producerOf(header), ...fields })
  }
  const decoded = decodeRecord(options.decoding, record.key, record.value)
  if (decoded !== null) return JSON.stringify({ ...head, record: decoded.name, ...decoded.fields })
  const headers = record.headers.map(({ key, value }) => ({ name: key, ...jsonCell('value', value, options) }))
  return JSON.stringify({
    ...head,
    ...jsonCell('key', record.key, options),
    ...jsonCell('value', record.value, options),
    ...(headers.length > 0 ? { headers } : {}),
    ...(isTransactional(header) ? { transactional: true } : {}),
    ...producerOf(header),
  })
}

function producerOf(header: BatchHeader): { producerId?: number; producerEpoch?: number } {
  return hasProducer(header) ? { producerId: header.producerId, producerEpoch: header.producerEpoch } : {}
}

function textLine(header: BatchHeader, record: RecordView, options: ShowOptions): string {
  const head = `${record.offset}  ${timeText(record.timestampMs)}`
  if (isControl(header)) {
    const { name, fields } = decodeControl(record.key, record.value)
    const whose = hasProducer(header) ? ` of producer ${header.producerId} epoch ${header.producerEpoch}` : ''
    return `${head}  control ${name}${whose}  ${JSON.stringify(fields)}`
  }
  const decoded = decodeRecord(options.decoding, record.key, record.value)
  if (decoded !== null) return `${head}  ${decoded.name}  ${JSON.stringify(decoded.fields)}`
  const words = [head, `key ${cell(record.key, options)}`, `value ${cell(record.value, options)}`]
  if (record.headers.length > 0) {
    words.push(`headers ${record.headers.map(({ key, value }) => `${quoted(key)}=${cell(value, options)}`).join(' ')}`)
  }
  return words.join('  ')
}

/** Why the records of a batch cannot be shown; throws what is no fault of the bytes. */
export function faultOf(error: unknown): string {
  if (error instanceof MoonMQError) return error.message
  throw error
}
