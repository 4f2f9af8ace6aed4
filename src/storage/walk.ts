import type { DiskFile } from '../io/disk.ts'
import { type BatchHeader, nextOffset } from '../record/batch.ts'
import { type BatchRules, checkBatch } from './batch-rules.ts'
import type { BufferPool } from './buffer-pool.ts'
import { ChunkReader, ensureBatch, findBatch } from './scan.ts'

/** A whole batch, or bytes that are none. `bytes` and `at` are valid until the next step of the walk. */
export type Walked =
  | { readonly kind: 'batch'; readonly header: BatchHeader; readonly position: number; readonly bytes: Buffer; readonly at: number }
  | {
      readonly kind: 'damage'
      readonly position: number
      /** Where the next whole batch begins, or the end of the file. */
      readonly endPosition: number
      /** A whole batch lies behind, so this is no torn tail. */
      readonly hasBatchesBehind: boolean
      readonly reason: string
      /** The offset that was expected. */
      readonly offset: number
    }

export interface WalkRequest {
  readonly from: number
  readonly to: number
  /** Offset that the first batch must not lie below. */
  readonly minOffset: number
  /** At and above it offsets and counts must leave no gap; behind damage the next batch may begin anywhere above. */
  readonly holesBelow: number
  /** No batch may have a higher leader epoch; absent: nothing is known of it. */
  readonly maxEpoch?: number | null
  /** Leader epochs may fall: in logs that another broker wrote and this one only reads. */
  readonly ignoresEpochs?: boolean
}

/**
 * Walks a log file batch by batch and goes on behind damage where the next whole batch begins: for tools that look at files, one step at
 * a time, so that whoever prints or copies can wait between two. Memory: one chunk, or one batch where that is larger.
 */
export async function* walkBatches(file: DiskFile, pool: BufferPool, request: WalkRequest): AsyncGenerator<Walked, void, undefined> {
  const { to } = request
  const chunk = new ChunkReader(file, pool, to)
  let position = request.from
  let expectedOffset = request.minOffset
  let minEpoch = -1
  let { holesBelow } = request
  try {
    while (position < to) {
      const rules: BatchRules = { expectedOffset, holesBelow, epochFor: null, minEpoch, maxEpoch: request.maxEpoch ?? null }
      const found = await batchAt(chunk, position, to, rules)
      if (typeof found === 'string') {
        const behind = await findBatch(file, pool, { from: position + 1, to, minOffset: expectedOffset })
        const endPosition = behind < 0 ? to : behind
        yield { kind: 'damage', position, endPosition, hasBatchesBehind: behind >= 0, reason: found, offset: expectedOffset }
        position = endPosition
        holesBelow = Number.POSITIVE_INFINITY
        continue
      }
      yield { kind: 'batch', header: found, position, bytes: chunk.bytes, at: chunk.at(position) }
      position += found.sizeBytes
      expectedOffset = nextOffset(found)
      if (request.ignoresEpochs !== true) minEpoch = found.leaderEpoch
      holesBelow = request.holesBelow
    }
  } finally {
    chunk.release()
  }
}

async function batchAt(chunk: ChunkReader, position: number, to: number, rules: BatchRules): Promise<BatchHeader | string> {
  const fault = await ensureBatch(chunk, position, to)
  return fault ?? checkBatch(chunk.bytes, chunk.at(position), chunk.end, rules)
}
