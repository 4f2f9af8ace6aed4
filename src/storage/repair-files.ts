import type { Failpoint } from '../core/failpoint.ts'
import { directoryOf } from '../io/atomic-file.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { buildBatch } from '../record/builder.ts'
import type { LogRepair } from './repair-plan.ts'

/** How a repair changes files: what it takes out is durable in a file beside before the log changes, and no side file is ever overwritten. */

export interface RepairFileDeps {
  readonly disk: Disk
  readonly failpoint: Failpoint
}

const COPY_BYTES = 1024 * 1024
/** Kept bytes of one place in one file: more than a person will ever leave. */
const MAX_SIDE_FILES = 1000
/** One batch can stand for this many offsets: its last offset delta has 31 bits. */
const MAX_GAP = 2 ** 31 - 1

/** An empty batch, which readers pass over, in place of records that are gone: as Kafka's cleaner leaves one. */
function gapBatches(fromOffset: number, toOffset: number, leaderEpoch: number): Buffer[] {
  const batches: Buffer[] = []
  for (let baseOffset = fromOffset; baseOffset < toOffset; baseOffset += MAX_GAP) {
    const lastOffsetDelta = Math.min(toOffset - baseOffset, MAX_GAP) - 1
    batches.push(buildBatch([], { baseOffset, lastOffsetDelta, leaderEpoch }))
  }
  return batches
}

/** Copies the bytes [from, to) of a file into `<file>.cut-<from>`; durable with its name when it resolves. Returns the name. */
export async function keepBytes(deps: RepairFileDeps, path: string, from: number, to: number): Promise<string> {
  const { disk } = deps
  const source = await disk.open(path, 'read')
  try {
    for (let number = 1; number <= MAX_SIDE_FILES; number++) {
      const side = `${path}.cut-${from}${number === 1 ? '' : `.${number}`}`
      if ((await disk.stat(side)) !== null) {
        // A repair that was cut short kept the same bytes.
        if (await hasSameBytes(disk, source, from, to, side)) return side
        continue
      }
      await writeThenRename(deps, side, async (file) => {
        await copy(source, from, to, file, 0)
      })
      await disk.syncDirectory(directoryOf(side))
      return side
    }
  } finally {
    await source.close()
  }
  throw new Error(`${path} has ${MAX_SIDE_FILES} side files for byte ${from}`)
}

async function hasSameBytes(disk: Disk, source: DiskFile, from: number, to: number, side: string): Promise<boolean> {
  const other = await disk.open(side, 'read')
  try {
    if (other.sizeBytes !== to - from) return false
    const [left, right] = [Buffer.alloc(COPY_BYTES), Buffer.alloc(COPY_BYTES)]
    for (let position = 0; position < other.sizeBytes; position += COPY_BYTES) {
      const size = Math.min(COPY_BYTES, other.sizeBytes - position)
      await source.read(left.subarray(0, size), from + position)
      await other.read(right.subarray(0, size), position)
      if (left.compare(right, 0, size, 0, size) !== 0) return false
    }
    return true
  } finally {
    await other.close()
  }
}

/** A name that a check knows for unfinished. The rename is not durable when it resolves. */
async function writeThenRename({ disk }: RepairFileDeps, path: string, write: (file: DiskFile) => Promise<void>): Promise<void> {
  const temporary = `${path}.tmp`
  const file = await disk.open(temporary, 'write')
  try {
    await file.truncate(0)
    await write(file)
    await file.datasync()
  } finally {
    await file.close()
  }
  await disk.rename(temporary, path)
}

/** Returns where the copy ends. */
async function copy(source: DiskFile, from: number, to: number, target: DiskFile, at: number): Promise<number> {
  const chunk = Buffer.alloc(Math.min(COPY_BYTES, Math.max(to - from, 1)))
  let position = from
  while (position < to) {
    const size = await source.read(chunk.subarray(0, Math.min(chunk.length, to - position)), position)
    if (size === 0) throw new Error(`${source.path} ended at byte ${position} while it was copied`)
    await target.write([chunk.subarray(0, size)], at + position - from)
    position += size
  }
  return at + to - from
}

type SegmentStep = Extract<LogRepair, { kind: 'header' | 'drop' | 'fill' | 'cut' }>

/**
 * Applies the steps of one segment, in the order of their bytes. A cut at the end is made in place; for anything else the file is
 * written anew and takes the old one's place whole. What is taken out was kept before. Durable when it resolves.
 */
export async function applyToSegment(deps: RepairFileDeps, path: string, steps: readonly SegmentStep[]): Promise<void> {
  const { disk, failpoint } = deps
  const [only] = steps
  if (steps.length === 1 && only?.kind === 'cut') {
    const file = await disk.open(path, 'write')
    try {
      await file.truncate(only.position)
      failpoint('log.truncate.cut')
      await file.datasync()
    } finally {
      await file.close()
    }
    return
  }
  const source = await disk.open(path, 'read')
  try {
    await writeThenRename(deps, path, (target) => writeRepaired(source, target, steps))
  } finally {
    await source.close()
  }
  await disk.syncDirectory(directoryOf(path))
}

async function writeRepaired(source: DiskFile, target: DiskFile, steps: readonly SegmentStep[]): Promise<void> {
  let from = 0
  let at = 0
  const put = async (parts: readonly Buffer[]) => {
    for (const part of parts) {
      await target.write([part], at)
      at += part.length
    }
  }
  for (const step of steps) {
    const position = step.kind === 'fill' ? Math.max(from, source.sizeBytes) : step.position
    at = await copy(source, from, position, target, at)
    from = position
    if (step.kind === 'header') {
      await put([step.bytes])
      from += step.bytes.length
    } else if (step.kind === 'fill') await put(gapBatches(step.fromOffset, step.toOffset, step.leaderEpoch))
    else {
      if (step.kind === 'drop') await put(gapBatches(step.fromOffset, step.toOffset, step.leaderEpoch))
      from = step.endPosition
    }
  }
  await copy(source, from, source.sizeBytes, target, at)
}
