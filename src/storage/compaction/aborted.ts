import { MoonMQError } from '../../core/errors.ts'
import { isControl, isTransactional } from '../../record/batch.ts'
import { readEndTransaction } from '../producer-state.ts'
import type { Segment } from '../segment.ts'
import { type WalkDeps, walkSegment } from './batch-walk.ts'

/**
 * Which transactions were aborted, as the markers in the log tell it. The transaction indexes say the same and are not asked: they have no
 * checksum, and a missing entry would pass aborted records for the latest of their keys.
 */
export class AbortedTransactions {
  /** By producer: first offset and marker, first offset and marker, …, rising. */
  readonly #ranges = new Map<number, number[]>()

  add(producerId: number, firstOffset: number, markerOffset: number): void {
    const ranges = this.#ranges.get(producerId)
    if (ranges === undefined) this.#ranges.set(producerId, [firstOffset, markerOffset])
    else ranges.push(firstOffset, markerOffset)
  }

  readonly isAborted = (producerId: number, offset: number): boolean => {
    const ranges = this.#ranges.get(producerId)
    if (ranges === undefined) return false
    // The first range whose marker lies behind the offset.
    let low = 0
    let high = ranges.length / 2
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((ranges[middle * 2 + 1] as number) <= offset) low = middle + 1
      else high = middle
    }
    const firstOffset = ranges[low * 2]
    return firstOffset !== undefined && firstOffset <= offset
  }
}

/**
 * Finds the aborted transactions with a record in [from, to). Their markers may lie behind `to`, so the walk goes on until the last
 * transaction that began before is over; everything below the last stable offset has a marker.
 */
export async function findAborted(
  deps: WalkDeps,
  segments: readonly Segment[],
  range: { from: number; to: number; holesBelow: number },
): Promise<AbortedTransactions> {
  const aborted = new AbortedTransactions()
  const open = new Map<number, number>()
  for (const [index, segment] of segments.entries()) {
    if ((segments[index + 1]?.baseOffset ?? Number.POSITIVE_INFINITY) <= range.from) continue
    const goesOn = await walkSegment(deps, segment, range.holesBelow, (header, bytes, at) => {
      if (header.baseOffset >= range.to && open.size === 0) return false
      const { producerId, baseOffset } = header
      if (isControl(header)) {
        const marker = readEndTransaction(bytes, at, header)
        const firstOffset = open.get(producerId)
        if (marker === null || firstOffset === undefined) return true
        open.delete(producerId)
        if (!marker.committed) aborted.add(producerId, firstOffset, baseOffset)
      } else if (isTransactional(header) && baseOffset < range.to && !open.has(producerId)) open.set(producerId, baseOffset)
      return true
    })
    if (!goesOn) return aborted
  }
  for (const [producerId, firstOffset] of open) {
    throw new MoonMQError('INTERNAL', {
      reason: `the transaction of producer ${producerId} that began at offset ${firstOffset} has no marker`,
    })
  }
  return aborted
}
