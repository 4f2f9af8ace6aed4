import { MoonMQError } from '../core/errors.ts'
import type { CheckedRecords, CheckJob, FindJob, FoundRecord, OffloadJob, OffloadResult } from '../core/offload.ts'
import { type BatchHeader, codecOf, readBatchHeader } from './batch.ts'
import { RecordCursor, recordsSection, validateRecords } from './record.ts'

/** What the jobs need of the codecs. */
export interface BatchCodecs {
  /** Undefined when the codec can be used at once; else resolves when it is loaded. Throws UNSUPPORTED_COMPRESSION. */
  ready(codec: number): Promise<void> | undefined
  /** Throws INFLATED_TOO_LARGE beyond `maxBytes`, before they are taken, and CORRUPT_BATCH when the bytes are not what the codec writes. */
  inflate(codec: number, bytes: Buffer, maxBytes: number): Buffer
  /** What the bytes say that they inflate to: may be missing, or a lie. */
  sizeHint(codec: number, bytes: Buffer): number | undefined
  /** `level` is the codec's own scale; absent = its default. */
  deflate(codec: number, bytes: Buffer, level?: number): Buffer
}

/** Codec and level of `compression.type`. */
export type Compression = NonNullable<CheckJob['to']>

/** Runs a job where it is called: on the event loop for small ones, on a thread for large ones. */
export function runBatchJob(codecs: BatchCodecs, job: OffloadJob): OffloadResult | Promise<OffloadResult> {
  const loading = loadAll(codecs, job)
  return loading === undefined ? runLoaded(codecs, job) : loading.then(() => runLoaded(codecs, job))
}

function loadAll(codecs: BatchCodecs, job: OffloadJob): Promise<unknown> | undefined {
  if (job.kind === 'inflate' || job.kind === 'deflate') return codecs.ready(job.codec)
  const first = codecs.ready(codecOf(readBatchHeader(job.bytes)))
  const second = job.kind === 'check' && job.to !== null ? codecs.ready(job.to.codec) : undefined
  return first === undefined && second === undefined ? undefined : Promise.all([first, second])
}

function runLoaded(codecs: BatchCodecs, job: OffloadJob): OffloadResult {
  if (job.kind === 'inflate') return codecs.inflate(job.codec, job.bytes, job.maxBytes)
  if (job.kind === 'deflate') return codecs.deflate(job.codec, job.bytes)
  const header = readBatchHeader(job.bytes)
  const section = codecs.inflate(codecOf(header), recordsSection(job.bytes, 0, header), job.maxBytes)
  return job.kind === 'check' ? checkRecords(codecs, header, section, job) : findRecord(header, section, job)
}

const DENSE = { dense: true }
const DENSE_KEYED = { dense: true, keyed: true }

/** Throws INVALID_RECORD. `section` holds the plain records. */
export function checkRecords(
  codecs: BatchCodecs,
  header: BatchHeader,
  section: Buffer,
  { keyed, to, maxRecordBytes = Number.POSITIVE_INFINITY }: Pick<CheckJob, 'keyed' | 'to' | 'maxRecordBytes'>,
): CheckedRecords {
  if (section.length > maxRecordBytes) checkRecordSizes(header, section, maxRecordBytes)
  const { maxTimestampMs, minTimestampMs } = validateRecords(section, header, keyed ? DENSE_KEYED : DENSE)
  return { maxTimestampMs, minTimestampMs, records: to === null ? null : codecs.deflate(to.codec, section, to.level) }
}

function checkRecordSizes(header: BatchHeader, section: Buffer, limit: number): void {
  const cursor = new RecordCursor(section, header)
  while (cursor.next()) {
    if (cursor.sizeBytes <= limit) continue
    const reason = `record ${cursor.index} has ${cursor.sizeBytes} bytes inflated, more than max.decompressed.message.bytes=${limit}`
    throw new MoonMQError('INVALID_RECORD', { reason })
  }
}

export function findRecord(
  header: BatchHeader,
  section: Buffer,
  { timestampMs, fromOffset }: Pick<FindJob, 'timestampMs' | 'fromOffset'>,
): FoundRecord | null {
  const cursor = new RecordCursor(section, header)
  while (cursor.next()) {
    if (cursor.timestampMs >= timestampMs && cursor.offset >= fromOffset) return { offset: cursor.offset, timestampMs: cursor.timestampMs }
  }
  return null
}
