import type { IsolationLevel } from '../../core/types.ts'
import { type BatchHeader, isControl, lastOffset, readBatchHeader } from '../../record/batch.ts'
import { recordsSection } from '../../record/record.ts'
import type { Log, LogRead } from '../../storage/types.ts'
import { AbortedFilter } from '../consume/decode.ts'
import type { AcquiredRange, OffsetRange } from './share-types.ts'

interface FoundBatch extends OffsetRange {
  readonly bytes: Buffer
}

/** The batches of a read that members of a share group may see: no control batches, and none that was aborted where that counts. */
export function visibleBatches(log: Log, read: LogRead, isolation: IsolationLevel): readonly FoundBatch[] {
  const isCommitted = isolation === 'read_committed'
  const filter = new AbortedFilter(isCommitted ? log.abortedTransactions(read.baseOffset, read.nextOffset) : [])
  const found: FoundBatch[] = []
  for (const bytes of read.buffers) {
    for (let position = 0; position < bytes.length; ) {
      const header = readBatchHeader(bytes, position)
      const batch = bytes.subarray(position, position + header.sizeBytes)
      position += header.sizeBytes
      if (isHidden(filter, batch, header, isCommitted)) continue
      found.push({ first: header.baseOffset, last: lastOffset(header), bytes: batch })
    }
  }
  return found
}

function isHidden(filter: AbortedFilter, batch: Buffer, header: BatchHeader, isCommitted: boolean): boolean {
  return isCommitted ? filter.hides(header, () => recordsSection(batch, 0, header)) : isControl(header)
}

/** The bytes of the batches that hold something of what was acquired, ascending both. */
export function bytesOf(batches: readonly FoundBatch[], acquired: readonly AcquiredRange[]): Buffer[] {
  const bytes: Buffer[] = []
  let at = 0
  for (const batch of batches) {
    while (at < acquired.length && (acquired[at] as AcquiredRange).last < batch.first) at++
    const range = acquired[at]
    if (range === undefined) break
    if (range.first <= batch.last) bytes.push(batch.bytes)
  }
  return bytes
}
