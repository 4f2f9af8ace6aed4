import { assert } from '../../core/assert.ts'
import { MoonMQError } from '../../core/errors.ts'
import type {
  AckBatch,
  AckType,
  AcquiredRange,
  DeadRange,
  OffsetRange,
  RecordState,
  ShareRules,
  ShareState,
  StateBatch,
} from './share-types.ts'

/** Neighbouring records in the same state. Those that are acquired have an owner and the time (monotonic) until which it owns them. */
interface Span {
  first: number
  last: number
  state: RecordState
  deliveries: number
  member: string
  deadlineMs: number
}

export interface Acquire {
  readonly member: string
  /** Where the read began: what it did not find between there and its end does not exist. */
  readonly from: number
  /** Offset after what was read. */
  readonly end: number
  /** Record batches that members may see, ascending; everything else that was read is control records or aborted. */
  readonly batches: readonly OffsetRange[]
  readonly maxRecords: number
  /** Never more than `maxRecords`; else the last batch may go beyond it. */
  readonly isStrict: boolean
  /** A range of the answer that has so many records goes on into no further batch. */
  readonly batchSize: number
  readonly nowMs: number
}

/** What is to be stored, and what is to be moved once that is durable. */
export interface ShareChanges {
  readonly startOffset: number
  readonly batches: readonly StateBatch[]
  readonly dead: readonly DeadRange[]
}

const NOBODY = ''
/** Owns, until its deadline, records that wait for their next try: no member has a name with a NUL. */
const WAITING = '\0waiting'
const NEVER = Number.POSITIVE_INFINITY
/** Behind a record that is held for long nothing new is given out when so many ranges differ: at least twice what may be in flight. */
const MAX_SPANS = 20_000

/**
 * The records of one partition as one share group sees them (KIP-932): everything below the start is done with, everything from the next
 * offset on was not looked at, and each record between is in one state. A pure machine: the caller reads the log and the clock, stores what
 * `takeChanges` gives, and moves dead records.
 */
export class SharePartition {
  readonly #spans: Span[] = []
  #startOffset: number
  #nextOffset: number
  /** Ranges whose stored state is not what it is now, and whether the start has moved. */
  #changed: OffsetRange[] = []
  #startMoved = false
  #dead: DeadRange[] = []

  constructor(state: ShareState) {
    this.#startOffset = state.startOffset
    this.#nextOffset = state.startOffset
    this.replay(state)
  }

  /** Takes over what was stored: of records that it does not name nothing is known, or nothing new. */
  replay({ startOffset, batches }: ShareState): void {
    for (const { first, last, state, deliveries } of batches) {
      if (last < this.#startOffset) continue
      const from = Math.max(first, this.#startOffset)
      if (from > this.#nextOffset) this.#push(this.#nextOffset, from - 1, 'available', 0)
      if (last >= this.#nextOffset) this.#push(this.#nextOffset, last, 'available', 0)
      this.#set({ first: from, last }, (span) => {
        span.state = state
        span.deliveries = deliveries
      })
    }
    this.trim(startOffset)
    this.#advanceStart()
    this.#startMoved = false
  }

  /** Records that were on their way to the dead-letter topic when the broker stopped. */
  interrupted(): DeadRange[] {
    return this.#spans.filter(({ state }) => state === 'archiving').map((span) => deadOf(span, 'resumed'))
  }

  #push(first: number, last: number, state: RecordState, deliveries: number): void {
    this.#spans.push({ first, last, state, deliveries, member: NOBODY, deadlineMs: NEVER })
    this.#nextOffset = last + 1
  }

  /** Everything below it is done with; −1 until `begin`. */
  get startOffset(): number {
    return this.#startOffset
  }

  /** Records from here on were not looked at. */
  get nextOffset(): number {
    return this.#nextOffset
  }

  /** Records between start and next offset that are done with. */
  get doneCount(): number {
    return this.#count((span) => isDone(span.state))
  }

  get acquiredCount(): number {
    return this.#count((span) => span.state === 'acquired')
  }

  #count(where: (span: Span) => boolean): number {
    let count = 0
    for (const span of this.#spans) if (where(span)) count += span.last - span.first + 1
    return count
  }

  /** Chooses where the group begins: once, or again by an administrator, after which nothing of the past is known. */
  begin(startOffset: number): void {
    this.#spans.length = 0
    this.#changed = []
    this.#dead = []
    this.#startOffset = startOffset
    this.#nextOffset = startOffset
    this.#startMoved = true
  }

  // ---- giving records out ---------------------------------------------------------------------------------------------------

  /** Where the next read for a member begins; undefined when nothing may be given out until something comes back. */
  nextFetchOffset(rules: ShareRules): number | undefined {
    for (const span of this.#spans) if (span.state === 'available') return span.first
    return this.#room(rules) > 0 ? this.#nextOffset : undefined
  }

  /** How many more records may be in flight. */
  #room({ maxLocks }: ShareRules): number {
    if (this.#spans.length >= MAX_SPANS) return 0
    return maxLocks - (this.#nextOffset - this.#startOffset - this.doneCount)
  }

  /** Gives what is available of the records that were read to a member. */
  acquire(request: Acquire, rules: ShareRules): AcquiredRange[] {
    const acquired: AcquiredRange[] = []
    this.#acquireRead(request, rules, acquired)
    this.#advanceStart()
    return acquired
  }

  #acquireRead(request: Acquire, rules: ShareRules, acquired: AcquiredRange[]): void {
    const quota: Quota = { left: request.maxRecords, isStrict: request.isStrict, suspectDeliveries: null }
    let at = Math.max(request.from, this.#startOffset)
    for (const batch of request.batches) {
      if (batch.last < at) continue
      if (quota.left <= 0) return
      const first = Math.max(batch.first, at)
      if (first > at && !this.#skip(at, first - 1)) return
      at = this.#acquireBatch({ first, last: batch.last }, quota, request, rules, acquired)
      if (at <= batch.last) return
    }
    if (request.end > at) this.#skip(at, request.end - 1)
  }

  /** There are no records that a member could see: none is waited for. False when that would leave records behind that were not read. */
  #skip(first: number, last: number): boolean {
    if (first > this.#nextOffset) return false
    this.#set({ first, last: Math.min(last, this.#nextOffset - 1) }, (span) => {
      if (span.state === 'available') this.#move(span, 'archived')
    })
    if (last >= this.#nextOffset) {
      const from = this.#nextOffset
      this.#push(from, last, 'archived', 0)
      this.#join(this.#spans.length - 2, this.#spans.length)
      this.#note({ first: from, last })
    }
    return true
  }

  /** The offset up to which it came: behind the range, unless no more may be given. */
  #acquireBatch(range: OffsetRange, quota: Quota, request: Acquire, rules: ShareRules, acquired: AcquiredRange[]): number {
    const deadlineMs = request.nowMs + rules.lockMs
    let at = range.first
    while (at <= range.last) {
      if (quota.isStrict && quota.left <= 0) return at
      if (at >= this.#nextOffset) {
        const room = Math.min(this.#room(rules), quota.isStrict ? quota.left : NEVER)
        const last = Math.min(range.last, at + room - 1)
        if (last < at) return at
        this.#push(at, last, 'available', 0)
      }
      const found = this.#spans[this.#indexOf(at)]
      assert(found !== undefined && found.first <= at, `offset ${at} is in flight`)
      const { deliveries } = found
      const part = { first: at, last: Math.min(found.last, range.last) }
      if (found.state !== 'available') {
        at = part.last + 1
        continue
      }
      if (deliveries >= rules.maxDeliveries) {
        // The limit was lowered meanwhile.
        this.#set(part, (span) => this.#bury(span, 'exhausted', rules))
        at = part.last + 1
        continue
      }
      if (!suspects(quota, found, at, acquired.length === 0, rules)) return at
      if (quota.isStrict) part.last = Math.min(part.last, at + quota.left - 1)
      this.#set(part, (span) => {
        span.state = 'acquired'
        span.deliveries++
        span.member = request.member
        span.deadlineMs = deadlineMs
      })
      quota.left -= part.last - part.first + 1
      const mayBegin = !request.isStrict && part.first === range.first
      pushRange(acquired, { ...part, deliveries: deliveries + 1 }, mayBegin ? request.batchSize : NEVER)
      at = part.last + 1
    }
    return at
  }

  // ---- taking records back --------------------------------------------------------------------------------------------------

  /**
   * What a member says of its records, all of it or none. Throws INVALID_RECORD_STATE for records that it does not own, INVALID_REQUEST for
   * what was never given out while others are.
   */
  acknowledge(member: string, batches: readonly AckBatch[], nowMs: number, rules: ShareRules): void {
    const known = batches.filter(({ last }) => last >= this.#startOffset)
    for (const batch of known) this.#checkOwned(member, batch)
    for (const batch of known) {
      for (const { first, last, type } of runsOf(batch)) {
        const from = Math.max(first, this.#startOffset)
        if (last < from) continue
        this.#set({ first: from, last }, (span) => {
          // An offset without a record, of which the member cannot know that it was passed over.
          if (span.state === 'acquired') this.#acknowledged(span, type, nowMs, rules)
        })
      }
    }
    this.#advanceStart()
  }

  #checkOwned(member: string, { first, last }: OffsetRange): void {
    if (this.#spans.length === 0) throw new MoonMQError('INVALID_RECORD_STATE', { offset: first, state: 'given to nobody' })
    if (last >= this.#nextOffset) throw new MoonMQError('INVALID_REQUEST', { reason: `offset ${last} was not given out to anybody` })
    for (let index = this.#indexOf(Math.max(first, this.#startOffset)); index < this.#spans.length; index++) {
      const span = this.#spans[index] as Span
      if (span.first > last) return
      const isGap = span.state === 'archived' && span.deliveries === 0
      if (isGap || (span.state === 'acquired' && span.member === member)) continue
      const at = Math.max(first, span.first)
      throw new MoonMQError('INVALID_RECORD_STATE', { offset: at, state: span.state === 'acquired' ? 'acquired by another' : span.state })
    }
  }

  #acknowledged(span: Span, type: AckType, nowMs: number, rules: ShareRules): void {
    switch (type) {
      case 'accept':
        this.#move(span, 'acknowledged')
        return
      case 'gap':
        this.#move(span, 'archived')
        return
      case 'reject':
        // With delays only the last failure is death.
        if (rules.retryDelaysMs.length > 0) this.#giveBack(span, rules, nowMs, 'rejected')
        else this.#bury(span, 'rejected', rules)
        return
      case 'release':
        this.#giveBack(span, rules, nowMs)
        return
      case 'renew':
        span.deadlineMs = nowMs + rules.lockMs
    }
  }

  /** Everything that a member holds is available to others: its session or its connection has ended. */
  releaseAll(member: string, nowMs: number, rules: ShareRules): void {
    for (const span of this.#spans) if (span.state === 'acquired' && span.member === member) this.#giveBack(span, rules, nowMs)
    this.#join(0, this.#spans.length)
    this.#advanceStart()
  }

  /** Takes back what was not answered in time, and lets go what has waited; says how many records that were. */
  expire(nowMs: number, rules: ShareRules): number {
    let count = 0
    for (const span of this.#spans) {
      if (span.state !== 'acquired' || span.deadlineMs > nowMs) continue
      if (span.member === WAITING) {
        this.#move(span, 'available')
        continue
      }
      count += span.last - span.first + 1
      this.#giveBack(span, rules, nowMs)
    }
    this.#join(0, this.#spans.length)
    this.#advanceStart()
    return count
  }

  /** Next time at which `expire` has something to do. */
  nextDeadlineMs(): number {
    return this.#spans.reduce((least, { deadlineMs }) => Math.min(least, deadlineMs), NEVER)
  }

  /** Available to others, at once or after the delay that is next; dead when it was delivered as often as it may be. */
  #giveBack(span: Span, rules: ShareRules, nowMs: number, reason: DeadRange['reason'] = 'exhausted'): void {
    const delayMs = rules.retryDelaysMs[span.deliveries - 1]
    if (span.deliveries >= rules.maxDeliveries) this.#bury(span, reason, rules)
    else if (delayMs === undefined) this.#move(span, 'available')
    else {
      span.member = WAITING
      span.deadlineMs = nowMs + delayMs
      this.#note(span)
    }
  }

  /** A record that is not delivered any more: first to the dead-letter topic, where there is one. */
  #bury(span: Span, reason: DeadRange['reason'], { keepsDeadLetters }: ShareRules): void {
    this.#move(span, keepsDeadLetters ? 'archiving' : 'archived')
    if (keepsDeadLetters) this.#dead.push(deadOf(span, reason))
  }

  /** The dead letters of these records are durable, or there is nothing to move. */
  archive(range: OffsetRange): void {
    const first = Math.max(range.first, this.#startOffset)
    if (range.last < first) return
    this.#set({ first, last: range.last }, (span) => {
      if (span.state === 'archiving') this.#move(span, 'archived')
    })
    this.#advanceStart()
  }

  /** Records below the log's start do not exist any more. */
  trim(logStartOffset: number): void {
    if (logStartOffset <= this.#startOffset) return
    if (logStartOffset >= this.#nextOffset) {
      this.#spans.length = 0
      this.#nextOffset = logStartOffset
    } else {
      this.#split(logStartOffset)
      this.#spans.splice(0, this.#indexOf(logStartOffset))
    }
    this.#startOffset = logStartOffset
    this.#startMoved = true
    this.#advanceStart()
  }

  // ---- what is stored -------------------------------------------------------------------------------------------------------

  get hasChanges(): boolean {
    return this.#startMoved || this.#changed.length > 0 || this.#dead.length > 0
  }

  /** What has changed since the last call: to be stored, and the dead to be moved when it is durable. */
  takeChanges(): ShareChanges {
    const batches: StateBatch[] = []
    for (const { first, last } of merged(this.#changed)) this.#collect(Math.max(first, this.#startOffset), last, batches)
    const dead = this.#dead
    this.#changed = []
    this.#dead = []
    this.#startMoved = false
    return { startOffset: this.#startOffset, batches, dead }
  }

  /** Everything that is stored, for a snapshot. */
  state(): ShareState {
    const batches: StateBatch[] = []
    this.#collect(this.#startOffset, this.#nextOffset - 1, batches)
    return { startOffset: this.#startOffset, batches: batches.filter(({ state, deliveries }) => state !== 'available' || deliveries > 0) }
  }

  #collect(first: number, last: number, into: StateBatch[]): void {
    if (last < first) return
    for (let index = this.#indexOf(first); index < this.#spans.length; index++) {
      const span = this.#spans[index] as Span
      if (span.first > last) return
      // What is held counts as available with the deliveries before this one, which a crash undoes.
      const isHeld = span.state === 'acquired' && span.member !== WAITING
      const state = span.state === 'acquired' ? 'available' : span.state
      const deliveries = isHeld ? span.deliveries - 1 : span.deliveries
      const before = into.at(-1)
      const from = Math.max(first, span.first)
      const to = Math.min(last, span.last)
      if (before !== undefined && before.state === state && before.deliveries === deliveries && before.last === from - 1) {
        into[into.length - 1] = { ...before, last: to }
      } else into.push({ first: from, last: to, state, deliveries })
    }
  }

  // ---- spans ----------------------------------------------------------------------------------------------------------------

  #move(span: Span, state: RecordState): void {
    span.state = state
    span.member = NOBODY
    span.deadlineMs = NEVER
    this.#note(span)
  }

  #note({ first, last }: OffsetRange): void {
    this.#changed.push({ first, last })
  }

  /** Index of the span that holds the offset; the number of spans when none does. */
  #indexOf(offset: number): number {
    let low = 0
    let high = this.#spans.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#spans[middle] as Span).last < offset) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Afterwards a span begins at the offset, if one holds it. */
  #split(offset: number): void {
    const index = this.#indexOf(offset)
    const span = this.#spans[index]
    if (span === undefined || span.first >= offset) return
    this.#spans.splice(index, 0, { ...span, last: offset - 1 })
    span.first = offset
  }

  /** Changes the spans of a range, which begin and end with it. */
  #set({ first, last }: OffsetRange, change: (span: Span) => void): void {
    if (last < first) return
    this.#split(first)
    this.#split(last + 1)
    const from = this.#indexOf(first)
    let to = from
    for (; to < this.#spans.length && (this.#spans[to] as Span).first <= last; to++) change(this.#spans[to] as Span)
    this.#join(from - 1, to)
  }

  /** Puts neighbours together that tell the same. */
  #join(from: number, to: number): void {
    for (let index = Math.min(to, this.#spans.length - 1); index > Math.max(from, 0); index--) {
      const left = this.#spans[index - 1] as Span
      const right = this.#spans[index] as Span
      if (!areOne(left, right)) continue
      left.last = right.last
      this.#spans.splice(index, 1)
    }
  }

  #advanceStart(): void {
    let done = 0
    while (done < this.#spans.length && isDone((this.#spans[done] as Span).state)) done++
    if (done === 0) return
    this.#startOffset = (this.#spans[done - 1] as Span).last + 1
    this.#spans.splice(0, done)
    this.#startMoved = true
  }
}

function isDone(state: RecordState): boolean {
  return state === 'acknowledged' || state === 'archived'
}

/** What was delivered is told apart from what was passed over, and a first delivery from a second: both are stored, and asked for again. */
function areOne(left: Span, right: Span): boolean {
  if (left.state !== right.state || left.deliveries !== right.deliveries) return false
  return left.member === right.member && left.deadlineMs === right.deadlineMs
}

function deadOf({ first, last, deliveries }: Span, reason: DeadRange['reason']): DeadRange {
  return { first, last, deliveries, reason }
}

/** How many records one answer may still be given, and how often those of a suspect answer were delivered before. */
interface Quota {
  left: number
  isStrict: boolean
  suspectDeliveries: number | null
}

/**
 * Records that were delivered half as often as they may be (at least twice) are suspected, as by Kafka, of making their consumers fail. They come
 * apart from others, half as many with each further delivery, and the last time each alone. False when these belong in an answer of their own.
 */
function suspects(quota: Quota, { last, deliveries }: Span, at: number, isFirst: boolean, { maxDeliveries }: ShareRules): boolean {
  const since = Math.max(2, Math.ceil(maxDeliveries / 2))
  if (quota.suspectDeliveries !== null) return deliveries === quota.suspectDeliveries
  if (deliveries < since) return true
  if (!isFirst) return false
  const part = deliveries === maxDeliveries - 1 ? 1 : Math.floor((last - at + 1) / 2 ** (deliveries - since + 1))
  quota.suspectDeliveries = deliveries
  quota.left = Math.min(quota.left, Math.max(1, part))
  quota.isStrict = true
  return true
}

/** Neighbours in an answer are one range, over batches too, until it has `batchSize` records where a batch begins. */
function pushRange(into: AcquiredRange[], range: AcquiredRange, batchSize: number): void {
  const before = into.at(-1)
  const isNext = before !== undefined && before.last === range.first - 1 && before.deliveries === range.deliveries
  if (isNext && range.first - before.first < batchSize) into[into.length - 1] = { ...before, last: range.last }
  else into.push(range)
}

/** Neighbouring offsets of one type. */
function* runsOf({ first, last, types }: AckBatch): Generator<OffsetRange & { readonly type: AckType }> {
  if (types.length === 1) {
    yield { first, last, type: types[0] as AckType }
    return
  }
  let from = 0
  for (let at = 1; at <= types.length; at++) {
    if (at < types.length && types[at] === types[from]) continue
    yield { first: first + from, last: first + at - 1, type: types[from] as AckType }
    from = at
  }
}

/** Ascending, apart, and without repeats. */
function merged(ranges: readonly OffsetRange[]): OffsetRange[] {
  const sorted = [...ranges].sort((left, right) => left.first - right.first)
  const all: OffsetRange[] = []
  for (const range of sorted) {
    const before = all.at(-1)
    if (before !== undefined && range.first <= before.last + 1)
      all[all.length - 1] = { first: before.first, last: Math.max(before.last, range.last) }
    else all.push(range)
  }
  return all
}
