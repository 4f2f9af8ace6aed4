import type { DiskFile } from '../io/disk.ts'
import type { BatchRules } from './batch-rules.ts'
import type { BufferPool } from './buffer-pool.ts'
import { EpochCache } from './epoch-cache.ts'
import { fitsAt, scanBatches } from './scan.ts'
import type { Segment } from './segment.ts'

/**
 * A whole batch at its place, of another leader epoch than the checkpoint gives it. Neither the checkpoint nor that field of a batch has a
 * checksum, so one of them is damaged; all other batches tell which.
 */
export class EpochDoubt extends Error {}

/** Whether nothing but its leader epoch is wrong with the batch at `range.position`. */
export function isOnlyEpochWrong(file: DiskFile, pool: BufferPool, range: { position: number; to: number }, rules: BatchRules) {
  return fitsAt(file, pool, range, { ...rules, epochFor: null, minEpoch: -1, maxEpoch: null })
}

/**
 * The leader epochs by the headers of all batches, up to what is no batch; null when they contradict each other: an epoch that falls, or one
 * above the partition's.
 */
export async function epochsByBatches(
  pool: BufferPool,
  segments: readonly Segment[],
  { holesBelow, maxEpoch }: { holesBelow: number; maxEpoch: number | null },
): Promise<EpochCache | null> {
  const epochs = new EpochCache()
  for (const segment of segments) {
    const file = segment.log.acquire()
    try {
      const minEpoch = epochs.latest?.leaderEpoch ?? -1
      const rules = { expectedOffset: segment.baseOffset, holesBelow, epochFor: null, minEpoch, maxEpoch }
      const to = file.sizeBytes
      const scan = await scanBatches(file, pool, { from: 0, to, rules }, ({ leaderEpoch, baseOffset }) => {
        epochs.assign(leaderEpoch, baseOffset)
      })
      if (scan.fault === null) continue
      const behind = { ...rules, expectedOffset: scan.nextOffset }
      return (await isOnlyEpochWrong(file, pool, { position: scan.endPosition, to }, behind)) ? null : epochs
    } finally {
      segment.log.release()
    }
  }
  return epochs
}
