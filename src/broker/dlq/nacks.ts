import type { Clock } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { MoonMQError } from '../../core/errors.ts'
import { Serial } from '../../core/serial.ts'
import type { IsolationLevel } from '../../core/types.ts'
import { provenanceOf } from '../../record/dead-letter.ts'
import type { RequestContext } from '../context.ts'
import type { CommitOffsets, DeliveredRecord, FailedDeliveries, GroupPort, RecordPort } from '../ports.ts'
import type { GroupSettings } from '../settings.ts'
import type { Partitions } from '../topics/partitions.ts'
import type { DeliveryAttempts } from './attempts.ts'
import { type DeadLetters, type Move, tierName } from './dead-letters.ts'
import type { DeadLetter } from './provenance.ts'

/** A record that a consumer could not process. */
export interface Nack {
  readonly group: string
  readonly topic: string
  readonly partition: number
  readonly offset: number
  /** For people; may be empty. */
  readonly reason: string
  readonly isolation: IsolationLevel
  /** What the group commits when the record is delivered again, and when it is done with. */
  readonly again: number
  readonly done: number
  /** Everything below those two is answered for. */
  readonly isAnswered: boolean
  /** Who commits: a member, or nobody in particular. */
  readonly member: Pick<CommitOffsets, 'generation' | 'memberId'>
}

/** What became of it. `again`: it is delivered again. Else the group is done with it here; `later`: it waits in the retry topic `topic`; `moved`: it is dead, in `topic`, or nowhere with an empty name. */
export interface Nacked {
  readonly kind: 'again' | 'later' | 'moved'
  /** Deliveries that have failed by now. */
  readonly attempts: number
  readonly topic: string
}

export interface NackDeps {
  readonly partitions: Partitions
  readonly records: Pick<RecordPort, 'read'>
  readonly groups: Pick<GroupPort, 'commit'>
  readonly attempts: DeliveryAttempts
  readonly letters: DeadLetters
  readonly groupSettings: GroupSettings
  readonly clock: Clock
  readonly metrics: Metrics
}

/** The group's own number of deliveries after which a record is dead, for members of every kind. */
const LIMIT = 'share.delivery.count.limit'

export interface NackOptions {
  /** The same for groups without one: `server.dlq.maxDeliveries`. */
  readonly maxDeliveries: number
}

/** The record as its group first saw it, and how often it was tried so far where that is known from the tier it waited in. */
interface Found {
  readonly letter: DeadLetter
  readonly tier: number
}

/**
 * NACK (DESIGN D11). Order of becoming durable, each step before the next: that a record failed, with the group's offset before it; the record
 * in its new place, when it is given up; the group's offset behind it, with the counter at nothing. A crash in between repeats the second step
 * at most, and finds the record by where it came from; so does a group that comes by the record again because of others before it that
 * failed. NACKs of one record run one after another.
 */
export class Nacks {
  readonly #deps: NackDeps
  readonly #options: NackOptions
  readonly #running = new Map<string, Serial>()

  constructor(deps: NackDeps, options: NackOptions) {
    this.#deps = deps
    this.#options = options
  }

  /** Durable when it resolves. Throws RECORD_MISSING, OFFSET_OUT_OF_RANGE, what the commit is refused with, and what keeps the record from moving. */
  async nack(context: RequestContext, nack: Nack): Promise<Nacked> {
    const key = `${nack.topic}-${nack.partition}@${nack.offset}/${nack.group}`
    const serial = this.#running.get(key) ?? new Serial()
    this.#running.set(key, serial)
    try {
      return await serial.run(() => this.#nack(context, nack))
    } finally {
      if (serial.size === 0) this.#running.delete(key)
    }
  }

  async #nack(context: RequestContext, nack: Nack): Promise<Nacked> {
    const { group, topic, partition, offset } = nack
    const read = await this.#deps.records.read(context, {
      topic,
      partition,
      offset,
      isolation: nack.isolation,
      maxRecords: 1,
      maxBytes: 1,
      maxWaitMs: 0,
    })
    try {
      const record = read.records[0]
      if (record?.offset !== offset) throw new MoonMQError('RECORD_MISSING', { topic, partition, offset })
      this.#deps.metrics.counter('moonmq_nack_total', { topic }).add()
      const known = this.#deps.attempts.find(group, topic, partition, offset)
      const { count: failed, sinceMs, moved } = known ?? { count: 0, sinceMs: this.#deps.clock.nowMs(), moved: false }
      const found = foundOf(record, nack)
      const { attempts, tier } = this.#next(found, failed)
      const death = this.#deps.letters.deathOf(found.letter, group)
      await this.#commit(context, nack, nack.again, { count: failed + 1, sinceMs, moved })
      if (attempts === null || death === 'stays') return { kind: 'again', attempts: failed + 1, topic: '' }
      const mayRepeat = moved || (failed > 0 && this.#mayRepeat(found, failed))
      const target = await this.#move({ ...found.letter, attempts }, { mayRepeat, sinceMs, tier }, death)
      await this.#commit(context, nack, nack.done, { count: 0, sinceMs, moved: true })
      return { kind: tier === undefined ? 'moved' : 'later', attempts, topic: target }
    } finally {
      read.release()
    }
  }

  /** What is next for a record that failed `failed` times before this one: `attempts` null = it is delivered again at once. */
  #next({ letter, tier }: Found, failed: number): { attempts: number | null; tier?: number } {
    const delays = this.#deps.partitions.topic(letter.topic)?.settings.retryDelaysMs ?? []
    if (delays.length > 0 || tier > 0) {
      const attempts = tier + 1
      return tier < delays.length ? { attempts, tier: tier + 1 } : { attempts }
    }
    return { attempts: failed + 1 >= this.#maxDeliveries(letter.group) ? failed + 1 : null }
  }

  #maxDeliveries(group: string): number {
    const { groupSettings } = this.#deps
    return groupSettings.isSet(group, LIMIT) ? groupSettings.number(group, LIMIT) : this.#options.maxDeliveries
  }

  /** The last failure was stored, so that the move may have been begun before. */
  #mayRepeat({ letter, tier }: Found, failed: number): boolean {
    return this.#next({ letter, tier }, failed - 1).attempts !== null
  }

  async #move(letter: DeadLetter, move: Move, death: 'kept' | 'dropped'): Promise<string> {
    return move.tier === undefined && death === 'dropped' ? '' : this.#deps.letters.move([letter], move)
  }

  async #commit(context: RequestContext, nack: Nack, offset: number, failed: FailedDeliveries): Promise<void> {
    const { group, topic, partition, member } = nack
    const leaderEpoch = this.#deps.partitions.topic(topic)?.partitions[partition]?.log?.leaderEpoch ?? -1
    const value = { offset, leaderEpoch, metadata: '' }
    const attempts = { offset: nack.offset, ...failed }
    const offsets: CommitOffsets['offsets'] = [{ topic, partition, value, attempts, answeredBelow: nack.isAnswered ? offset : 0 }]
    const outcomes = await this.#deps.groups.commit(context, { group, ...member, instanceId: null, offsets, durable: true })
    for (const error of outcomes) if (error !== null) throw error
  }
}

/** A record of a tier is given up under the place where its group first found it. */
function foundOf(record: DeliveredRecord, { group, reason }: Nack): Found {
  const from = provenanceOf(record.headers, 'retry')
  const tier = from === null ? 0 : Number(/\.retry\.([1-9]\d{0,3})$/.exec(record.topic)?.[1] ?? 0)
  if (from === null || tier === 0 || tierName(from.topic, tier) !== record.topic) {
    return { letter: { ...record, group, attempts: 0, reason }, tier: 0 }
  }
  const { topic, partition, offset, timestampMs } = from
  return { letter: { ...record, topic, partition, offset, timestampMs, group, attempts: 0, reason }, tier }
}
