import type { Clock } from '../core/clock.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { Random } from '../core/random.ts'
import { newUuid, type Uuid, ZERO_UUID } from '../core/uuid.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { WRITE_NOW_MAX_BYTES } from '../io/disk.ts'
import { directoryIdOf } from './identity.ts'
import {
  encodeFrame,
  encodeHead,
  entryBytes,
  FRAME_HEAD_BYTES,
  JOURNAL_BLOCK_BYTES,
  JOURNAL_FILE,
  type JournalEntry,
  journalBytes,
  wholeBlocks,
} from './journal-format.ts'
import { type JournalNote, type LogId, removeJournalNote, writeJournalNote } from './journal-note.ts'

/** Something whose newest bytes are in the journal and not yet, durably, in a file of its own. */
export type JournalMember = object

/** What goes into one frame, and who waits for the files that it stands in for. */
export interface JournalItem {
  readonly entry: JournalEntry
  readonly member: JournalMember | null
  /** The member's own file must be durable up to here before the frame may go. */
  readonly upTo: number
  /** The member is gone, with all that it had to make durable. */
  isGone(): boolean
}

export interface JournalOptions {
  readonly folder: string
  /** Bytes of each of the two areas, where there is room; asked when the file is made. */
  areaBytes(): number
}

interface Area {
  from: number
  usedBytes: number
  /** The newest frame written to it. */
  lastSequence: number
  /** First frame since which somebody waits. */
  liveFrom: number
  readonly waiting: Map<JournalMember, number>
}

const RETRY_MS = 30_000
/** An area takes so little of what is free, but so much at least; on a disk without end, in memory, no more. */
const SHARE_OF_FREE = 1 / 64
const LEAST_AREA_BYTES = 1024 * 1024
const ZEROS_BYTES = 1024 * 1024
const FRAME_GROWTH_BYTES = 64 * 1024

type State = 'absent' | 'preparing' | 'ready' | 'broken'

/**
 * One file for the newest bytes of many logs, made durable by one sync (DESIGN D5). Written in place, so that a sync has no sizes and no
 * new blocks to note. While one of the two areas fills, the files that the other one stands in for are synced in the background, then
 * it is used again; when they are not done in time there is no room, and every file is synced by itself.
 *
 * Order: the file is durable, then the note that says which journal is in use, then the first frame, and each frame before any of its
 * bytes counts. An area is used again when all it holds is durable in files, and a durable
 * frame says so; then the first new frame overwrites it. When nothing in it is needed, at a stop in order and after a write failed, the
 * note is removed, and then the file.
 */
export class Journal {
  readonly #deps: { disk: Disk; clock: Clock; log: Logger; random: Random; failpoint: Failpoint }
  readonly #options: JournalOptions
  readonly #areas: readonly [Area, Area]
  #areaBytes = 0
  #state: State = 'absent'
  #file: DiskFile | null = null
  #id: Uuid = ZERO_UUID
  #current = 0
  #turns = 0
  #sequence = 1
  /** What the newest durable frame says of the oldest that matters. */
  #saidLive = 0
  /** The newest durable frame, and the newest that the note tells of. */
  #durableFrame = 0
  #notedFrame = 0
  #retryAtMs = Number.NEGATIVE_INFINITY
  /** One of an earlier process, or its note, must stay: its logs are not all made from it, or not all named that miss it. */
  isKept = false
  /** What the note says, or is to say, while nothing can be added to the journal and it is still there. */
  #sealed: JournalNote | null = null
  /** Logs that such a journal must not bring back. */
  readonly #forgotten = new Map<string, LogId>()
  #background: Promise<void> | null = null
  #memory = Buffer.alloc(0)

  constructor(deps: { disk: Disk; clock: Clock; log: Logger; random: Random; failpoint: Failpoint }, options: JournalOptions) {
    this.#deps = deps
    this.#options = options
    const area = (): Area => ({ from: 0, usedBytes: 0, lastSequence: 0, liveFrom: 0, waiting: new Map() })
    this.#areas = [area(), area()]
  }

  /** One of an earlier process stays, since a log could not be made from it. */
  keep(note: JournalNote): void {
    this.isKept = true
    this.#seal(note)
  }

  #seal(note: JournalNote): void {
    this.#sealed = note
    this.#forgotten.clear()
    for (const each of note.forgotten) this.#forgotten.set(`${each.topicId}-${each.partition}`, each)
  }

  /** Nothing can be added to it any more, and the next start reads it. */
  get isSealed(): boolean {
    return this.#sealed !== null
  }

  get isReady(): boolean {
    return this.#state === 'ready'
  }

  /** Nothing was ever written to it. */
  get isUntouched(): boolean {
    return this.#file === null || this.#sequence === 1
  }

  /** Entries may take so much of one frame: a block of each area is kept for the frame that ends it. */
  get maxFrameBytes(): number {
    const areaBytes = this.#file === null ? this.#options.areaBytes() : this.#areaBytes
    return areaBytes - 2 * JOURNAL_BLOCK_BYTES
  }

  /** Those whose own files must be synced before the area that is not written now can be used again, or for all of it. */
  waiting(which: 'old' | 'all'): JournalMember[] {
    const old = this.#areas[1 - this.#current] as Area
    return which === 'old' ? [...old.waiting.keys()] : [...old.waiting.keys(), ...(this.#areas[this.#current] as Area).waiting.keys()]
  }

  /** How many there are of the first kind. */
  get oldWaiting(): number {
    return (this.#areas[1 - this.#current] as Area).waiting.size
  }

  /** Of the area that is written now. */
  get filledShare(): number {
    return (this.#areas[this.#current] as Area).usedBytes / this.#areaBytes
  }

  /** How often the other area was taken. */
  get turns(): number {
    return this.#turns
  }

  isWaiting(member: JournalMember): boolean {
    return this.#areas[0].waiting.has(member) || this.#areas[1].waiting.has(member)
  }

  /** Makes the file, in the background, unless it is there or could not be made a short while ago. Resolves, if it is being made, when that has ended. */
  prepare(): Promise<void> | null {
    const { clock } = this.#deps
    if (this.#state === 'preparing') return this.#background
    if (this.#state !== 'absent' || this.isKept || clock.monotonicMs() < this.#retryAtMs) return null
    this.#state = 'preparing'
    this.#inBackground(this.#prepare(), 'ready', 'the journal could not be made; each file is synced by itself')
    return this.#background
  }

  async #prepare(): Promise<void> {
    const { disk, random, failpoint } = this.#deps
    const { folder } = this.#options
    const areaBytes = await this.#sizeOfAreas()
    // One that could not be removed is about to be emptied.
    await removeJournalNote(disk, folder)
    const file = await disk.open(this.#path, 'write')
    try {
      const zeros = Buffer.alloc(Math.min(ZEROS_BYTES, areaBytes))
      await file.truncate(0)
      const end = journalBytes(areaBytes) - JOURNAL_BLOCK_BYTES
      for (let at = JOURNAL_BLOCK_BYTES; at < end; at += zeros.length) {
        await file.write([at + zeros.length > end ? zeros.subarray(0, end - at) : zeros], at)
      }
      this.#id = newUuid(random)
      const directoryId = (await directoryIdOf(disk, folder)) ?? ZERO_UUID
      const head = encodeHead({ id: this.#id, areaBytes, directoryId })
      await file.write([head], 0)
      await file.write([head], end)
      await file.datasync()
      this.#sealed = null
      await disk.syncDirectory(folder)
      failpoint('journal.made')
      await writeJournalNote(disk, folder, { journalId: this.#id, throughFrame: 0, forgotten: [] })
    } catch (error) {
      await file.close().catch(() => {})
      // It holds nothing, and the space may be what others lack. While the note cannot be removed it stays too, lest it be missed.
      await removeJournalNote(disk, folder)
        .then(() => disk.removeFile(this.#path))
        .catch(() => {})
      throw error
    }
    this.#durableFrame = 0
    this.#notedFrame = 0
    this.#sequence = 1
    this.#current = 0
    this.#saidLive = 0
    this.#areaBytes = areaBytes
    for (const [number, area] of this.#areas.entries()) {
      area.from = JOURNAL_BLOCK_BYTES + number * areaBytes
      area.usedBytes = 0
      area.lastSequence = 0
    }
    this.#file = file
    failpoint('journal.prepared')
  }

  async #sizeOfAreas(): Promise<number> {
    const { freeBytes } = await this.#deps.disk.space(this.#options.folder)
    const share = Number.isFinite(freeBytes) ? Math.floor(freeBytes * SHARE_OF_FREE) : 0
    return Math.min(this.#options.areaBytes(), Math.max(LEAST_AREA_BYTES, share - (share % JOURNAL_BLOCK_BYTES)))
  }

  /** Whether a frame of these entries has a place now. */
  hasRoom(bytes: number): boolean {
    if (this.#state !== 'ready') return false
    const size = wholeBlocks(FRAME_HEAD_BYTES + bytes)
    const current = this.#areas[this.#current] as Area
    const other = this.#areas[1 - this.#current] as Area
    return this.#fits(current, size) || (other.waiting.size === 0 && size <= this.maxFrameBytes)
  }

  #fits(area: Area, size: number): boolean {
    return area.usedBytes + size <= this.#areaBytes - JOURNAL_BLOCK_BYTES
  }

  /**
   * Writes one frame; everything in it is durable when it resolves. One at a time, and only when `hasRoom` said so. After a failure but
   * a full disk the journal is given up: whoever waited must not believe that its bytes are durable.
   */
  async write(items: readonly JournalItem[]): Promise<void> {
    let bytes = 0
    for (const { entry } of items) bytes += entryBytes(entry)
    try {
      if (!this.#fits(this.#areas[this.#current] as Area, wholeBlocks(FRAME_HEAD_BYTES + bytes))) await this.#turn()
      const entries = items.map((item) => item.entry)
      const sequence = await this.#append(entries)
      const area = this.#areas[this.#current] as Area
      for (const { member, upTo, isGone } of items) {
        if (member === null || isGone()) continue
        if (area.waiting.size === 0) area.liveFrom = sequence
        area.waiting.set(member, Math.max(area.waiting.get(member) ?? 0, upTo))
      }
    } catch (error) {
      this.#state = 'broken'
      this.#seal({ journalId: this.#id, throughFrame: this.#durableFrame, forgotten: [] })
      this.#removeWhenIdle()
      throw error
    }
  }

  /** The other area is used again. First a durable frame must say that its old frames are over, lest a lost one be missed. */
  async #turn(): Promise<void> {
    const other = this.#areas[1 - this.#current] as Area
    if (this.#saidLive <= other.lastSequence) await this.#append([])
    this.#current = 1 - this.#current
    this.#turns++
    other.usedBytes = 0
    this.#deps.failpoint('journal.turned')
  }

  get #oldestLive(): number {
    let oldest = this.#sequence
    for (const area of this.#areas) if (area.waiting.size > 0) oldest = Math.min(oldest, area.liveFrom)
    return oldest
  }

  async #append(entries: readonly JournalEntry[]): Promise<number> {
    const file = this.#file as DiskFile
    const area = this.#areas[this.#current] as Area
    const sequence = this.#sequence++
    const oldestLive = Math.min(this.#oldestLive, sequence)
    const frame = encodeFrame(this.#id, { sequence, oldestLive, entries }, (bytes) => this.#frameBuffer(bytes))
    const at = area.from + area.usedBytes
    area.usedBytes += frame.length
    area.lastSequence = sequence
    if (frame.length <= WRITE_NOW_MAX_BYTES) file.writeNow([frame], at)
    else await file.write([frame], at)
    this.#deps.failpoint('journal.written')
    // All who wait for the frame are behind the files of others otherwise.
    await file.datasync('urgent')
    this.#deps.failpoint('journal.synced')
    this.#saidLive = oldestLive
    this.#durableFrame = sequence
    return sequence
  }

  /** One frame is written at a time, so all are made in the same memory; it is as large as the largest so far. */
  #frameBuffer(bytes: number): Buffer {
    if (this.#memory.length < bytes) this.#memory = Buffer.allocUnsafeSlow(bytes + FRAME_GROWTH_BYTES)
    return this.#memory.subarray(0, bytes)
  }

  /** Has the note tell, durably, how many frames there are by now: an older copy of the file would lack some. */
  async noteFrames(): Promise<void> {
    const throughFrame = this.#durableFrame
    if (this.#state !== 'ready' || this.#background !== null || throughFrame === this.#notedFrame) return
    await this.#writeNote({ journalId: this.#id, throughFrame, forgotten: [] }, () => {
      this.#notedFrame = throughFrame
    })
    this.#deps.failpoint('journal.noted')
  }

  async #writeNote(note: JournalNote, then: () => void): Promise<void> {
    const over = () => {
      this.#background = null
      this.#removeWhenIdle()
    }
    const written = writeJournalNote(this.#deps.disk, this.#options.folder, note).then(then).finally(over)
    this.#background = written.catch(() => {})
    await written
  }

  /** Like a frame that says so, while `isSealed`: what it says of the log is void, durably, when it resolves. */
  async forgetSealed({ topicId, partition }: LogId): Promise<void> {
    const key = `${topicId}-${partition}`
    this.#forgotten.set(key, { topicId, partition })
    while (this.#background !== null) await this.#background
    const sealed = this.#sealed
    // It was removed meanwhile, or the note that another one waited for has it.
    if (sealed === null || sealed.forgotten.some((each) => each.topicId === topicId && each.partition === partition)) return
    const note = { ...sealed, forgotten: [...this.#forgotten.values()] }
    await this.#writeNote(note, () => {
      this.#sealed = note
    })
  }

  /** The member's own file is durable up to `upTo`. */
  release(member: JournalMember, upTo: number): void {
    for (const { waiting } of this.#areas) {
      const needed = waiting.get(member)
      if (needed !== undefined && needed <= upTo) waiting.delete(member)
    }
    this.#removeWhenIdle()
  }

  /** The member is gone: its log was deleted, or opened anew by a recovery that made everything durable. */
  drop(member: JournalMember): void {
    this.release(member, Number.POSITIVE_INFINITY)
  }

  #removeWhenIdle(): void {
    if (this.#state !== 'broken' || this.#areas.some((area) => area.waiting.size > 0) || this.#background !== null) return
    this.#inBackground(this.#remove(), 'absent', 'the journal failed and could not be removed')
  }

  #inBackground(work: Promise<void>, then: State, failure: string): void {
    this.#background = work
      .then(
        () => {
          this.#state = then
        },
        (error: unknown) => {
          // One that could not be removed is made anew, empty, before it is used.
          this.#state = 'absent'
          this.#deps.log.warn('storage.journal_failed', failure, { error })
        },
      )
      .then(() => {
        if (this.#state === 'absent') this.#retryAtMs = this.#deps.clock.monotonicMs() + RETRY_MS
        this.#background = null
      })
  }

  async #remove(): Promise<void> {
    const { disk, failpoint } = this.#deps
    await this.#close()
    await removeJournalNote(disk, this.#options.folder)
    failpoint('journal.note-removed')
    await disk.removeFile(this.#path)
    this.#sealed = null
    failpoint('journal.removed')
    await disk.syncDirectory(this.#options.folder)
  }

  /** At the stop. The file goes, durably, when every byte in it is durable elsewhere; else the next start reads it. */
  async close(): Promise<void> {
    while (this.#background !== null) await this.#background
    if (this.#file === null) return
    if (this.#areas.some((area) => area.waiting.size > 0)) await this.#close()
    else await this.#remove()
    this.#state = 'absent'
    this.isKept = true
  }

  async #close(): Promise<void> {
    const file = this.#file
    this.#file = null
    await file?.close()
  }

  get #path(): string {
    return `${this.#options.folder}/${JOURNAL_FILE}`
  }
}
