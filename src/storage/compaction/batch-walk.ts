import { MoonMQError } from '../../core/errors.ts'
import type { BatchHeader } from '../../record/batch.ts'
import { type BatchRules, checkBatch } from '../batch-rules.ts'
import type { BufferPool } from '../buffer-pool.ts'
import { ChunkReader, ensureBatch } from '../scan.ts'
import type { Segment } from '../segment.ts'
import type { Pace } from './pace.ts'

/** `bytes` is valid until the promise that it returns ends. False: the walk is over. */
export type OnWalkedBatch = (header: BatchHeader, bytes: Buffer, at: number) => Promise<boolean> | boolean

export interface WalkDeps {
  readonly pool: BufferPool
  readonly pace: Pace
}

/**
 * Reads a segment batch by batch at the pace of compaction; each one is checked whole. The file is held only while it is read, so nobody
 * who wants to remove it waits for the walk. False when `onBatch` ended it. Throws CORRUPT_RECORDS for damage, CLOSED when the segment
 * left the log meanwhile.
 */
export async function walkSegment(deps: WalkDeps, segment: Segment, holesBelow: number, onBatch: OnWalkedBatch): Promise<boolean> {
  const { pool, pace } = deps
  const to = segment.writtenBytes
  const chunk = new ChunkReader(new PacedFile(segment, pace), pool, to)
  let rules: BatchRules = { expectedOffset: segment.baseOffset, holesBelow, epochFor: null, minEpoch: -1, maxEpoch: null }
  const damaged = (position: number, reason: string) =>
    new MoonMQError('CORRUPT_RECORDS', { file: segment.log.path, position, reason: `offset ${rules.expectedOffset}: ${reason}` })
  try {
    for (let position = 0; position < to; ) {
      const fault = await ensureBatch(chunk, position, to)
      if (fault !== null) throw damaged(position, fault)
      const at = chunk.at(position)
      const header = checkBatch(chunk.bytes, at, chunk.end, rules)
      if (typeof header === 'string') throw damaged(position, header)
      const goesOn = onBatch(header, chunk.bytes, at)
      if (!(goesOn instanceof Promise ? await goesOn : goesOn)) return false
      position += header.sizeBytes
      rules = { ...rules, expectedOffset: header.baseOffset + header.lastOffsetDelta + 1, minEpoch: header.leaderEpoch }
      if (pace.isSliceOver) await pace.rest()
    }
    return true
  } finally {
    chunk.release()
  }
}

/** A segment's file that is opened for each read and waits after it. */
class PacedFile {
  readonly #segment: Segment
  readonly #pace: Pace

  constructor(segment: Segment, pace: Pace) {
    this.#segment = segment
    this.#pace = pace
  }

  async read(target: Buffer, position: number): Promise<number> {
    const { log } = this.#segment
    const file = log.acquire()
    let size: number
    try {
      size = await file.read(target, position)
    } finally {
      log.release()
    }
    await this.#pace.moved(size)
    return size
  }

  readNow(target: Buffer, position: number): number {
    const { log } = this.#segment
    const file = log.acquire()
    try {
      return file.readNow(target, position)
    } finally {
      log.release()
    }
  }
}
