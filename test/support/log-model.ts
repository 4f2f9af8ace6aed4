import assert from 'node:assert/strict'
import type { LogConfig } from '../../src/storage/types.ts'

export interface ModelRecord {
  readonly offset: number
  readonly key: string
  /** Null: the key is deleted. */
  readonly value: string | null
  readonly timestampMs: number
}

/** What a segment is to its user: a range of offsets that is deleted as a whole. */
export interface ModelSegment {
  readonly baseOffset: number
  readonly nextOffset: number
  readonly sizeBytes: number
}

/** A log told plainly: a list of records, where it starts, and what the settings allow to be missing. */
export class LogModel {
  config: LogConfig
  /** Every record ever appended that a crash did not take, by offset. */
  records: ModelRecord[] = []
  start = 0
  /** When a tombstone that compaction saw as the last word on its key may go. */
  readonly #horizonMs = new Map<number, number>()
  readonly #mayBeGone = new Set<number>()
  /** Everything below was acknowledged. */
  acknowledged = 0
  /** Something was acknowledged before its sync, as the settings then were: a power cut may take it. */
  isLossy = false

  constructor(config: LogConfig) {
    this.config = config
  }

  get end(): number {
    return this.records.length
  }

  append(records: readonly ModelRecord[]): void {
    for (const record of records) {
      assert.equal(record.offset, this.end, 'an append got another offset than the next one')
      this.records.push(record)
    }
  }

  /** The log was opened again and ends here. */
  reopenedAt(end: number, start: number): void {
    assert.ok(end >= this.acknowledged, `the log ends at ${end}, but everything below ${this.acknowledged} was acknowledged`)
    assert.ok(end <= this.end, `the log ends at ${end}, but only ${this.end} records were appended`)
    assert.equal(start, Math.min(this.start, end))
    this.records.length = end
    this.acknowledged = end
    this.isLossy = false
  }

  /**
   * Where retention may leave the log's start: the oldest segments go while a limit is exceeded, the active one too. Of a segment that
   * compaction emptied nobody knows how old it is.
   */
  retained(segments: readonly ModelSegment[], found: readonly ModelRecord[], nowMs: number): { least: number; most: number } {
    const { isDeleted, retentionMs, retentionBytes } = this.config
    const starts = { least: this.start, most: this.start }
    if (!isDeleted) return starts
    let bytes = segments.reduce((sum, each) => sum + each.sizeBytes, 0)
    let isCertain = true
    for (const [index, { baseOffset, nextOffset, sizeBytes }] of segments.entries()) {
      const isActive = index === segments.length - 1
      const inside = found.filter(({ offset }) => offset >= baseOffset && offset < nextOffset)
      const newestMs = inside.reduce((newest, each) => Math.max(newest, each.timestampMs), -1)
      const isOld = retentionMs >= 0 && nowMs - newestMs > retentionMs
      const isMuch = retentionBytes >= 0 && bytes - sizeBytes >= retentionBytes
      const isGone = nextOffset <= this.start
      if ((isActive && sizeBytes === 0) || (!isOld && !isMuch && !isGone)) break
      isCertain &&= isMuch || isGone || inside.length > 0
      bytes -= sizeBytes
      starts.most = Math.max(starts.most, nextOffset)
      if (isCertain) starts.least = starts.most
    }
    return starts
  }

  /** Compaction went over [start, end) from one time to another: all but the last record of each key may be gone from there. */
  compacted(end: number, fromMs: number, toMs: number): void {
    const last = this.#lastOf(end)
    for (const record of this.records.slice(this.start, end)) {
      const isReplaced = (last.get(record.key) as number) > record.offset
      const horizonMs = this.#horizonMs.get(record.offset) ?? fromMs + this.config.deleteRetentionMs
      if (!isReplaced && record.value === null) this.#horizonMs.set(record.offset, horizonMs)
      if (isReplaced || (record.value === null && toMs >= horizonMs)) this.#mayBeGone.add(record.offset)
    }
  }

  /** After a pass over [start, end) nothing that a later record replaced is left there. */
  expectCompact(found: readonly ModelRecord[], end: number): void {
    const last = this.#lastOf(end)
    for (const { offset, key } of found) {
      if (offset >= end) continue
      assert.equal(last.get(key), offset, `offset ${offset} is left, but ${last.get(key)} replaced it`)
    }
  }

  /** What was read from the log's start to its end. */
  expectRecords(found: readonly ModelRecord[], highWatermark: number): void {
    const byOffset = new Map(found.map((record) => [record.offset, record]))
    for (const record of this.records.slice(this.start, highWatermark)) {
      const read = byOffset.get(record.offset)
      if (read === undefined) assert.ok(this.#mayBeGone.has(record.offset), `the record at ${record.offset} is missing`)
      else assert.deepEqual(read, record)
      byOffset.delete(record.offset)
    }
    assert.deepEqual([...byOffset.keys()], [], 'records were read that were never there')
  }

  #lastOf(end: number): Map<string, number> {
    const last = new Map<string, number>()
    for (const { key, offset } of this.records.slice(this.start, end)) last.set(key, offset)
    return last
  }
}
