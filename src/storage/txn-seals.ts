/** What the transaction index of a segment must hold: so many entries, with this CRC-32C over their bytes. */
export interface TxnSeal {
  readonly baseOffset: number
  readonly entries: number
  readonly checksum: number
}

/** What may be on disk of the segment that begins at `baseOffset`, by what was saved of all of a log: nothing, where nothing was. */
export function sealsOf(baseOffset: number, all: readonly TxnSeal[]): readonly TxnSeal[] {
  const seals = all.filter((seal) => seal.baseOffset === baseOffset)
  return seals.length > 0 ? seals : [{ baseOffset, entries: 0, checksum: 0 }]
}

export function isSameSeal(one: TxnSeal, other: TxnSeal): boolean {
  return one.baseOffset === other.baseOffset && one.entries === other.entries && one.checksum === other.checksum
}

/** What is looked at of a segment. */
interface SealedSegment {
  readonly baseOffset: number
  readonly txnIndex: { readonly seals: readonly TxnSeal[] | null; readonly isSealedEmpty: boolean }
}

/**
 * What is to be saved with a recovery point of the segments that end there or before, where `lastEnd` is the end of the last one, if it takes
 * no more. Of the one that ends right there something is said even where there is nothing: see `isSettled`. Undefined: nobody knows of one.
 */
export function sealsBelow(segments: readonly SealedSegment[], recoveryPoint: number, lastEnd: number): readonly TxnSeal[] | undefined {
  const seals: TxnSeal[] = []
  for (let index = 0; index < segments.length; index++) {
    const nextBase = segments[index + 1]?.baseOffset
    if ((nextBase ?? lastEnd) > recoveryPoint) break
    const { txnIndex } = segments[index] as SealedSegment
    if (txnIndex.seals === null) return undefined
    if (!txnIndex.isSealedEmpty || nextBase === recoveryPoint) seals.push(...txnIndex.seals)
  }
  return seals
}

/**
 * Whether the indexes of a closed segment were durable when the recovery point was saved. One that ends right at the point may have been
 * the active one then: it was, unless something is said of it.
 */
export function isSettled(
  { baseOffset, endOffset }: { baseOffset: number; endOffset: number },
  point: number,
  seals: readonly TxnSeal[],
): boolean {
  return endOffset < point || (endOffset === point && seals.some((seal) => seal.baseOffset === baseOffset))
}
