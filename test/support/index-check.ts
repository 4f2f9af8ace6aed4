import assert from 'node:assert/strict'
import { readInt64 } from '../../src/core/int64.ts'
import { readBatchHeader, verifyBatchCrc } from '../../src/record/batch.ts'
import { SMALL_LOG_BYTES } from '../../src/storage/clean-logs.ts'
import { parseSegmentFileName, segmentFileName } from '../../src/storage/files.ts'

/** Batches of the segments of one partition by a full scan, checked for density and checksums. */
export interface ScannedBatch {
  readonly baseOffset: number
  readonly lastOffset: number
  readonly position: number
  readonly maxTimestampMs: number
  readonly sizeBytes: number
  readonly leaderEpoch: number
}

export function scanFile(bytes: Buffer): ScannedBatch[] {
  const batches: ScannedBatch[] = []
  for (let at = 0; at < bytes.length; ) {
    const header = readBatchHeader(bytes, at, bytes.length)
    verifyBatchCrc(bytes, at, header)
    const { baseOffset, sizeBytes, maxTimestampMs, leaderEpoch } = header
    batches.push({ baseOffset, lastOffset: baseOffset + header.lastOffsetDelta, position: at, maxTimestampMs, sizeBytes, leaderEpoch })
    at += sizeBytes
  }
  return batches
}

/**
 * Compares the index files of a log that was closed in order with what Kafka's rules make of its batches. `files` by path; all in one
 * partition folder.
 */
export function checkIndexes(files: ReadonlyMap<string, Buffer>, folder: string, indexIntervalBytes: number): ScannedBatch[] {
  const all: ScannedBatch[] = []
  const bases = [...files.keys()]
    .filter((path) => path.startsWith(`${folder}/`) && path.endsWith('.log'))
    .map((path) => parseSegmentFileName(path.slice(folder.length + 1))?.baseOffset ?? -1)
    .sort((a, b) => a - b)
  for (const base of bases) {
    const file = (kind: 'log' | 'index' | 'timeindex') => files.get(`${folder}/${segmentFileName(base, kind)}`) ?? Buffer.alloc(0)
    const batches = scanFile(file('log'))
    if (all.length > 0) assert.equal(base, (all[all.length - 1] as ScannedBatch).lastOffset + 1)
    let next = base
    for (const batch of batches) {
      assert.equal(batch.baseOffset, next)
      next = batch.lastOffset + 1
    }
    const { index, timeIndex } = expectedIndexes(batches, base, indexIntervalBytes)
    assert.deepEqual(readIndex(file('index')), index, `index of ${base}`)
    const found = readTimeIndex(file('timeindex'))
    // A small log without an entry is left without indexes: the stop's summary, or recovery, stands in for them.
    const isSpared = bases.length === 1 && file('log').length <= SMALL_LOG_BYTES && index.length === 0 && found.length === 0
    if (!isSpared) checkTimeIndex(found, timeIndex, batches, base)
    all.push(...batches)
  }
  return all
}

/** Each stop in order adds an entry to the active segment, so there may be more than the interval asks for, all of them true. */
function checkTimeIndex(found: [number, number][], least: [number, number][], batches: readonly ScannedBatch[], base: number): void {
  const rising = new Map<number, number>()
  let max = -1
  for (const batch of batches) {
    if (batch.maxTimestampMs > max) rising.set(batch.maxTimestampMs, batch.lastOffset - base)
    max = Math.max(max, batch.maxTimestampMs)
  }
  for (const [index, [timestampMs, offset]] of found.entries()) {
    assert.equal(rising.get(timestampMs), offset, `time index of ${base}, entry ${index}`)
    assert.ok(timestampMs > (found[index - 1]?.[0] ?? -1), `time index of ${base} rises`)
  }
  for (const entry of least)
    assert.ok(
      found.some((each) => each[0] === entry[0]),
      `time index of ${base} has ${entry}`,
    )
}

function expectedIndexes(batches: readonly ScannedBatch[], base: number, intervalBytes: number) {
  const index: [number, number][] = []
  const timeIndex: [number, number][] = []
  let since = 0
  let max: [number, number] = [-1, 0]
  const addTime = () => {
    if (max[0] > (timeIndex[timeIndex.length - 1]?.[0] ?? -1)) timeIndex.push(max)
  }
  for (const batch of batches) {
    if (batch.maxTimestampMs > max[0]) max = [batch.maxTimestampMs, batch.lastOffset - base]
    if (intervalBytes === 0 || since > intervalBytes) {
      index.push([batch.lastOffset - base, batch.position])
      addTime()
      since = 0
    }
    since += batch.sizeBytes
  }
  addTime()
  return { index, timeIndex }
}

function readIndex(bytes: Buffer): [number, number][] {
  assert.equal(bytes.length % 8, 0)
  return Array.from({ length: bytes.length / 8 }, (_, at) => [bytes.readUInt32BE(at * 8), bytes.readUInt32BE(at * 8 + 4)])
}

function readTimeIndex(bytes: Buffer): [number, number][] {
  assert.equal(bytes.length % 12, 0)
  return Array.from({ length: bytes.length / 12 }, (_, at) => [readInt64(bytes, at * 12), bytes.readUInt32BE(at * 12 + 8)])
}
