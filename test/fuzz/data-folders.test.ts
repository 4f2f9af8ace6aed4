import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { AT, batchSizeAt, readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { buildEndTxnMarker } from '../../src/record/control.ts'
import { type FuzzTarget, fuzz, mutateBytes, pick } from '../support/fuzz.ts'
import { scanFile } from '../support/index-check.ts'
import { DATA_FOLDER, diskWith, filesOf, openHarness, store } from '../support/storage.ts'

/**
 * A data folder with one or two files changed, opened as a broker opens it: logs, indexes, snapshots, checkpoints, marker. It opens or
 * names the damage; every batch that is read is one that was written, at its own offset; look-ups by offset and time agree with that.
 */
const CONFIG = { segmentBytes: 500, indexIntervalBytes: 0 }

let folder: Map<string, Buffer>
/** What was written, by base offset. */
const written = new Map<number, Buffer>()

before(async () => {
  const { log, manager, disk } = await openHarness({ config: CONFIG })
  for (let value = 0; value < 12; value++) {
    await store(log, [`${value}`.repeat(40), 'x'], {
      timestampMs: 1_700_000_000_000 + value,
      producerId: value % 2,
      producerEpoch: 0,
      baseSequence: value - (value % 2),
    })
    if (value % 4 !== 3) continue
    const records = [{ key: null, value: Buffer.from('in a transaction'), timestampMs: 1_700_000_000_000 }]
    for (const batch of [
      buildBatch(records, { producerId: 9, producerEpoch: 0, baseSequence: value >> 2, transactional: true }),
      buildEndTxnMarker({ commit: false, producerId: 9, producerEpoch: 0, coordinatorEpoch: 0, timestampMs: 1_700_000_000_000 }),
    ]) {
      const { lastOffset } = log.append(batch, readBatchHeader(batch), { leaderEpoch: 0 })
      await log.whenDurable(lastOffset + 1)
    }
  }
  await manager.close()
  folder = await filesOf(disk)
  for (const [path, bytes] of folder) {
    if (!path.endsWith('.log')) continue
    for (const batch of scanFile(bytes)) written.set(batch.baseOffset, bytes.subarray(batch.position, batch.position + batch.sizeBytes))
  }
})

/** The leader epoch lies before the checksum and is compared by other means. */
function checkBatches(bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) {
    const size = batchSizeAt(bytes, at, bytes.length) as number
    const { baseOffset } = readBatchHeader(bytes, at, bytes.length)
    const original = written.get(baseOffset)
    assert.ok(original !== undefined, `a batch at ${baseOffset} that was never written`)
    assert.ok(
      original.subarray(AT.attributes).equals(bytes.subarray(at + AT.attributes, at + size)),
      `the batch at ${baseOffset} was changed`,
    )
    at += size
  }
}

const target: FuzzTarget<Map<string, Buffer>> = {
  name: 'data folders',
  make(random) {
    const files = new Map(folder)
    for (let count = 1 + random.below(2); count > 0; count--) {
      const path = pick(
        random,
        [...folder.keys()].filter((name) => !name.endsWith('.lock')),
      )
      if (random.below(6) === 0) files.delete(path)
      else files.set(path, mutateBytes(random, folder.get(path) as Buffer))
    }
    if (random.below(2) === 0) files.delete(`${DATA_FOLDER}/moonmq-clean-shutdown`)
    return files
  },
  async run(files) {
    const { log, manager } = await openHarness({ disk: await diskWith(files), config: CONFIG })
    try {
      for (let offset = log.logStartOffset; offset < log.logEndOffset; offset++) {
        const read = await log.read({ offset, maxBytes: 1, minOneBatch: true, limitOffset: log.logEndOffset })
        for (const bytes of read.buffers) checkBatches(bytes)
        assert.ok(read.baseOffset <= offset && offset < read.nextOffset)
        read.release()
      }
      await log.offsetForTimestamp(1_700_000_000_006, log.logEndOffset)
      log.abortedTransactions(log.logStartOffset, log.logEndOffset)
    } finally {
      await manager.close()
    }
  },
  show: (files) =>
    [...files]
      .filter(([path, bytes]) => folder.get(path) !== bytes)
      .map(([path, bytes]) => `${path} ${bytes.toString('hex')}`)
      .join('\n'),
}

test('changed data folders open or are refused by name, and serve nothing that was not written', async (t) => {
  const { rounds, accepted } = await fuzz(target)
  t.diagnostic(`${rounds} rounds, ${accepted} opened and were read`)
  assert.ok(accepted > 0 && accepted < rounds)
})
