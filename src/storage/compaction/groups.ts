/** A segment as far as its size matters. */
export interface SegmentSize {
  readonly baseOffset: number
  readonly sizeBytes: number
  readonly indexEntries: number
  readonly timeIndexEntries: number
}

const MAX_RELATIVE_OFFSET = 0x7fffffff

/**
 * Which neighbouring segments become one (Kafka: `Cleaner.groupSegmentsBySize`): as many as fit the size of a segment and of its indexes
 * before compaction, with offsets that fit 32 bits above the first. `endOffset`: the first offset behind `segments`.
 */
export function groupSegments<S extends SegmentSize>(
  segments: readonly S[],
  endOffset: number,
  limits: { readonly segmentBytes: number; readonly offsetIndexEntries: number; readonly timeIndexEntries: number },
): S[][] {
  const groups: S[][] = []
  let group: S[] = []
  let bytes = 0
  let entries = 0
  let timeEntries = 0
  for (const [index, segment] of segments.entries()) {
    const end = segments[index + 1]?.baseOffset ?? endOffset
    bytes += segment.sizeBytes
    entries += segment.indexEntries
    timeEntries += segment.timeIndexEntries
    const fits =
      bytes <= limits.segmentBytes &&
      entries <= limits.offsetIndexEntries &&
      timeEntries <= limits.timeIndexEntries &&
      end - 1 - (group[0] ?? segment).baseOffset <= MAX_RELATIVE_OFFSET
    if (group.length > 0 && !fits) {
      groups.push(group)
      group = []
      bytes = segment.sizeBytes
      entries = segment.indexEntries
      timeEntries = segment.timeIndexEntries
    }
    group.push(segment)
  }
  if (group.length > 0) groups.push(group)
  return groups
}
