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

/** A log told plainly: a list of records, and where it starts. */
export class LogModel {
  config: LogConfig
  /** Every record ever appended that a crash did not take, by offset. */
  records: ModelRecord[] = []
  start = 0
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

  /** Where retention leaves the log's start: the oldest segments go while a limit is exceeded, the active one too. */
  retained(segments: readonly ModelSegment[], nowMs: number): number {
    const { isDeleted, retentionMs, retentionBytes } = this.config
    if (!isDeleted) return this.start
    let start = this.start
    let bytes = segments.reduce((sum, each) => sum + each.sizeBytes, 0)
    for (const segment of segments) {
      const inside = this.records.slice(segment.baseOffset, segment.nextOffset)
      const newestMs = inside.reduce((newest, each) => Math.max(newest, each.timestampMs), -1)
      const isOld = retentionMs >= 0 && nowMs - newestMs > retentionMs
      const isMuch = retentionBytes >= 0 && bytes - segment.sizeBytes >= retentionBytes
      if (segment.sizeBytes === 0 || (!isOld && !isMuch)) break
      bytes -= segment.sizeBytes
      start = Math.max(start, segment.nextOffset)
    }
    return start
  }

  /** What was read from the log's start to its end. */
  expectRecords(found: readonly ModelRecord[], highWatermark: number): void {
    const byOffset = new Map(found.map((record) => [record.offset, record]))
    for (const record of this.records.slice(this.start, highWatermark)) {
      const read = byOffset.get(record.offset)
      assert.ok(read !== undefined, `the record at ${record.offset} is missing`)
      assert.deepEqual(read, record)
      byOffset.delete(record.offset)
    }
    assert.deepEqual([...byOffset.keys()], [], 'records were read that were never there')
  }
}
