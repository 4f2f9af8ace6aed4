import type { Deferred } from '../core/deferred.ts'
import { MoonMQError } from '../core/errors.ts'
import type { SequencedRecord } from '../wire/records.ts'
import type { Acked } from './types.ts'

/** Requests of one partition whose answers are outstanding: as many batches as the broker can tell a resend of. */
const MAX_INFLIGHT = 5
const SEQUENCES = 2 ** 31

export interface Identity {
  readonly producerId: number
  readonly producerEpoch: number
}

export interface Waiting {
  readonly record: SequencedRecord
  readonly bytes: number
  readonly acked: Deferred<Acked>
  /** Nobody waits for it any more. */
  readonly isGivenUp: boolean
}

/** Records that travel as one batch, under the same number each time. */
export interface LaneBatch {
  readonly records: Waiting[]
  bytes: number
  readonly deadlineMs: number
  /** −1: none was given yet. */
  baseSequence: number
  /** What the last answer was; undefined while it is outstanding. */
  trouble: MoonMQError | undefined
}

/**
 * The batches of one partition and their numbers. What is sent stays here in order until it is acknowledged or given up. After an answer
 * that is no acknowledgement nothing new is sent until every answer is there; then it is known which numbers the broker has, and what is
 * left goes again.
 */
export class Lane {
  readonly topic: string
  readonly partition: number
  identity: Identity | null = null
  readonly #timeoutMs: number
  /** What gathers may go now. */
  #due = false
  #nextSequence = 0
  #gathering: LaneBatch | null = null
  #ready: LaneBatch[] = []
  #sent: LaneBatch[] = []
  #troubled = false
  /** A batch was refused for good: the numbers behind it have moved. */
  #moved = false

  constructor(topic: string, partition: number, timeoutMs: number) {
    this.topic = topic
    this.partition = partition
    this.#timeoutMs = timeoutMs
  }

  get isIdle(): boolean {
    return this.#gathering === null && this.#ready.length === 0 && this.#sent.length === 0
  }

  /** Whether a batch is full with it. */
  add(waiting: Waiting, limitBytes: number, maxRecords: number, nowMs: number): boolean {
    let batch = this.#gathering
    if (batch !== null && (batch.bytes + waiting.bytes > limitBytes || batch.records.length >= maxRecords)) {
      this.#ready.push(batch)
      batch = null
    }
    if (batch === null) {
      batch = { records: [], bytes: 0, deadlineMs: nowMs + this.#timeoutMs, baseSequence: -1, trouble: undefined }
      this.#gathering = batch
    }
    batch.records.push(waiting)
    batch.bytes += waiting.bytes
    if (batch.bytes < limitBytes) return this.#ready.length > 0
    this.#ready.push(batch)
    this.#gathering = null
    return true
  }

  /** The next batch to be sent, or null. */
  take(nowMs: number): LaneBatch | null {
    if (this.#troubled || this.#sent.length >= MAX_INFLIGHT) return null
    for (;;) {
      const batch = this.#ready.shift() ?? this.#takeGathering()
      if (batch === null) return null
      if (batch.baseSequence < 0) {
        if (nowMs >= batch.deadlineMs) {
          reject(batch, this.#late())
          continue
        }
        batch.baseSequence = this.#nextSequence
        this.#nextSequence = moved(this.#nextSequence, batch.records.length)
      }
      batch.trouble = undefined
      this.#sent.push(batch)
      return batch
    }
  }

  #takeGathering(): LaneBatch | null {
    if (!this.#due) return null
    const batch = this.#gathering
    this.#gathering = null
    this.#due = false
    return batch
  }

  /** What gathers need not wait for more. */
  hurry(): void {
    this.#due = this.#gathering !== null
  }

  /** Takes out what nobody waits for, of batches that have no number yet. */
  withdraw(): void {
    const open = [...this.#ready, ...(this.#gathering === null ? [] : [this.#gathering])]
    for (const batch of open) {
      if (batch.baseSequence >= 0 || !batch.records.some(({ isGivenUp }) => isGivenUp)) continue
      const left = batch.records.filter(({ isGivenUp }) => !isGivenUp)
      batch.records.splice(0, batch.records.length, ...left)
      batch.bytes = left.reduce((sum, { bytes }) => sum + bytes, 0)
    }
    this.#ready = this.#ready.filter(({ records }) => records.length > 0)
    if (this.#gathering?.records.length === 0) this.#gathering = null
  }

  acknowledged(batch: LaneBatch, baseOffset: number): void {
    this.#remove(batch)
    for (const [index, { acked }] of batch.records.entries()) acked.resolve({ partition: this.partition, offset: baseOffset + index })
  }

  /** It may go again under its number. */
  troubled(batch: LaneBatch, error: MoonMQError): void {
    batch.trouble = error
    this.#troubled = true
  }

  /** It was not stored and will not be: those behind it, which were not stored either, move up. */
  refused(batch: LaneBatch, error: MoonMQError): void {
    const place = this.#remove(batch)
    const count = batch.records.length
    for (const later of this.#sent.slice(place)) later.baseSequence = moved(later.baseSequence, -count)
    this.#nextSequence = moved(this.#nextSequence, -count)
    this.#moved = true
    this.#troubled = true
    reject(batch, error)
  }

  /** It was not stored, being too large: it goes again as two. */
  split(batch: LaneBatch, error: MoonMQError): void {
    const half = Math.ceil(batch.records.length / 2)
    const place = this.#remove(batch)
    const parts = [batch.records.slice(0, half), batch.records.slice(half)].map((records, index): LaneBatch => {
      const baseSequence = moved(batch.baseSequence, index * half)
      return {
        records,
        baseSequence,
        deadlineMs: batch.deadlineMs,
        bytes: records.reduce((sum, each) => sum + each.bytes, 0),
        trouble: error,
      }
    })
    this.#sent.splice(place, 0, ...parts)
    this.#moved = true
    this.#troubled = true
  }

  /** Every answer is there, and not all of them were acknowledgements. */
  get needsRestart(): boolean {
    return this.#troubled && this.#sent.every(({ trouble }) => trouble !== undefined)
  }

  /** Why the first that is left has to go again. */
  get trouble(): MoonMQError | undefined {
    return this.#sent[0]?.trouble
  }

  /** The broker knows none of the numbers that are left: a batch before them was given up, or it lost what it had. */
  get needsIdentity(): boolean {
    return !this.#moved && this.trouble?.code === 'OUT_OF_ORDER_SEQUENCE'
  }

  /** What is left goes again, under the numbers of another producer where one is given. */
  restart(nowMs: number, identity: Identity | null): void {
    const left = this.#sent
    this.#sent = []
    this.#troubled = false
    this.#moved = false
    if (identity !== null) {
      this.identity = identity
      this.#nextSequence = 0
      for (const batch of [...left, ...this.#ready]) batch.baseSequence = -1
    }
    const open: LaneBatch[] = []
    for (const batch of left) {
      // Its number is spent: whether it was stored is not known.
      if (nowMs >= batch.deadlineMs || batch.records.every(({ isGivenUp }) => isGivenUp)) reject(batch, batch.trouble ?? this.#late())
      else open.push(batch)
    }
    this.#ready = [...open, ...this.#ready]
  }

  /** Gives everything up. */
  fail(error: MoonMQError): void {
    const all = [...this.#sent, ...this.#ready, ...(this.#gathering === null ? [] : [this.#gathering])]
    this.#sent = []
    this.#ready = []
    this.#gathering = null
    this.#troubled = false
    for (const batch of all) reject(batch, error)
  }

  #late(): MoonMQError {
    return new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs: this.#timeoutMs })
  }

  #remove(batch: LaneBatch): number {
    const place = this.#sent.indexOf(batch)
    if (place >= 0) this.#sent.splice(place, 1)
    return Math.max(0, place)
  }
}

function reject(batch: LaneBatch, error: MoonMQError): void {
  for (const { acked } of batch.records) acked.reject(error)
}

function moved(sequence: number, by: number): number {
  return (sequence + by + SEQUENCES) % SEQUENCES
}
