import type { Journal } from './journal.ts'
import type { SmallFile, SyncTarget } from './sync-target.ts'

type Member = SyncTarget | SmallFile

export interface DrainHost {
  /** Has the target's file synced, for nobody who waits, and calls `ended`. False while another sync of it runs: it may be asked again. */
  syncBehind(target: SyncTarget): boolean
  /** There is something new to decide. */
  start(): void
}

/**
 * Who waits meanwhile: nobody; somebody for a sync, which goes first; somebody for the space that this makes free. The first number
 * is how many files are synced at the same time while there is time for it, the second one when the area that is written fills faster
 * than files are synced.
 */
const WIDTH = { nobody: [2, 8], sync: [0, 4], room: [8, 8] } as const
export type Waiters = keyof typeof WIDTH

/**
 * Has the files synced that the journal stands in for, so that an area is free by the time its space is wanted again. That begins when an
 * area is full and the other one taken, the first time with the first frame, since the files of new logs have new names and take several
 * syncs each. It keeps pace with how the area fills, and leaves the disk alone while somebody waits for it unless it is late.
 */
export class JournalDrain {
  readonly #journal: Journal
  readonly #host: DrainHost
  readonly #due = new Set<Member>()
  readonly #running = new Set<Member>()
  /** Files that were to be synced when it began, and how full the area was. */
  #total = Number.POSITIVE_INFINITY
  #from = 0
  #turn = -1

  constructor(journal: Journal, host: DrainHost) {
    this.#journal = journal
    this.#host = host
  }

  get isRunning(): boolean {
    return this.#running.size > 0
  }

  get isIdle(): boolean {
    return this.#running.size === 0 && this.#due.size === 0
  }

  /** There is no hurry. */
  addAll(): void {
    if (this.#due.size === 0) this.#total = Number.POSITIVE_INFINITY
    this.#add('all')
  }

  /** The space of these files is wanted. */
  addOld(): void {
    this.#add('old')
  }

  #add(which: 'old' | 'all'): void {
    for (const member of this.#journal.waiting(which)) this.#due.add(member as Member)
  }

  /** After each frame. */
  framed(): void {
    const journal = this.#journal
    if (this.#turn === journal.turns) return
    const isFirst = this.#turn < 0
    this.#turn = journal.turns
    this.#add(isFirst ? 'all' : 'old')
    this.#total = this.#due.size
    this.#from = journal.filledShare
  }

  /** The area that is written fills faster than files are synced. */
  get #isLate(): boolean {
    return this.#due.size * (1 - this.#from) > this.#total * (1 - this.#journal.filledShare)
  }

  start(waiters: Waiters): void {
    if (this.#due.size === 0) return
    const [inTime, late] = WIDTH[waiters]
    const width = this.#isLate ? late : inTime
    for (const member of this.#due) {
      if (this.#running.size >= width) return
      if (!this.#journal.isWaiting(member)) this.#due.delete(member)
      else if ('store' in member) this.#store(member)
      else if (member.isStopped) this.#due.delete(member)
      else if (this.#host.syncBehind(member)) this.#began(member)
    }
  }

  #began(member: Member): void {
    this.#due.delete(member)
    this.#running.add(member)
  }

  #store(file: SmallFile): void {
    this.#began(file)
    // What cannot be written now is tried again when the space is wanted again; until then the journal keeps it.
    const store = async () => this.#journal.release(file, await file.store())
    const over = () => this.ended(file)
    store().then(over, over)
  }

  /** A sync of the target's own file ended, well or not. */
  ended(member: Member): void {
    if (this.#running.delete(member)) this.#host.start()
  }
}
