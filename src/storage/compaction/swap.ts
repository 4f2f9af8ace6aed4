import type { Failpoint } from '../../core/failpoint.ts'
import type { Logger } from '../../core/logger.ts'
import type { Disk } from '../../io/disk.ts'
import { parseSegmentFileName, type SegmentFileKind, segmentFileName } from '../files.ts'

/**
 * How one compacted segment takes the place of several. Its files are written as `….log.cleaned`, `….index.cleaned` and so on, synced, and
 * their names too. Renaming the log file to `<first offset>-<end>.log.swap` is the one step that decides: before it a crash leaves the old
 * segments, after it the new one, and the name says which old ones it replaces. Then the old segments go and the indexes get their names;
 * when that is durable the log gets its own name, which takes the place of the first old segment.
 */
export interface Swap {
  readonly baseOffset: number
  /** First offset of the segment behind those that are replaced. */
  readonly endOffset: number
}

export interface SwapDeps {
  readonly disk: Disk
  readonly failpoint: Failpoint
}

export const CLEANED_SUFFIX = '.cleaned'
const SWAP_FILE = /^(\d{20})-(\d{20})\.log\.swap$/
const CLEANED_FILE = /^\d{20}\.(log|index|timeindex|txnindex)\.cleaned$/
const INDEX_KINDS = ['index', 'timeindex', 'txnindex'] as const
const KINDS = ['log', ...INDEX_KINDS] as const

function cleanedFileName(baseOffset: number, kind: SegmentFileKind): string {
  return `${segmentFileName(baseOffset, kind)}${CLEANED_SUFFIX}`
}

export function swapFileName({ baseOffset, endOffset }: Swap): string {
  const digits = (offset: number) => offset.toString().padStart(20, '0')
  return `${digits(baseOffset)}-${digits(endOffset)}.log.swap`
}

export function parseSwapFileName(name: string): Swap | null {
  const match = SWAP_FILE.exec(name)
  if (match === null) return null
  const swap = { baseOffset: Number(match[1]), endOffset: Number(match[2]) }
  return Number.isSafeInteger(swap.endOffset) && swap.baseOffset < swap.endOffset ? swap : null
}

/** A file that a compaction left which was cut short. */
export function isCompactionLeftover(name: string): boolean {
  return CLEANED_FILE.test(name) || SWAP_FILE.test(name)
}

/** The step that decides. The files of the new segment are synced. Nothing has changed when it fails. */
export async function decideSwap(deps: SwapDeps, folder: string, swap: Swap): Promise<void> {
  const { disk, failpoint } = deps
  await disk.syncDirectory(folder)
  failpoint('compaction.cleaned-synced')
  await disk.rename(`${folder}/${cleanedFileName(swap.baseOffset, 'log')}`, `${folder}/${swapFileName(swap)}`)
}

/** Everything after the step that decides. May be repeated from the beginning, wherever it was cut short. */
export async function finishSwap(deps: SwapDeps, folder: string, swap: Swap): Promise<void> {
  const { disk, failpoint } = deps
  failpoint('compaction.swap-renamed')
  await disk.syncDirectory(folder)
  failpoint('compaction.swap-decided')
  const names = new Set((await disk.list(folder)).map((entry) => entry.name))
  for (const name of names) {
    const parsed = parseSegmentFileName(name)
    if (parsed === null || parsed.kind === 'snapshot') continue
    if (parsed.baseOffset <= swap.baseOffset || parsed.baseOffset >= swap.endOffset) continue
    await disk.removeFile(`${folder}/${name}`)
    failpoint('compaction.old-removed')
  }
  for (const kind of INDEX_KINDS) {
    const cleaned = cleanedFileName(swap.baseOffset, kind)
    const final = segmentFileName(swap.baseOffset, kind)
    if (names.has(cleaned)) await disk.rename(`${folder}/${cleaned}`, `${folder}/${final}`)
  }
  failpoint('compaction.indexes-renamed')
  await disk.syncDirectory(folder)
  failpoint('compaction.old-gone')
  await disk.rename(`${folder}/${swapFileName(swap)}`, `${folder}/${segmentFileName(swap.baseOffset, 'log')}`)
  failpoint('compaction.renamed')
  await disk.syncDirectory(folder)
  failpoint('compaction.swapped')
}

/** Takes away what was written of a segment that takes nobody's place. */
export async function removeCleaned(disk: Disk, folder: string, baseOffset: number): Promise<void> {
  for (const kind of KINDS) await disk.removeFile(`${folder}/${cleanedFileName(baseOffset, kind)}`)
}

/** For a start: ends a swap that was decided, and takes away what was not. True when names in the folder changed. */
export async function settleCompaction(
  deps: SwapDeps & { readonly log: Logger },
  folder: string,
  names: ReadonlySet<string>,
): Promise<boolean> {
  const leftovers = [...names].filter(isCompactionLeftover)
  if (leftovers.length === 0) return false
  for (const name of leftovers) {
    const swap = parseSwapFileName(name)
    if (swap === null) continue
    await finishSwap(deps, folder, swap)
    deps.log.info('storage.compaction_finished', `a compaction of ${folder} that was cut short was brought to its end`, { folder, ...swap })
  }
  for (const name of leftovers) if (CLEANED_FILE.test(name)) await deps.disk.removeFile(`${folder}/${name}`)
  await deps.disk.syncDirectory(folder)
  return true
}
