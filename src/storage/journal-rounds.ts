import { MoonMQError } from '../core/errors.ts'
import { Semaphore } from '../core/semaphore.ts'
import { systemCode } from '../io/system-error.ts'
import type { Journal, JournalItem } from './journal.ts'
import { JournalDrain } from './journal-drain.ts'
import { entryBytes, type JournalOwner } from './journal-format.ts'
import type { SmallFile, SyncTarget } from './sync-target.ts'

/** A file that waits for a sync or a frame. */
export interface RoundSlot {
  readonly target: SyncTarget
  /** Its own file is wanted durable. */
  isForFile: boolean
}

export interface RoundsHost<Slot extends RoundSlot> {
  /** The slot is not for the journal: its file is synced. */
  toFile(slot: Slot): void
  /** The slot's bytes go into a frame now. Returns how far they reach. */
  began(slot: Slot): number
  /** A frame is durable, and with it every slot up to what `began` returned. */
  ended(slots: readonly Slot[], upTo: readonly number[], startedMs: number): void
  failed(slots: readonly Slot[], error: unknown): void
  /** Syncs what the journal has of the target, for nobody who waits; `behindEnded` is called then. False while another sync of the file runs. */
  syncBehind(target: SyncTarget): boolean
  /** Files whose own sync runs or waits. */
  busy(): number
  /** There is something new to decide. */
  start(): void
  monotonicMs(): number
}

interface Waiting {
  /** Null: an entry without a file, which only the journal can take. */
  readonly file: SmallFile | null
  readonly item: JournalItem
  done(): void
  failed(error: unknown): void
}

/** Each takes a descriptor. */
const PARALLEL_STORES = 16
const MAX_FRAME_BYTES = 4 * 1024 * 1024
/** Where so many files wait, a journal that is being made is waited for: each file of a new log takes several syncs. */
const WAIT_FROM_FILES = 64
/** More than an entry takes besides its records. */
const ENTRY_ROOM_BYTES = 512

/**
 * Decides what goes to the journal: one frame at a time, made of all that waits when the one before has ended, if it is many files or
 * what only the journal can do. Afterwards it has the files synced in the background.
 */
export class JournalRounds<Slot extends RoundSlot> {
  readonly #journal: Journal
  readonly #fromFiles: number
  readonly #host: RoundsHost<Slot>
  #slots: Slot[] = []
  #waiting: Waiting[] = []
  #round: Promise<void> | null = null
  readonly #drain: JournalDrain
  /** Whoever waits for a frame waits until the drain has made room for it. */
  #isRoomWanted = false
  /** Small files that are being written, or wait for it. */
  #storing = 0
  readonly #stores = new Semaphore(PARALLEL_STORES)
  /** The journal is being made, and whoever waits waits for that. */
  #isAwaiting = false
  #isClosed = false

  constructor(journal: Journal, options: { fromFiles: number }, host: RoundsHost<Slot>) {
    this.#journal = journal
    this.#fromFiles = options.fromFiles
    this.#host = host
    this.#drain = new JournalDrain(journal, { syncBehind: (target) => host.syncBehind(target), start: () => host.start() })
  }

  /** Takes a slot that may go to the journal; it ends up there or is given back by `toFile`. */
  take(slot: Slot): boolean {
    if (slot.isForFile || slot.target.journalBytes + ENTRY_ROOM_BYTES > this.#mostBytes) return false
    this.#slots.push(slot)
    return true
  }

  /** So many files with new bytes would go to the journal, as far as can be told before it is known what else waits. */
  takesMany(files: number): boolean {
    return files >= this.#fromFiles && this.#journal.isReady
  }

  /** A slot that waits here is wanted for its file. */
  giveBack(slot: Slot): boolean {
    const at = this.#slots.indexOf(slot)
    if (at >= 0) this.#slots.splice(at, 1)
    return at >= 0
  }

  save(file: SmallFile): Promise<void> {
    return this.#wait(file, file.takeForJournal())
  }

  async forget(owner: JournalOwner): Promise<void> {
    if (this.#journal.isUntouched) return
    await this.#wait(null, { entry: { kind: 'forget', owner }, member: null, upTo: 0, isGone: () => false })
  }

  #wait(file: SmallFile | null, item: JournalItem): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ file, item, done: resolve, failed: reject })
      this.#host.start()
    })
  }

  get #mostBytes(): number {
    return Math.min(MAX_FRAME_BYTES, this.#journal.maxFrameBytes)
  }

  /** Begins a frame if there is one to write, and gives everything back that does not wait for one. */
  start(): void {
    this.#startDrain()
    if (this.#round !== null || (this.#isRoomWanted && this.#drain.isRunning && this.#journal.oldWaiting > 0)) return
    this.#isRoomWanted = false
    const count = this.#slots.length + this.#waiting.length
    if (count > 0 && !this.#startRound(count)) this.#withoutJournal()
  }

  #startRound(count: number): boolean {
    const journal = this.#journal
    const busy = this.#storing + this.#host.busy()
    if (count + busy < this.#fromFiles && !this.#waiting.some((each) => each.file === null)) return false
    if (!journal.isReady) return this.#waitForJournal(count)
    const items: JournalItem[] = []
    let bytes = 0
    const files: Waiting[] = []
    for (const each of this.#waiting) {
      const size = entryBytes(each.item.entry)
      if (bytes + size > this.#mostBytes && bytes > 0) break
      bytes += size
      files.push(each)
      items.push(each.item)
    }
    const chosen = this.#choose(bytes)
    if (!journal.hasRoom(chosen.bytes)) return this.#waitForRoom()
    this.#waiting = this.#waiting.slice(files.length)
    this.#slots = chosen.later
    for (const slot of chosen.forFile) this.#host.toFile(slot)
    const upTo = chosen.now.map((slot) => {
      const reached = this.#host.began(slot)
      items.push(slot.target.takeForJournal())
      return reached
    })
    if (items.length > 0) this.#round = this.#run(items, chosen.now, upTo, files)
    return true
  }

  /** False when the files had better be synced meanwhile. */
  #waitForJournal(count: number): boolean {
    const preparing = this.#journal.prepare()
    if (preparing === null || count < WAIT_FROM_FILES) return false
    if (!this.#isAwaiting) {
      this.#isAwaiting = true
      void preparing.then(() => {
        this.#isAwaiting = false
        this.#host.start()
      })
    }
    return true
  }

  /** False when syncing the files of those that wait is quicker than emptying the area. */
  #waitForRoom(): boolean {
    this.#isRoomWanted = this.#journal.oldWaiting <= this.#slots.length
    this.#drain.addOld()
    this.#startDrain()
    this.#isRoomWanted &&= this.#drain.isRunning
    return this.#isRoomWanted
  }

  #choose(firstBytes: number): { now: Slot[]; later: Slot[]; forFile: Slot[]; bytes: number } {
    const chosen = { now: [] as Slot[], later: [] as Slot[], forFile: [] as Slot[], bytes: firstBytes }
    for (const slot of this.#slots) {
      const size = slot.target.journalBytes + ENTRY_ROOM_BYTES
      // One that grew while it waited is not worth writing twice.
      if (size > this.#mostBytes || slot.target.isStopped) chosen.forFile.push(slot)
      else if (chosen.bytes + size > this.#mostBytes) chosen.later.push(slot)
      else {
        chosen.now.push(slot)
        chosen.bytes += size
      }
    }
    return chosen
  }

  async #run(items: readonly JournalItem[], slots: readonly Slot[], upTo: readonly number[], files: readonly Waiting[]): Promise<void> {
    const startedMs = this.#host.monotonicMs()
    try {
      await this.#journal.write(items)
    } catch (error) {
      this.#round = null
      this.#failed(error, slots, files)
      return
    }
    this.#round = null
    this.#drain.framed()
    for (const file of files) file.done()
    this.#host.ended(slots, upTo, startedMs)
  }

  /** A full disk is no reason to refuse what the files may still take. After any other failure nobody may believe in anything. */
  #failed(error: unknown, slots: readonly Slot[], files: readonly Waiting[]): void {
    this.#drain.addAll()
    const code = systemCode(error)
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      for (const slot of slots) this.#host.toFile(slot)
      for (const file of files) this.#store(file)
    } else {
      for (const file of files) file.failed(error)
      this.#host.failed(slots, error)
    }
    this.#host.start()
  }

  #withoutJournal(): void {
    const slots = this.#slots
    const waiting = this.#waiting
    this.#slots = []
    // What only the journal can take waits as long as its space is being made free.
    this.#waiting = waiting.filter((each) => each.file === null && !this.#drain.isIdle)
    for (const slot of slots) this.#host.toFile(slot)
    for (const each of waiting) if (!this.#waiting.includes(each)) this.#store(each)
  }

  #store({ file, item, done, failed }: Waiting): void {
    if (file === null) {
      const { owner } = item.entry
      if (this.#journal.isSealed) this.#journal.forgetSealed(owner).then(done, failed)
      else failed(new MoonMQError('INTERNAL', { reason: `the journal cannot forget ${owner.topic} now` }))
    } else {
      this.#storing++
      const store = async () => this.release(file, await file.store())
      this.#stores
        .run(store)
        .finally(() => {
          this.#storing--
        })
        .then(done, failed)
    }
  }

  // ---- the files behind it ------------------------------------------------------------------------------------------------

  /** There is no hurry. */
  drainAll(): void {
    this.#drain.addAll()
    this.#startDrain()
  }

  #startDrain(): void {
    if (this.#isClosed) return
    if (this.#isRoomWanted) this.#drain.start('room')
    else this.#drain.start(this.#round === null && this.#host.busy() === 0 ? 'nobody' : 'sync')
  }

  /** A sync behind the journal ended, well or not. */
  behindEnded(target: SyncTarget): void {
    this.#drain.ended(target)
  }

  release(member: SyncTarget | SmallFile, upTo: number): void {
    this.#journal.release(member, upTo)
  }

  prepare(): void {
    void this.#journal.prepare()
  }

  noteFrames(): Promise<void> {
    return this.#journal.noteFrames()
  }

  /** Every log is closed. Removes the journal when nothing in it is needed. */
  async close(): Promise<void> {
    this.#isClosed = true
    while (this.#round !== null) await this.#round
    await this.#journal.close()
  }
}
