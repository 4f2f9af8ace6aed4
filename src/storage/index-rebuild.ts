import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import type { BufferPool } from './buffer-pool.ts'
import { segmentFileName } from './files.ts'
import type { HandleCache } from './handles.ts'
import { OffsetIndex } from './offset-index.ts'
import { type CompletedTransaction, ProducerState, readEndTransaction } from './producer-state.ts'
import { type ScanResult, scanBatches } from './scan.ts'
import type { Segment } from './segment.ts'
import { TimeIndex } from './time-index.ts'

/**
 * Builds the indexes of a segment in use anew from its batches and puts them in the place of the damaged ones. The new entries gather
 * in memory; what appends added meanwhile is carried over in the turn that swaps them, and the files are emptied before they are
 * written. Until then reads of this segment begin at its first batch.
 */
export async function rebuildIndexes(
  deps: { handles: HandleCache; pool: BufferPool },
  segment: Segment,
  options: { holesBelow: number; indexIntervalBytes: number },
): Promise<ScanResult> {
  const { baseOffset } = segment
  const file = (kind: 'index' | 'timeindex') =>
    deps.handles.file(`${segment.folder}/${segmentFileName(baseOffset, kind)}`, { writable: true })
  const index = new OffsetIndex(file('index'), baseOffset, 0)
  const timeIndex = new TimeIndex(file('timeindex'), baseOffset, 0)
  index.store.isHeld = true
  timeIndex.store.isHeld = true
  const upTo = segment.writtenBytes
  const scan = await scanInto(deps.pool, segment, upTo, { index, timeIndex }, options)
  if (scan.fault === null) {
    carryOver(segment, upTo, index, timeIndex)
    const old = [segment.index.store.file, segment.timeIndex.store.file]
    const { isFinished } = segment
    segment.index = index
    segment.timeIndex = timeIndex
    segment.isFinished = false
    await Promise.all(old.map((each) => each.discard()))
    await index.store.sync()
    await timeIndex.store.sync()
    segment.isFinished = isFinished
  }
  return scan
}

async function scanInto(
  pool: BufferPool,
  segment: Segment,
  upTo: number,
  into: { index: OffsetIndex; timeIndex: TimeIndex },
  options: { holesBelow: number; indexIntervalBytes: number },
): Promise<ScanResult> {
  const rules = { expectedOffset: segment.baseOffset, holesBelow: options.holesBelow, epochFor: null, minEpoch: -1, maxEpoch: null }
  let sinceEntry = 0
  let max = { timestampMs: -1, lastOffset: segment.baseOffset }
  const handle = segment.log.acquire()
  try {
    const scan = await scanBatches(handle, pool, { from: 0, to: upTo, rules }, (header, position) => {
      const lastOffset = header.baseOffset + header.lastOffsetDelta
      if (header.maxTimestampMs > max.timestampMs) max = { timestampMs: header.maxTimestampMs, lastOffset }
      if (options.indexIntervalBytes === 0 || sinceEntry > options.indexIntervalBytes) {
        into.index.append(lastOffset, position)
        if (max.timestampMs >= 0) into.timeIndex.maybeAppend(max.timestampMs, max.lastOffset)
        sinceEntry = 0
      }
      sinceEntry += header.sizeBytes
    })
    if (max.timestampMs >= 0) into.timeIndex.maybeAppend(max.timestampMs, max.lastOffset)
    return scan
  } finally {
    segment.log.release()
  }
}

/** Entries for batches behind `upTo`, which were appended while the scan ran. */
function carryOver(segment: Segment, upTo: number, index: OffsetIndex, timeIndex: TimeIndex): void {
  const old = segment.index
  let number = old.entries - 1
  while (number >= 0 && old.entry(number).position >= upTo) number--
  for (number++; number < old.entries; number++) {
    const entry = old.entry(number)
    index.append(entry.lastOffset, entry.position)
  }
  const max = segment.maxTimestamp
  if (max !== null && max.timestampMs >= 0) timeIndex.maybeAppend(max.timestampMs, max.lastOffset)
}

/**
 * Builds the transaction index of a closed segment anew: a transaction may begin in any earlier one, so all are folded from the log's
 * start. Throws DATA_DAMAGED when one of them cannot be read whole, since a marker that is not seen would show what it aborted.
 */
export async function rebuildTxnIndex(
  deps: { clock: Clock; pool: BufferPool },
  segments: readonly Segment[],
  damaged: Segment,
  holesBelow: number,
): Promise<void> {
  const producers = new ProducerState(deps)
  const entries: CompletedTransaction[] = []
  for (const segment of segments) {
    if (segment.baseOffset > damaged.baseOffset) break
    const rules = { expectedOffset: segment.baseOffset, holesBelow, epochFor: null, minEpoch: -1, maxEpoch: null }
    const handle = segment.log.acquire()
    try {
      const scan = await scanBatches(handle, deps.pool, { from: 0, to: segment.writtenBytes, rules }, (header, _position, bytes, at) => {
        const completed = producers.update(header, header.baseOffset, readEndTransaction(bytes, at, header))
        if (completed?.aborted === true && segment === damaged) entries.push(completed)
      })
      if (scan.fault !== null) {
        const reason = `byte ${scan.endPosition}, offset ${scan.nextOffset}: ${scan.fault}`
        throw new MoonMQError('DATA_DAMAGED', { path: segment.log.path, reason })
      }
    } finally {
      segment.log.release()
    }
  }
  await damaged.txnIndex.rebuild(entries)
}
