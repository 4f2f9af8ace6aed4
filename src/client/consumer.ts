import type { Clock } from '../core/clock.ts'
import { isCode } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import { MAX_FETCH_RECORDS } from '../wire/limits.ts'
import { abortable, hastened } from './abortable.ts'
import { checkObject } from './arguments.ts'
import type { Grant } from './grants.ts'
import type { Link } from './link.ts'
import { Membership } from './membership.ts'
import { invalid } from './options.ts'
import { TopicCursor } from './topic-cursor.ts'
import type { AssignedPartitions, ClientRecord, Consumer, ConsumerOptions, RequestControl } from './types.ts'

const DEFAULT_RECORDS = 500
const DEFAULT_IDLE_MS = 100

interface Links {
  /** For READ, which may wait. */
  readonly reading: Link
  /** For membership and commits, which must not wait behind it. */
  readonly group: Link
}

/** A record with the grant under which it was read: worth nothing under another one. */
interface Granted {
  readonly record: ClientRecord
  readonly grant: Grant
}

interface Polled {
  readonly records: readonly Granted[]
  /** There was nothing in what this member was to read all the while. */
  readonly isIdle: boolean
}

/**
 * Reads as a member of a group. The membership goes on in the background: partitions come and go while a record is being worked on, which
 * is waited for. A record counts as done when the loop asks for the next one.
 */
export class GroupConsumer implements Consumer {
  readonly #links: Links
  readonly #options: ConsumerOptions
  readonly #onClose: () => void
  readonly #cursors: ReadonlyMap<string, TopicCursor>
  readonly #membership: Membership
  #started = false
  #closing: Promise<void> | null = null

  constructor(deps: { links: Links; clock: Clock }, options: ConsumerOptions, onClose: () => void) {
    this.#links = deps.links
    this.#options = options
    this.#onClose = onClose
    this.#cursors = new Map(
      options.topics.map((topic) => {
        const cursor = new TopicCursor(deps.links.reading, {
          topic,
          isolation: options.isolation ?? 'read_uncommitted',
          maxBytes: MIB,
          maxRecords: Math.min(options.maxRecords ?? DEFAULT_RECORDS, MAX_FETCH_RECORDS),
          signal: options.signal,
        })
        return [topic, cursor] as const
      }),
    )
    this.#membership = new Membership({ link: deps.links.group, clock: deps.clock, cursors: this.#cursors }, options)
  }

  get memberId(): string {
    return this.#membership.memberId
  }

  get assignment(): readonly AssignedPartitions[] {
    return this.#membership.assignment
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ClientRecord> {
    if (this.#started) throw invalid('a consumer is read once')
    this.#started = true
    try {
      yield* this.#run()
    } catch (error) {
      if (!(isCode(error, 'CLOSED') && this.#links.reading.signal.aborted)) throw error
    } finally {
      await this.close()
    }
  }

  async commit(record: ClientRecord, { signal }: RequestControl = {}): Promise<void> {
    checkObject('record', record, 'give a record that this consumer has read')
    return abortable(this.#membership.commit(record), signal)
  }

  /** Commits what is done and leaves the group, then ends. */
  close({ signal }: RequestControl = {}): Promise<void> {
    this.#closing ??= this.#close()
    return hastened(this.#closing, signal, () => void this.#links.group.close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    await this.#links.reading.close()
    try {
      await this.#membership.end()
    } finally {
      await this.#links.group.close()
      this.#onClose()
    }
  }

  async *#run(): AsyncGenerator<ClientRecord> {
    const membership = this.#membership
    const commitAfter = (this.#options.commit ?? 'after') === 'after'
    await membership.begin()
    let next = ahead(this.#poll())
    for (;;) {
      const { records, isIdle } = await next
      membership.check()
      if (isIdle && this.#options.endWhenIdle === true) return
      next = ahead(this.#poll())
      for (const { record, grant } of records) {
        if (!membership.mayBegin(grant, record)) continue
        yield record
        membership.finished(grant, record, commitAfter)
        membership.check()
      }
    }
  }

  /** One look at every topic; when there is nothing, the last of them waits. */
  async #poll(): Promise<Polled> {
    const membership = this.#membership
    const { changes } = membership
    const isIdle = (moved: boolean) => !moved && membership.isSettled && membership.changes === changes
    const cursors = [...this.#cursors.values()].filter((cursor) => cursor.partitions.length > 0)
    const last = cursors.pop()
    const idleMs = this.#options.idleMs ?? DEFAULT_IDLE_MS
    if (last === undefined) {
      await this.#links.reading.pause(idleMs, this.#options.signal)
      return { records: [], isIdle: isIdle(false) }
    }
    const records: Granted[] = []
    let moved = false
    for (const cursor of [...cursors, last]) {
      const round = await cursor.read(cursor === last && !moved ? idleMs : 0)
      moved ||= round.moved
      for (const record of round.records) {
        const grant = membership.grantOf(record)
        if (grant !== undefined) records.push({ record, grant })
      }
    }
    return { records, isIdle: isIdle(moved) }
  }
}

/** Read while what is there is looked at. A failure is told when its turn comes, or to nobody when the loop ends before. */
function ahead(polling: Promise<Polled>): Promise<Polled> {
  polling.catch(() => undefined)
  return polling
}
