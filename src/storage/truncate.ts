import type { Failpoint } from '../core/failpoint.ts'
import type { Disk } from '../io/disk.ts'
import type { BufferPool } from './buffer-pool.ts'
import { segmentFileName } from './files.ts'
import { scanBatches } from './scan.ts'

/**
 * Cuts the files of a closed log so that no batch in them has a record at or behind `offset`. Later segments go first, so a crash in
 * between leaves a log that is whole up to some later offset. Recovery, which must follow, makes the indexes fit.
 */
export async function cutFiles(
  deps: { disk: Disk; pool: BufferPool; failpoint: Failpoint },
  options: { folder: string; bases: readonly number[]; offset: number; holesBelow: number },
): Promise<void> {
  const { folder, bases, offset } = options
  const keep = Math.max(1, bases.filter((base) => base < offset).length)
  for (const base of bases.slice(keep).reverse()) {
    for (const kind of ['log', 'index', 'timeindex', 'txnindex'] as const) {
      await deps.disk.removeFile(`${folder}/${segmentFileName(base, kind)}`)
    }
    deps.failpoint('log.truncate.segment-removed')
  }
  await deps.disk.syncDirectory(folder)
  const last = bases[keep - 1] as number
  const file = await deps.disk.open(`${folder}/${segmentFileName(last, 'log')}`, 'write')
  try {
    let end = 0
    const rules = { expectedOffset: last, holesBelow: options.holesBelow, epochFor: null, minEpoch: -1, maxEpoch: null }
    await scanBatches(file, deps.pool, { from: 0, to: file.sizeBytes, rules }, (header, position) => {
      if (header.baseOffset + header.lastOffsetDelta < offset) end = position + header.sizeBytes
    })
    if (end < file.sizeBytes) await file.truncate(end)
    deps.failpoint('log.truncate.cut')
    await file.datasync()
  } finally {
    await file.close()
  }
}
