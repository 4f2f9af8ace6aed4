import type { Clock } from '../core/clock.ts'
import type { Metrics } from '../core/counters.ts'
import type { Failpoint } from '../core/failpoint.ts'
import type { Logger } from '../core/logger.ts'
import type { Uuid } from '../core/uuid.ts'
import type { Disk } from '../io/disk.ts'
import { isDiskFull } from '../io/system-error.ts'
import { rollAfterMs } from './append-plan.ts'
import type { PartitionLog } from './partition-log.ts'
import { ageOf, isPlausibleTime } from './record-age.ts'
import { planRetention, type RetainedSegment, type RetentionPlan, type RetentionReason } from './retention.ts'
import { type ClockLook, RetentionClock } from './retention-clock.ts'
import { type KnownSegment, readRetentionNote, writeRetentionNote } from './retention-note.ts'
import type { Segment } from './segment.ts'

export interface RetentionDeps {
  readonly disk: Disk
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
  readonly failpoint: Failpoint
  /** The log manager. */
  readonly logs: { readonly logs: Iterable<PartitionLog>; saveLogStarts(): Promise<void> }
}

export interface RetentionOptions {
  readonly dataFolder: string
  /** `log.retention.check.interval.ms`: for every log without an interval of its own. */
  readonly intervalMs: () => number
  /** Segments that go, or whose times are read from the disk, in one pass; what is left comes a second later. */
  readonly maxSegments?: number
  /** Whether a jump of the clock is told in the log. Default true; false for a second retention in the same process. */
  readonly tellsJumps?: boolean
}

const DEFAULT_MAX_SEGMENTS = 1000
const NEXT_PART_MS = 1000
/** Longest pause between two passes, so that an interval which a topic gets meanwhile is kept. A pass in which no log is due costs nothing. */
const LONGEST_PAUSE_MS = 5000
/** Work between two turns of the event loop. */
const TURN_MS = 10
/** A jump of the clock that is worth a line in the log; smaller ones are corrections. */
const JUMP_MS = 60_000
const SAVE_INTERVAL_MS = 3_600_000

interface Decision {
  readonly log: PartitionLog
  readonly plan: RetentionPlan
}

/**
 * Retention of all logs of a data folder, a pass at a time. A pass decides first (`planRetention`), then moves the starts of logs, saves
 * them with one write, and only then takes whole segments out of the logs. On a disk too full for that write the segments give up their
 * bytes first; their names tell the next start what happened. Which time it goes by: `RetentionClock`, `ageOf`.
 */
export class Retention {
  readonly #deps: RetentionDeps
  readonly #options: RetentionOptions
  readonly #clock: RetentionClock
  readonly #known = new Map<string, KnownSegment>()
  /** By the monotonic clock, for logs with an interval of their own. */
  readonly #lookedAt = new WeakMap<PartitionLog, number>()
  #nextForAllMs = 0
  #hasMore = false
  #isHurried = false
  /** Segments whose largest timestamp this pass had to read from the disk: after a start that is every one. */
  #reads = 0
  /** Segments of one log that may go by time alone in this pass. */
  #maxByTime = Number.POSITIVE_INFINITY
  #isNoteOld = true
  #savedAtMs = 0

  private constructor(deps: RetentionDeps, options: RetentionOptions, clock: RetentionClock, known: readonly KnownSegment[]) {
    this.#deps = deps
    this.#options = options
    this.#clock = clock
    for (const each of known) this.#known.set(keyOf(each.topicId, each.partition, each.baseOffset), each)
  }

  static async open(deps: RetentionDeps, options: RetentionOptions): Promise<Retention> {
    const note = await readRetentionNote(deps, options.dataFolder)
    const clock = new RetentionClock(note?.clock ?? null, deps.clock.nowMs(), deps.clock.monotonicMs())
    return new Retention(deps, options, clock, note?.known ?? [])
  }

  /** The next pass looks at every log, whatever its time: somebody waits for room. */
  hurry(): void {
    this.#isHurried = true
  }

  /** Until the next pass has something to look at, but not long. */
  nextDelayMs(): number {
    if (this.#hasMore) return NEXT_PART_MS
    const nowMs = this.#deps.clock.monotonicMs()
    let nextMs = this.#nextForAllMs
    for (const log of this.#deps.logs.logs) {
      const { cleanerIntervalMs } = log.config
      if (cleanerIntervalMs > 0) nextMs = Math.min(nextMs, (this.#lookedAt.get(log) ?? nowMs) + cleanerIntervalMs)
    }
    return Math.max(0, Math.min(nextMs - nowMs, LONGEST_PAUSE_MS))
  }

  async pass(signal: AbortSignal): Promise<void> {
    const look = this.#look()
    const decisions = await this.#decideAll(look, signal)
    if (decisions.length > 0) await this.#carryOut(decisions)
    this.#forgetGone()
    await this.#saveNote(false)
  }

  /** Leaves what the next start needs. */
  async close(): Promise<void> {
    this.#look()
    await this.#saveNote(true)
  }

  #look(): ClockLook {
    const { clock, log } = this.#deps
    const look = this.#clock.look(clock.nowMs(), clock.monotonicMs())
    if (Math.abs(look.jumpMs) >= JUMP_MS) {
      this.#isNoteOld = true
      const direction = look.jumpMs > 0 ? 'ahead' : 'back'
      const seconds = Math.round(Math.abs(look.jumpMs) / 1000)
      if (this.#options.tellsJumps ?? true) {
        log.error(
          'retention.clock_jumped',
          `the clock of the machine jumped ${direction} by ${seconds} s; retention by time goes on by the time that really passed`,
          { jumpMs: look.jumpMs, believedMs: look.nowMs, doubtMs: look.doubtMs },
        )
      }
    }
    this.#maxByTime = look.doubtMs >= JUMP_MS ? 1 : Number.POSITIVE_INFINITY
    return look
  }

  async #decideAll(look: ClockLook, signal: AbortSignal): Promise<Decision[]> {
    const { clock } = this.#deps
    const decisions: Decision[] = []
    let left = this.#options.maxSegments ?? DEFAULT_MAX_SEGMENTS
    const passMs = clock.monotonicMs()
    const isHurried = this.#isHurried
    const isForAll = isHurried || this.#hasMore || passMs >= this.#nextForAllMs
    this.#hasMore = false
    this.#isHurried = false
    let turnMs = passMs
    this.#reads = 0
    for (const log of [...this.#deps.logs.logs]) {
      if (signal.aborted) break
      if (!isHurried && !this.#isDue(log, isForAll, passMs)) continue
      if (left - this.#reads <= 0) {
        this.#hasMore = true
        break
      }
      const decision = await this.#decide(log, look)
      if (decision !== null) {
        decisions.push(decision)
        left -= countOf(decision.plan)
      }
      this.#lookedAt.set(log, passMs)
      if (clock.monotonicMs() - turnMs < TURN_MS) continue
      await new Promise<void>((resolve) => clock.defer(resolve))
      turnMs = clock.monotonicMs()
    }
    if (isForAll && !this.#hasMore) this.#nextForAllMs = passMs + this.#options.intervalMs()
    return decisions
  }

  #isDue(log: PartitionLog, isForAll: boolean, nowMs: number): boolean {
    const { cleanerIntervalMs } = log.config
    if (cleanerIntervalMs === 0) return isForAll
    return nowMs - (this.#lookedAt.get(log) ?? Number.NEGATIVE_INFINITY) >= cleanerIntervalMs
  }

  /** What becomes of one log. A log that cannot be looked at is left for the next pass, and the others go on. */
  async #decide(log: PartitionLog, look: ClockLook): Promise<Decision | null> {
    if (log.state !== 'online' && !isDiskFull(log.failure)) return null
    try {
      await this.#rollWhenOld(log, look)
      const segments: RetainedSegment[] = []
      let isPrefix = true
      // A copy: compaction may swap segments between two looks.
      for (const segment of [...log.segments]) {
        isPrefix &&= await this.#isExpired(log, segment, look)
        const { baseOffset, nextOffset, sizeBytes } = segment
        segments.push({ baseOffset, nextOffset, sizeBytes, isExpired: isPrefix })
      }
      const { config, logStartOffset, highWatermark } = log
      const plan = planRetention({ logStartOffset, highWatermark, segments }, config, this.#maxByTime)
      if (plan === null || (plan.rolls && !(await this.#begin(log, plan)))) return null
      return { log, plan }
    } catch (error) {
      if (log.state === 'online') this.#deps.log.warn('retention.skipped', `${log.folder} was left out of this pass`, { error })
      return null
    }
  }

  /** All there is goes: the log goes on in a new segment, unless something was appended meanwhile. */
  async #begin(log: PartitionLog, plan: RetentionPlan): Promise<boolean> {
    if (log.logEndOffset !== plan.logStartOffset) return false
    await log.rollIdle()
    return true
  }

  /** A segment that nothing was appended to for `segment.ms`, or whose records have no possible time for as long, takes no more. */
  async #rollWhenOld(log: PartitionLog, look: ClockLook): Promise<void> {
    const active = log.segments[log.segments.length - 1]
    if (active === undefined || active.sizeBytes === 0) return
    const limitMs = rollAfterMs(active, log.config)
    const largestMs = this.#largestMs(active)
    const appendedMs = await this.#appendedMs(active)
    const idleMs = isPlausibleTime(appendedMs, look.nowMs) ? look.nowMs - appendedMs : 0
    const knownMs = isPlausibleTime(largestMs, look.nowMs) ? 0 : look.steadyMs - this.#knownSince(log, active, look)
    if (Math.max(idleMs, knownMs) > limitMs) await log.rollIdle()
  }

  async #isExpired(log: PartitionLog, segment: Segment, look: ClockLook): Promise<boolean> {
    const { isDeleted, retentionMs } = log.config
    if (!isDeleted || retentionMs < 0 || segment.sizeBytes === 0) return false
    const largestMs = this.#largestMs(segment)
    const appendedMs = await this.#appendedMs(segment)
    const ageMs = ageOf({ largestMs, appendedMs }, look.nowMs)
    if (ageMs !== null && ageMs > retentionMs) return true
    // Whatever is wrong with its times, and whoever copied or rewrote the file: nothing is kept longer than that.
    return !isPlausibleTime(largestMs, look.nowMs) && look.steadyMs - this.#knownSince(log, segment, look) > retentionMs
  }

  #largestMs(segment: Segment): number {
    if (segment.maxTimestamp === null) this.#reads++
    return segment.largestTimestamp().timestampMs
  }

  async #appendedMs(segment: Segment): Promise<number> {
    segment.appendedMs ??= (await this.#deps.disk.stat(segment.log.path))?.modifiedMs ?? null
    return segment.appendedMs ?? 0
  }

  #knownSince({ topicId, partition }: PartitionLog, { baseOffset }: Segment, look: ClockLook): number {
    const key = keyOf(topicId, partition, baseOffset)
    const known = this.#known.get(key)
    if (known !== undefined) return known.sinceSteadyMs
    this.#known.set(key, { topicId, partition, baseOffset, sinceSteadyMs: look.steadyMs })
    this.#isNoteOld = true
    return look.steadyMs
  }

  async #carryOut(decisions: readonly Decision[]): Promise<void> {
    const moved: Decision[] = []
    for (const decision of decisions) {
      const { log, plan } = decision
      try {
        // A start must not lie behind what a power cut leaves.
        await log.whenSynced(plan.logStartOffset)
      } catch {
        continue
      }
      log.advanceLogStart(plan.logStartOffset)
      moved.push(decision)
    }
    this.#deps.failpoint('retention.started')
    const isStartSaved = await this.#saveStarts()
    for (const decision of moved) await this.#remove(decision, isStartSaved)
    if (!isStartSaved && (await this.#saveStarts())) {
      for (const { log } of moved) await log.deleteBelow(log.logStartOffset)
    }
  }

  /** False when the disk is too full for it. */
  async #saveStarts(): Promise<boolean> {
    try {
      await this.#deps.logs.saveLogStarts()
      return true
    } catch (error) {
      if (!isDiskFull(error)) throw error
      this.#deps.log.warn('retention.disk_full', 'the starts of logs cannot be saved on a full disk; old segments make room first', {
        error,
      })
      return false
    }
  }

  async #remove({ log, plan }: Decision, isStartSaved: boolean): Promise<void> {
    const { topic, partition, folder } = log
    try {
      const sizeBytes = await log.deleteBelow(plan.logStartOffset, { isStartSaved })
      if (sizeBytes === 0) return
      const { segments, logStartOffset } = plan
      for (const reason of Object.keys(segments) as RetentionReason[]) {
        if (segments[reason] > 0) this.#deps.metrics.counter('moonmq_retention_segments_total', { topic, reason }).add(segments[reason])
      }
      this.#deps.metrics.counter('moonmq_retention_bytes_total', { topic }).add(sizeBytes)
      const text = `${countOf(plan)} segments with ${sizeBytes} bytes left ${topic}-${partition}, which begins at offset ${logStartOffset} now`
      this.#deps.log.info('retention.deleted', text, { topic, partition, logStartOffset, sizeBytes, ...segments })
    } catch (error) {
      this.#deps.log.warn('retention.remove_failed', `old segments of ${folder} could not be removed yet`, { error })
    }
  }

  #forgetGone(): void {
    if (this.#known.size === 0) return
    const gone = new Set(this.#known.keys())
    for (const log of this.#deps.logs.logs) {
      for (const segment of log.segments) gone.delete(keyOf(log.topicId, log.partition, segment.baseOffset))
    }
    for (const key of gone) this.#known.delete(key)
    if (gone.size > 0) this.#isNoteOld = true
  }

  async #saveNote(isLast: boolean): Promise<void> {
    const nowMs = this.#deps.clock.monotonicMs()
    if (!isLast && !this.#isNoteOld && nowMs - this.#savedAtMs < SAVE_INTERVAL_MS) return
    try {
      const note = { clock: this.#clock.state, known: [...this.#known.values()] }
      await writeRetentionNote(this.#deps.disk, this.#options.dataFolder, note)
      this.#isNoteOld = false
      this.#savedAtMs = nowMs
      this.#deps.failpoint('retention.clock-written')
    } catch (error) {
      this.#deps.log.warn('retention.note_failed', 'the clock of retention could not be saved; the next pass tries again', { error })
    }
  }
}

function countOf({ segments }: RetentionPlan): number {
  return segments.time + segments.bytes + segments.start
}

function keyOf(topicId: Uuid, partition: number, baseOffset: number): string {
  return `${topicId}-${partition}-${baseOffset}`
}
