import { MoonMQError } from '../core/errors.ts'
import { WRITE_NOW_MAX_BYTES } from '../io/disk.ts'
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
  /** Everything below `endOffset` is in the file of `segment`; these `parts` are new. */
  wrote(segment: Segment, endOffset: number, parts: readonly Buffer[], bytes: number): void
  /** A write failed. The writer has stopped; nothing more is written. */
  writeFailed(error: unknown): void
}

/** What one write through the pool takes at most, and so what a failing one leaves in doubt. */
const UNIT_MAX_BYTES = 4 * 1024 * 1024
const UNIT_MAX_BUFFERS = 1024
const DEFAULT_MAX_QUEUED_BYTES = 64 * 1024 * 1024

/**
 * The one writer of a log: takes all that is queued in as few writes as the sizes allow, in order, one at a time. Small writes go
 * to the page cache on the spot, large ones through the thread pool. A segment's file is opened at its first write and stays
 * pinned until what was written is synced.
 */
export class LogWriter implements QueuedWriter {
  readonly #commit: GroupCommit
  readonly #handles: HandleCache
  readonly #host: WriterHost
  #queue: WriteUnit[] = []
  #queuedBytes = 0
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

  writeQueued(): void {
    while (!this.#isBusy && !this.#isStopped) {
      if (this.#queue.length === 0) {
        this.#notifyIdle()
        return
      }
      const before = this.#host.prepare() ?? this.#roomForFile()
      if (before === null) this.#writeNext()
      // With what others were made to wait for in the same way: then all of it is synced together.
      else this.#whenDone(before, () => this.#commit.writeSoon(this))
    }
  }

  /** Resolves when nothing is queued or being written, or the writer has stopped. */
  async drained(): Promise<void> {
    if (this.#isStopped ? !this.#isBusy : this.#queue.length === 0 && !this.#isBusy) return
    await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  /** Drops what is queued. A write that runs ends by itself; nobody is told of it. */
  stop(): void {
    this.#isStopped = true
    this.#queue = []
    this.#queuedBytes = 0
    this.#wakeRoom()
    if (!this.#isBusy) this.#notifyIdle()
  }

  /** With few descriptors many files are written a part at a time: the file stays open until it is synced. */
  #roomForFile(): Promise<void> | null {
    return this.#queue[0]?.segment.isPinned === true ? null : this.#handles.room()
  }

  #writeNext(): void {
    const unit = this.#queue.shift() as WriteUnit
    const { segment } = unit
    let file: ReturnType<Segment['log']['acquire']>
    try {
      file = segment.log.acquire()
    } catch (error) {
      this.#fail(error)
      return
    }
    if (segment.isPinned) segment.log.release()
    segment.isPinned = true
    if (file.sizeBytes !== segment.writtenBytes) {
      const reason = `${file.path} has ${file.sizeBytes} bytes where ${segment.writtenBytes} were written`
      this.#fail(new MoonMQError('INTERNAL', { reason }))
      return
    }
    if (unit.bytes > WRITE_NOW_MAX_BYTES) {
      this.#whenDone(file.write(unit.buffers, segment.writtenBytes), () => {
        this.#wrote(unit)
        this.writeQueued()
      })
      return
    }
    try {
      file.writeNow(unit.buffers, segment.writtenBytes)
    } catch (error) {
      this.#fail(error)
      return
    }
    this.#wrote(unit)
  }

  #wrote(unit: WriteUnit): void {
    this.#queuedBytes -= unit.bytes
    unit.segment.writtenBytes += unit.bytes
    unit.segment.writtenOffset = unit.endOffset
    if (this.#roomWaiters.length > 0 && this.#queuedBytes < this.#maxQueuedBytes / 2) this.#wakeRoom()
    this.#host.wrote(unit.segment, unit.endOffset, unit.buffers, unit.bytes)
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
