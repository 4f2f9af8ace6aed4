import { MoonMQError } from '../core/errors.ts'
import { type DiskFile, WRITE_NOW_MAX_BYTES } from '../io/disk.ts'
import type { GroupCommit, QueuedWriter } from './group-commit.ts'
import type { HandleCache } from './handles.ts'
import type { Segment } from './segment.ts'

/** Batches of one segment that go into the file in one gathering write. */
interface WriteUnit {
  readonly segment: Segment
  readonly buffers: Buffer[]
  bytes: number
  endOffset: number
}

export interface WriterHost {
  /** What must be durable before the next write, or null when nothing is. Called before each write. */
  prepare(): Promise<void> | null
  /** Whether bytes are synced as soon as they are taken, so that the journal may have them before the file. */
  isSyncedAtOnce(): boolean
  /** Everything below `endOffset` is in the file of `segment`. */
  written(segment: Segment, endOffset: number, isLate: boolean): void
  /** These `parts`, up to `endOffset`, are to become durable now. They are in the file, or will be before it is synced. */
  taken(segment: Segment, endOffset: number, parts: readonly Buffer[], bytes: number): void
  /** A write failed. The writer has stopped; nothing more is written. */
  writeFailed(error: unknown): void
}

/** What one write through the pool takes at most, and so what a failing one leaves in doubt. */
const UNIT_MAX_BYTES = 4 * 1024 * 1024
const UNIT_MAX_BUFFERS = 1024
const DEFAULT_MAX_QUEUED_BYTES = 64 * 1024 * 1024
/** What one log may have in the journal and not in its file. */
const LATE_MAX_BYTES = 64 * 1024

/**
 * The one writer of a log: takes all that is queued in as few writes as the sizes allow, in order, one at a time. Small writes go
 * to the page cache on the spot, large ones through the thread pool. A segment's file is opened at its first write and stays
 * pinned until what was written is synced.
 *
 * Where many logs write at once the journal gets their bytes first, and a file gets them while the journal is synced or after it: late.
 * They are in the file before anything else is written to it, before it is synced, and before the log is opened again after a failure.
 */
export class LogWriter implements QueuedWriter {
  readonly #commit: GroupCommit
  readonly #handles: HandleCache
  readonly #host: WriterHost
  #queue: WriteUnit[] = []
  #queuedBytes = 0
  /** What the journal has or gets first. */
  #late: WriteUnit | null = null
  #isBusy = false
  #isStopped = false
  #idle: (() => void)[] = []
  #roomWaiters: (() => void)[] = []
  readonly #maxQueuedBytes: number

  constructor(deps: { commit: GroupCommit; handles: HandleCache }, host: WriterHost, maxQueuedBytes: number = DEFAULT_MAX_QUEUED_BYTES) {
    this.#commit = deps.commit
    this.#handles = deps.handles
    this.#host = host
    this.#maxQueuedBytes = maxQueuedBytes
  }

  get queuedBytes(): number {
    return this.#queuedBytes
  }

  /** Whether so many bytes more may wait. A batch of any size may when nothing else does. */
  hasRoom(bytes: number): boolean {
    return this.#queuedBytes === 0 || this.#queuedBytes + bytes <= this.#maxQueuedBytes
  }

  /** Undefined while less than half of the room is taken, else resolves when that is so again, or the writer has stopped. */
  ready(): Promise<void> | undefined {
    if (this.#queuedBytes < this.#maxQueuedBytes / 2) return undefined
    return new Promise((resolve) => this.#roomWaiters.push(resolve))
  }

  enqueue(segment: Segment, batch: Buffer, endOffset: number): void {
    this.#queuedBytes += batch.length
    const last = this.#queue[this.#queue.length - 1]
    if (
      last !== undefined &&
      last.segment === segment &&
      last.bytes + batch.length <= UNIT_MAX_BYTES &&
      last.buffers.length < UNIT_MAX_BUFFERS
    ) {
      last.buffers.push(batch)
      last.bytes += batch.length
      last.endOffset = endOffset
    } else this.#queue.push({ segment, buffers: [batch], bytes: batch.length, endOffset })
    if (!this.#isBusy) this.#commit.writeSoon(this)
  }

  get hasLate(): boolean {
    return this.#late !== null
  }

  writeQueued(mayBeLate: boolean): void {
    while (!this.#isBusy && !this.#isStopped) {
      if (this.#queue.length === 0) {
        this.#notifyIdle()
        return
      }
      const before = this.#host.prepare() ?? this.#roomForFile()
      if (before === null) this.#writeNext(mayBeLate)
      // With what others were made to wait for in the same way: then all of it is synced together.
      else this.#whenDone(before, () => this.#commit.writeSoon(this))
    }
  }

  /** Resolves when nothing is queued or being written, or the writer has stopped. */
  async drained(): Promise<void> {
    if (this.#isStopped ? !this.#isBusy : this.#queue.length === 0 && !this.#isBusy) return
    await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** Drops what is queued; what is late stays for `finishLate`. A write that runs ends by itself; nobody is told of it. */
  stop(): void {
    this.#isStopped = true
    this.#commit.late.remove(this)
    this.#queue = []
    this.#queuedBytes = 0
    this.#wakeRoom()
    if (!this.#isBusy) this.#notifyIdle()
  }

  /** With few descriptors many files are written a part at a time: the file stays open until it is synced. */
  #roomForFile(): Promise<void> | null {
    return this.#queue[0]?.segment.isPinned === true ? null : this.#handles.room()
  }

  #writeNext(mayBeLate: boolean): void {
    const unit = this.#queue.shift() as WriteUnit
    const { segment } = unit
    let file: DiskFile
    try {
      // Whoever finds the file of the next segment may expect that the one before it is whole.
      if (this.#late !== null && this.#late.segment !== segment) this.writeLate()
      file = this.#pin(segment)
      if (mayBeLate && this.#takeLate(unit)) return
      this.writeLate()
      expectSize(file, segment)
      if (unit.bytes <= WRITE_NOW_MAX_BYTES) file.writeNow(unit.buffers, segment.writtenBytes)
    } catch (error) {
      this.#fail(error)
      return
    }
    if (unit.bytes <= WRITE_NOW_MAX_BYTES) this.#wrote(unit)
    else {
      this.#whenDone(file.write(unit.buffers, segment.writtenBytes), () => {
        this.#wrote(unit)
        this.writeQueued(false)
      })
    }
  }

  #pin(segment: Segment): DiskFile {
    const file = segment.log.acquire()
    if (segment.isPinned) segment.log.release()
    segment.isPinned = true
    return file
  }

  #wrote(unit: WriteUnit): void {
    const { segment, endOffset, buffers, bytes } = unit
    this.#left(bytes)
    segment.writtenBytes += bytes
    segment.writtenOffset = endOffset
    this.#host.written(segment, endOffset, false)
    if (!this.#isStopped) this.#host.taken(segment, endOffset, buffers, bytes)
  }

  /** So many bytes are not queued any more. */
  #left(bytes: number): void {
    this.#queuedBytes -= bytes
    if (this.#roomWaiters.length > 0 && this.#queuedBytes < this.#maxQueuedBytes / 2) this.#wakeRoom()
  }

  // ---- what the journal has first -------------------------------------------------------------------------------------------

  #takeLate(unit: WriteUnit): boolean {
    const { segment, endOffset, buffers, bytes } = unit
    if (segment.lateBytes + bytes > LATE_MAX_BYTES || !this.#host.isSyncedAtOnce()) return false
    this.#left(bytes)
    segment.lateBytes += bytes
    segment.lateOffset = endOffset
    const late = this.#late
    if (late === null) this.#late = unit
    else {
      for (const buffer of buffers) late.buffers.push(buffer)
      late.bytes += bytes
      late.endOffset = endOffset
    }
    this.#commit.late.add(this, bytes)
    this.#host.taken(segment, endOffset, buffers, bytes)
    return true
  }

  /** Writes what is late, if anything is. Throws when that fails, and the writer has stopped. */
  writeLate(): void {
    const unit = this.#late
    if (unit === null || this.#isStopped) return
    try {
      const file = this.#pin(unit.segment)
      expectSize(file, unit.segment)
      this.#writeLateUnit(file, unit)
    } catch (error) {
      this.#fail(error)
      throw error
    }
    this.#commit.late.remove(this)
    this.#host.written(unit.segment, unit.endOffset, true)
  }

  /**
   * The log failed and is about to be opened again from its files: what was late goes into its own, if that is still one of the log's. The
   * journal may have all of it, acknowledged or not, and would put it back over whatever was written in its place.
   */
  finishLate(segments: readonly Segment[]): void {
    const unit = this.#late
    if (unit === null) return
    if (segments.includes(unit.segment)) this.#writeLateUnit(this.#pin(unit.segment), unit)
    else this.#late = null
  }

  #writeLateUnit(file: DiskFile, unit: WriteUnit): void {
    const { segment } = unit
    file.writeNow(unit.buffers, segment.writtenBytes)
    this.#late = null
    segment.writtenBytes += unit.bytes
    segment.writtenOffset = unit.endOffset
    segment.lateBytes = 0
  }

  #whenDone(work: Promise<void>, then: () => void): void {
    this.#isBusy = true
    work.then(
      () => {
        this.#isBusy = false
        if (this.#isStopped) this.#notifyIdle()
        else then()
      },
      (error: unknown) => {
        this.#isBusy = false
        if (this.#isStopped) this.#notifyIdle()
        else this.#fail(error)
      },
    )
  }

  #fail(error: unknown): void {
    this.stop()
    this.#host.writeFailed(error)
  }

  #wakeRoom(): void {
    for (const resolve of this.#roomWaiters.splice(0)) resolve()
  }

  #notifyIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}

function expectSize(file: DiskFile, segment: Segment): void {
  if (file.sizeBytes === segment.writtenBytes) return
  throw new MoonMQError('INTERNAL', { reason: `${file.path} has ${file.sizeBytes} bytes where ${segment.writtenBytes} were written` })
}
