import { MoonMQError } from '../../core/errors.ts'
import { readInt64 } from '../../core/int64.ts'
import { readSmallFile } from '../../io/atomic-file.ts'
import type { Disk } from '../../io/disk.ts'
import { decodeCleanShutdown, decodeOffsets, ROOT_FILES } from '../../storage/checkpoint.ts'
import { decodeCleanLogs } from '../../storage/clean-logs.ts'
import { COMPACTION_NOTE_FILE, decodeCompactionNote } from '../../storage/compaction/note.ts'
import { decodeEpochCheckpoint, EPOCH_CHECKPOINT_NAME } from '../../storage/epoch-checkpoint.ts'
import { parseSegmentFileName } from '../../storage/files.ts'
import { readJournal } from '../../storage/journal-content.ts'
import { JOURNAL_FILE, type JournalEntry } from '../../storage/journal-format.ts'
import { decodeJournalNote } from '../../storage/journal-note.ts'
import { OFFSET_INDEX_ENTRY_BYTES } from '../../storage/offset-index.ts'
import { decodeProducerSnapshot, MAX_PRODUCER_SNAPSHOT_BYTES } from '../../storage/producer-snapshot.ts'
import { decodeRetentionNote } from '../../storage/retention-note.ts'
import { TIME_INDEX_ENTRY_BYTES } from '../../storage/time-index.ts'
import { decodeTxnIndex, TXN_INDEX_ENTRY_BYTES } from '../../storage/txn-index.ts'
import { timeText } from './text.ts'

/** A line of a side file: as text and as the fields of a JSON line. */
export interface SideLine {
  readonly text: string
  readonly json: Readonly<Record<string, unknown>>
}

/** What is wrong with a side file. The lines before it stand. */
export interface SideFault {
  readonly position: number | null
  readonly reason: string
}

const READ_BYTES = 64 * 1024
/** Kafka's own checkpoints in the root of a log folder: text, a line `topic partition offset` for each. */
const KAFKA_CHECKPOINT = /^(recovery-point|log-start|replication)-offset-checkpoint$|^cleaner-offset-checkpoint$/
const MAX_TEXT_BYTES = 64 * 1024 * 1024
const MAX_ROOT_BYTES = 256 * 1024 * 1024

export type SideFileKind = 'index' | 'timeindex' | 'txnindex' | 'snapshot' | 'epochs' | 'text' | 'root' | 'journal'

/** What a file is, by its name; null for one that is none of the kinds that a dump knows. */
export function sideFileKind(name: string): SideFileKind | null {
  const segment = parseSegmentFileName(name)
  if (segment !== null && segment.kind !== 'log') return segment.kind
  if (name === EPOCH_CHECKPOINT_NAME) return 'epochs'
  if (name === JOURNAL_FILE) return 'journal'
  if (ROOT_NAMES.has(name)) return 'root'
  if (KAFKA_CHECKPOINT.test(name) || TEXT_FILES.has(name)) return 'text'
  return null
}

/** The small files that are ours alone, one of them in the folder of a partition. */
const ROOT_NAMES: ReadonlySet<string> = new Set([...Object.values(ROOT_FILES), COMPACTION_NOTE_FILE])
const TEXT_FILES = new Set(['partition.metadata', 'meta.properties', 'moonmq.lock', '.kafka_cleanshutdown', 'quorum-state'])

/** The lines of a file that is no log, in pieces of bounded size. Ends with a fault where the file is damaged. */
export async function* sideFileLines(
  disk: Disk,
  path: string,
  kind: SideFileKind,
): AsyncGenerator<SideLine | { readonly fault: SideFault }, void, undefined> {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const baseOffset = parseSegmentFileName(name)?.baseOffset ?? 0
  try {
    if (kind === 'index') yield* entries(disk, path, OFFSET_INDEX_ENTRY_BYTES, (bytes, at) => offsetEntry(bytes, at, baseOffset))
    else if (kind === 'timeindex') yield* entries(disk, path, TIME_INDEX_ENTRY_BYTES, (bytes, at) => timeEntry(bytes, at, baseOffset))
    else if (kind === 'txnindex') {
      const decode = (bytes: Buffer, at: number, position: number) => txnEntry(bytes, at, { file: path, position, baseOffset })
      yield* entries(disk, path, TXN_INDEX_ENTRY_BYTES, decode)
    } else if (kind === 'journal') yield* journal(disk, path)
    else yield* wholeFile(disk, path, kind, baseOffset)
  } catch (error) {
    if (!(error instanceof MoonMQError)) throw error
    const { position, reason } = error.details
    yield { fault: { position: typeof position === 'number' ? position : null, reason: String(reason ?? error.message) } }
  }
}

async function* entries(
  disk: Disk,
  path: string,
  entryBytes: number,
  decode: (bytes: Buffer, at: number, position: number) => SideLine,
): AsyncGenerator<SideLine | { readonly fault: SideFault }, void, undefined> {
  const file = await disk.open(path, 'read')
  try {
    const chunk = Buffer.allocUnsafe(Math.floor(READ_BYTES / entryBytes) * entryBytes)
    const whole = file.sizeBytes - (file.sizeBytes % entryBytes)
    for (let position = 0; position < whole; ) {
      const size = await file.read(chunk.subarray(0, Math.min(chunk.length, whole - position)), position)
      if (size < entryBytes) break
      for (let at = 0; at + entryBytes <= size; at += entryBytes) yield decode(chunk, at, position + at)
      position += size - (size % entryBytes)
    }
    if (whole < file.sizeBytes) {
      yield { fault: { position: whole, reason: `${file.sizeBytes - whole} bytes are left, an entry has ${entryBytes}` } }
    }
  } finally {
    await file.close()
  }
}

function offsetEntry(bytes: Buffer, at: number, baseOffset: number): SideLine {
  const lastOffset = baseOffset + bytes.readUInt32BE(at)
  const position = bytes.readUInt32BE(at + 4)
  return { text: `offset ${lastOffset}  byte ${position}`, json: { kind: 'index', lastOffset, position } }
}

function timeEntry(bytes: Buffer, at: number, baseOffset: number): SideLine {
  const timestampMs = readInt64(bytes, at)
  const lastOffset = baseOffset + bytes.readUInt32BE(at + 8)
  return { text: `time ${timeText(timestampMs)}  offset ${lastOffset}`, json: { kind: 'timeindex', timestampMs, lastOffset } }
}

function txnEntry(bytes: Buffer, at: number, place: { file: string; position: number; baseOffset: number }): SideLine {
  const [entry] = decodeTxnIndex(bytes.subarray(at, at + TXN_INDEX_ENTRY_BYTES), place, undefined)
  const { producerId, firstOffset, lastOffset, lastStableOffset } = entry as NonNullable<typeof entry>
  return {
    text: `aborted  producer ${producerId}  offsets ${firstOffset}-${lastOffset}  last stable offset ${lastStableOffset}`,
    json: { kind: 'txnindex', producerId, firstOffset, lastOffset, lastStableOffset },
  }
}

async function* wholeFile(disk: Disk, path: string, kind: SideFileKind, endOffset: number): AsyncGenerator<SideLine, void, undefined> {
  const bytes = await readSmallFile(
    disk,
    path,
    kind === 'snapshot' ? MAX_PRODUCER_SNAPSHOT_BYTES : kind === 'root' ? MAX_ROOT_BYTES : MAX_TEXT_BYTES,
  )
  if (bytes === null) return
  if (kind === 'snapshot') {
    for (const producer of decodeProducerSnapshot(bytes, { file: path, endOffset })) {
      const { producerId, producerEpoch, currentTxnFirstOffset, coordinatorEpoch, batches } = producer
      const open = currentTxnFirstOffset < 0 ? '' : `  open transaction from ${currentTxnFirstOffset}`
      const last = batches.map((each) => `${each.baseOffset}-${each.lastOffset} (sequences ${each.baseSequence}-${each.lastSequence})`)
      yield {
        text: `producer ${producerId}  epoch ${producerEpoch}  coordinator epoch ${coordinatorEpoch}${open}  batches ${last.join(', ') || 'none'}`,
        json: { kind: 'snapshot', ...producer },
      }
    }
  } else if (kind === 'epochs') {
    for (const { leaderEpoch, startOffset } of decodeEpochCheckpoint(bytes, path)) {
      yield { text: `epoch ${leaderEpoch}  from offset ${startOffset}`, json: { kind: 'epoch', leaderEpoch, startOffset } }
    }
  } else if (kind === 'root') yield* rootFile(bytes, path)
  else for (const line of bytes.toString('utf8').split('\n')) if (line !== '') yield { text: line, json: { kind: 'text', line } }
}

function* rootFile(bytes: Buffer, path: string): Generator<SideLine, void, undefined> {
  if (path.endsWith(ROOT_FILES['clean-shutdown'])) {
    const { recoveryPointsChecksum, atMs } = decodeCleanShutdown(bytes, path)
    const text = `stopped in order at ${timeText(atMs)}  checksum of the recovery points ${recoveryPointsChecksum}`
    yield { text, json: { kind: 'clean-shutdown', recoveryPointsChecksum, atMs } }
    return
  }
  if (path.endsWith(ROOT_FILES['retention-clock'])) return yield* retentionNote(bytes, path)
  if (path.endsWith(ROOT_FILES['clean-logs'])) return yield* cleanLogs(bytes, path)
  if (path.endsWith(COMPACTION_NOTE_FILE)) {
    const { holesBelow, cleanedOffset, nextHorizonMs } = decodeCompactionNote(bytes, path)
    const horizon = nextHorizonMs < 0 ? 'no tombstone waits' : `the next tombstone may go at ${timeText(nextHorizonMs)}`
    const text = `holes below offset ${holesBelow}  compacted below offset ${cleanedOffset}  ${horizon}`
    yield { text, json: { kind: 'compaction', holesBelow, cleanedOffset, nextHorizonMs } }
    return
  }
  if (path.endsWith(ROOT_FILES['journal-note'])) {
    const { journalId, throughFrame, forgotten } = decodeJournalNote(bytes, path)
    const text = `journal ${journalId}  durable through frame ${throughFrame}`
    yield { text, json: { kind: 'journal-note', journalId, throughFrame, forgotten: forgotten.length } }
    for (const log of forgotten) {
      yield { text: `  says nothing of topic ${log.topicId} partition ${log.partition}`, json: { kind: 'forgotten-log', ...log } }
    }
    return
  }
  const kind = path.endsWith(ROOT_FILES['log-starts']) ? 'log-starts' : 'recovery-points'
  for (const { topicId, partition, offset, txnSeals } of decodeOffsets(kind, bytes, path)) {
    const seals = txnSeals?.map((each) => `${each.entries} in segment ${each.baseOffset}`).join(', ')
    const aborted = seals === undefined || seals === '' ? '' : `  aborted transactions ${seals}`
    const json = { kind, topicId, partition, offset, ...(txnSeals === undefined || txnSeals.length === 0 ? {} : { txnSeals }) }
    yield { text: `topic ${topicId}  partition ${partition}  offset ${offset}${aborted}`, json }
  }
}

function* retentionNote(bytes: Buffer, path: string): Generator<SideLine, void, undefined> {
  const { clock, known } = decodeRetentionNote(bytes, path)
  yield {
    text: `clock ${timeText(clock.wallMs)}  believed ${timeText(clock.believedMs)}  passed since the first start ${clock.steadyMs} ms`,
    json: { kind: 'retention-clock', ...clock },
  }
  for (const { topicId, partition, baseOffset, sinceSteadyMs } of known) {
    const text = `impossible times  topic ${topicId}  partition ${partition}  segment ${baseOffset}  known since ${sinceSteadyMs} ms`
    yield { text, json: { kind: 'impossible-times', topicId, partition, baseOffset, sinceSteadyMs } }
  }
}

function* cleanLogs(bytes: Buffer, path: string): Generator<SideLine, void, undefined> {
  const { atMs, logs } = decodeCleanLogs(bytes, path)
  yield { text: `stopped in order at ${timeText(atMs)}  logs ${logs.length}`, json: { kind: 'clean-logs', atMs, logs: logs.length } }
  for (const { producers, ...log } of logs) {
    const sizeBytes = log.segments.reduce((sum, each) => sum + each.sizeBytes, 0)
    const text = `topic ${log.topicId}  partition ${log.partition}  offsets ${log.logStartOffset} to ${log.endOffset}  segments ${log.segments.length}  bytes ${sizeBytes}`
    yield { text, json: { kind: 'clean-log', ...log, producerBytes: producers.length } }
  }
}

/** Frames in the order in which they were written, from the oldest that matters on. */
async function* journal(disk: Disk, path: string): AsyncGenerator<SideLine | { readonly fault: SideFault }, void, undefined> {
  const content = await readJournal(disk, path.slice(0, path.lastIndexOf('/')))
  if (content === null) return
  for (const { sequence, oldestLive, entries, sizeBytes } of content.frames) {
    const text = `frame ${sequence}  bytes ${sizeBytes}  entries ${entries.length}  oldest that matters ${oldestLive}`
    yield { text, json: { kind: 'frame', sequence, oldestLive, sizeBytes, entries: entries.length } }
    for (const entry of entries) yield journalEntry(sequence, entry)
  }
  if (content.reason !== null) yield { fault: { position: null, reason: content.reason } }
}

function journalEntry(sequence: number, entry: JournalEntry): SideLine {
  const { topic, partition, topicId } = entry.owner
  const json = { kind: entry.kind, frame: sequence, topic, partition, topicId }
  const name = `  ${topic}-${partition} (${topicId})`
  if (entry.kind === 'forget') return { text: `${name}  forget what earlier frames say of it`, json }
  if (entry.kind === 'epochs') {
    const epochs = entry.epochs.map(({ leaderEpoch, startOffset }) => `${leaderEpoch} from ${startOffset}`).join(', ')
    return { text: `${name}  epochs ${epochs || 'none'}`, json: { ...json, epochs: entry.epochs } }
  }
  const { segmentBase, position, startOffset, endOffset, syncedOffset, sizeBytes } = entry
  return {
    text: `${name}  offsets ${startOffset} to ${endOffset - 1}  ${sizeBytes} bytes for segment ${segmentBase} at byte ${position}  synced below ${syncedOffset}`,
    json: { ...json, segmentBase, position, startOffset, endOffset, syncedOffset, sizeBytes },
  }
}
