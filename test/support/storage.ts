import type { Clock } from '../../src/core/clock.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { type Failpoint, NO_FAILPOINT } from '../../src/core/failpoint.ts'
import { type LogFields, type Logger, SILENT } from '../../src/core/logger.ts'
import type { Disk } from '../../src/io/disk.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { type BatchHeader, readBatchHeader } from '../../src/record/batch.ts'
import { type BatchOptions, buildBatch } from '../../src/record/builder.ts'
import { LogManager, type LogManagerOptions } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import type { LogConfig } from '../../src/storage/types.ts'
import { LOG_CONFIG } from './log-config.ts'

export const DATA_FOLDER = '/data'
export const TOPIC_ID = 'AAAAAAAAQACAAAAAAAAAAQ'

/** A batch of records with these values, as a producer sends it. */
export function batchOf(
  values: readonly string[],
  options: BatchOptions & { timestampMs?: number } = {},
): { batch: Buffer; header: BatchHeader } {
  const timestampMs = options.timestampMs ?? 1_700_000_000_000
  const batch = buildBatch(
    values.map((value) => ({ key: null, value: Buffer.from(value), timestampMs })),
    options,
  )
  return { batch, header: readBatchHeader(batch) }
}

export interface LogHarness {
  readonly disk: MemoryDisk
  readonly manager: LogManager
  readonly log: PartitionLog
  readonly lines: RecordedLine[]
}

export interface RecordedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly event: string
  readonly text: string
  readonly fields: LogFields
}

/** Keeps what is logged. */
export function recordingLogger(lines: RecordedLine[]): Logger {
  const at =
    (level: RecordedLine['level']) =>
    (event: string, text: string, fields: LogFields = {}) =>
      void lines.push({ level, event, text, fields })
  return { ...SILENT, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => recordingLogger(lines) }
}

export interface OpenOptions {
  readonly disk?: MemoryDisk
  readonly config?: Partial<LogConfig>
  readonly manager?: Partial<LogManagerOptions>
  readonly maxEpoch?: number
  readonly clock?: Clock
  /** Which start of the machine this is: another one means that the power went. */
  readonly boot?: string
  readonly failpoint?: Failpoint
}

/** A log manager on a memory disk with one partition, `t-0`. */
export async function openHarness(options: OpenOptions = {}): Promise<LogHarness> {
  const lines: RecordedLine[] = []
  const clock = options.clock ?? new SystemClock()
  const disk = options.disk ?? new MemoryDisk({ clock })
  const manager = await openManager(disk, { clock, lines, ...options })
  const log = await manager.open({
    topic: 't',
    partition: 0,
    topicId: TOPIC_ID,
    config: { ...LOG_CONFIG, ...options.config },
    maxEpoch: options.maxEpoch ?? 100,
  })
  return { disk, manager, log, lines }
}

let nextPid = 100

export function openManager(disk: Disk, options: OpenOptions & { lines?: RecordedLine[] }): Promise<LogManager> {
  const pid = nextPid++
  const host = new FixedHost({ pid, bootId: options.boot ?? 'boot-1', processes: new Map([[pid, '1']]) })
  const { failpoint = NO_FAILPOINT } = options
  const deps = { disk, clock: options.clock ?? new SystemClock(), log: recordingLogger(options.lines ?? []), host, failpoint }
  return LogManager.open(deps, { dataFolder: DATA_FOLDER, checkpointIntervalMs: 3_600_000, ...options.manager })
}

/** Appends one batch. */
export function appendTo(
  log: PartitionLog,
  values: readonly string[],
  options: BatchOptions & { timestampMs?: number; epoch?: number } = {},
) {
  const { batch, header } = batchOf(values, options)
  return log.append(batch, header, { leaderEpoch: options.epoch ?? 0 })
}

/** Appends and waits until it is durable. */
export async function store(
  log: PartitionLog,
  values: readonly string[],
  options: BatchOptions & { timestampMs?: number; epoch?: number } = {},
) {
  const appended = appendTo(log, values, options)
  await log.whenDurable(appended.lastOffset + 1)
  return appended
}

/** Base and last offset of every batch that can be read from `offset` on, up to `limit`. */
export async function readAll(
  log: PartitionLog,
  offset = log.logStartOffset,
  maxBytes = 64 * 1024,
  limit = log.logEndOffset,
): Promise<[number, number][]> {
  const found: [number, number][] = []
  let next = offset
  while (next < limit) {
    const read = await log.read({ offset: next, maxBytes, minOneBatch: true, limitOffset: limit })
    if (read.sizeBytes === 0) break
    for (const bytes of read.buffers) {
      for (let at = 0; at < bytes.length; ) {
        const header = readBatchHeader(bytes, at, bytes.length)
        found.push([header.baseOffset, header.baseOffset + header.lastOffsetDelta])
        at += header.sizeBytes
      }
    }
    next = read.nextOffset
    read.release()
  }
  return found
}

/** Every file below the data folder with its bytes, as a reader sees them now. */
export async function filesOf(disk: MemoryDisk, folder = DATA_FOLDER): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>()
  for (const entry of await disk.list(folder)) {
    const path = `${folder}/${entry.name}`
    if (entry.kind === 'file') files.set(path, Buffer.from(disk.peek(path) ?? Buffer.alloc(0)))
    else for (const [name, bytes] of await filesOf(disk, path)) files.set(name, bytes)
  }
  return files
}

/** A new disk that holds these files, all of them durable. */
export async function diskWith(files: ReadonlyMap<string, Buffer>): Promise<MemoryDisk> {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  for (const [path, bytes] of files) {
    await disk.makeDirectory(path.slice(0, path.lastIndexOf('/')))
    const file = await disk.open(path, 'write')
    if (bytes.length > 0) await file.write([bytes], 0)
    await file.datasync()
    await file.close()
  }
  await disk.syncDirectory('/')
  return disk
}

export const LOG_FILE = `${DATA_FOLDER}/t-0/00000000000000000000.log`
