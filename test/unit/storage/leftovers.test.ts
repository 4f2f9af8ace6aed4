import assert from 'node:assert/strict'
import test from 'node:test'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../../src/io/memory-disk.ts'
import { segmentFileName } from '../../../src/storage/files.ts'
import { removeReturned } from '../../../src/storage/leftovers.ts'

const FOLDER = '/data/t-0'

test('segments that a power cut brought back below the start of the log go, so none stands before a hole', async () => {
  const disk = new MemoryDisk({ clock: new VirtualClock() })
  await disk.makeDirectory(FOLDER)
  const names = new Set<string>()
  // The one of offset 16 left the log for good, those of 6 and 12 are back.
  for (const base of [6, 12, 21, 25])
    for (const kind of ['log', 'index'] as const) {
      const name = segmentFileName(base, kind)
      names.add(name)
      await (await disk.open(`${FOLDER}/${name}`, 'write')).close()
    }
  assert.equal(await removeReturned({ disk }, FOLDER, names, [6, 12, 21, 25], 23), 2)
  assert.deepEqual(
    (await disk.list(FOLDER)).map(({ name }) => name),
    [21, 25].flatMap((base) => [segmentFileName(base, 'index'), segmentFileName(base, 'log')]),
  )
  assert.equal(await removeReturned({ disk }, FOLDER, names, [21, 25], 1_000), 1, 'the last one stays, whatever the start says')
})
