import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCode, type MoonMQError } from '../../../src/core/errors.ts'
import { AT } from '../../../src/record/batch.ts'
import { appendTo, diskWith, filesOf, LOG_FILE, openHarness, readAll } from '../../support/storage.ts'

/** Epochs 2, 2, 5; the metadata log knows of epoch 7. The middle batch has neighbours on both sides. */
const EPOCHS = [2, 2, 5]
const MAX_EPOCH = 7
const EPOCH_FILE = '/data/t-0/leader-epoch-checkpoint'
const MARKER = '/data/moonmq-clean-shutdown'
const POINTS = '/data/moonmq-recovery-points'

interface Sample {
  /** Of a broker that was killed: no marker, no recovery points. */
  readonly killed: Map<string, Buffer>
  /** Of one that stopped in order. */
  readonly stopped: Map<string, Buffer>
  /** Where each batch begins, and the end of the file. */
  readonly starts: readonly number[]
}

async function sample(): Promise<Sample> {
  const { log, manager, disk } = await openHarness()
  const starts = [0]
  for (const epoch of EPOCHS) {
    appendTo(log, [`a value in epoch ${epoch}`, 'another'], { epoch })
    await log.whenDurable(log.logEndOffset)
    starts.push(log.sizeBytes)
  }
  const killed = await filesOf(disk)
  for (const path of [...killed.keys()]) if (path.endsWith('moonmq.lock')) killed.delete(path)
  await manager.close()
  const stopped = await filesOf(disk)
  assert.ok(stopped.has(MARKER) && stopped.has(POINTS))
  return { killed, stopped, starts }
}

function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[bit >> 3] = (copy[bit >> 3] as number) ^ (1 << (bit & 7))
  return copy
}

function withFile(files: ReadonlyMap<string, Buffer>, path: string, bytes: Buffer | null): Map<string, Buffer> {
  const copy = new Map(files)
  if (bytes === null) copy.delete(path)
  else copy.set(path, bytes)
  return copy
}

/** Every bit of the fields before the checksum ends, and some of each field behind. */
function bitsOf(from: number, to: number): number[] {
  const bits: number[] = []
  for (let bit = from * 8; bit < to * 8; bit += bit < (from + AT.attributes) * 8 ? 1 : 5) bits.push(bit)
  return bits
}

/** A flip that recovery takes for good: `batch` and the epoch that it then has. */
interface Undetected {
  readonly batch: number
  readonly byte: number
  readonly epoch: number
}

/** Recovers after each single flipped bit of each batch; checks what is reported and returns what passed. */
async function recoverEachFlip(files: Map<string, Buffer>, starts: readonly number[], bytesOfEach = Infinity): Promise<Undetected[]> {
  const bytes = files.get(LOG_FILE) as Buffer
  const undetected: Undetected[] = []
  for (let batch = 0; batch < EPOCHS.length; batch++) {
    const [from, to] = [starts[batch] as number, starts[batch + 1] as number]
    for (const bit of bitsOf(from, Math.min(to, from + bytesOfEach))) {
      const disk = await diskWith(withFile(files, LOG_FILE, flipped(bytes, bit)))
      const outcome = await openHarness({ disk, maxEpoch: MAX_EPOCH, boot: 'boot-2', manager: { hadPowerCut: false } }).catch(
        (error: MoonMQError) => error,
      )
      if (outcome instanceof Error) {
        assert.ok(isCode(outcome, 'DATA_DAMAGED'), String(outcome))
        assert.equal(outcome.details.path, LOG_FILE)
        assert.match(outcome.message, /^.*: byte \d+, offset \d+: /)
        continue
      }
      const { log, manager } = outcome
      const [cut] = log.cuts
      if (cut === undefined) {
        const isSaid = outcome.lines.some((line) => line.event === 'storage.epochs_contradicted')
        assert.equal(isSaid, files.has(EPOCH_FILE))
        undetected.push({ batch, byte: (bit >> 3) - from, epoch: log.epochFor(batch * 2) })
      } else {
        // Only the last batch can be taken for a write that was cut short, where its checksum fails; then it is gone, not served.
        assert.equal(batch, EPOCHS.length - 1)
        assert.ok((bit >> 3) - from >= AT.batchLength)
        assert.deepEqual([cut.file, cut.fromPosition, cut.toPosition, cut.atOffset], [LOG_FILE, from, bytes.length, 4])
        assert.equal(log.logEndOffset, 4)
      }
      await manager.close()
    }
  }
  return undetected
}

test('recovery finds every flipped bit of every batch; of those in a leader epoch that could be right it says so', async () => {
  const { killed, starts } = await sample()
  const whole = await openHarness({ disk: await diskWith(killed), maxEpoch: MAX_EPOCH })
  assert.deepEqual([whole.log.logEndOffset, whole.log.leaderEpoch, whole.log.cuts.length], [6, 5, 0])
  // Each of these was reported. Which of the two is wrong nobody can tell, and the records are whole.
  for (const { byte } of await recoverEachFlip(killed, starts)) assert.equal(byte & ~3, AT.leaderEpoch)
})

test('a leader epoch checkpoint that is changed, old or another log’s never costs a batch, after a kill or a power cut', async () => {
  const { killed } = await sample()
  const text = (killed.get(EPOCH_FILE) as Buffer).toString()
  assert.equal(text, '0\n2\n2 0\n5 4\n')
  const others = [
    '0\n1\n2 0\n',
    '0\n0\n',
    '0\n2\n0 0\n5 4\n',
    '0\n2\n2 0\n7 4\n',
    '0\n2\n2 0\n4 4\n',
    '0\n2\n2 0\n5 2\n',
    '0\n2\n2 1\n5 4\n',
    '0\n1\n6 0\n',
    '0\n3\n1 0\n2 2\n6 4\n',
  ]
  const flips = Array.from({ length: text.length * 8 }, (_, bit) => flipped(Buffer.from(text), bit))
  for (const bytes of [...others.map((each) => Buffer.from(each)), ...flips, Buffer.alloc(0)]) {
    for (const hadPowerCut of [false, true]) {
      const disk = await diskWith(withFile(killed, EPOCH_FILE, bytes))
      const { log, lines, manager } = await openHarness({ disk, maxEpoch: MAX_EPOCH, boot: 'boot-2', manager: { hadPowerCut } })
      const what = JSON.stringify(bytes.toString())
      assert.deepEqual([log.logEndOffset, log.cuts.length, log.leaderEpoch], [6, 0, 5], what)
      assert.deepEqual(
        [0, 2, 4].map((offset) => log.epochFor(offset)),
        EPOCHS,
        what,
      )
      assert.equal((await readAll(log)).length, 3)
      assert.ok(
        lines.some(({ event }) => event === 'storage.epochs_contradicted' || event === 'storage.epochs_damaged'),
        what,
      )
      assert.equal(disk.peek(EPOCH_FILE)?.toString(), text)
      await manager.close()
    }
  }
})

test('batches whose leader epochs contradict each other are judged by the checkpoint', async () => {
  const { killed, starts } = await sample()
  const bytes = Buffer.from(killed.get(LOG_FILE) as Buffer)
  // Epochs 2, 7, 5.
  bytes.writeInt32BE(7, (starts[1] as number) + AT.leaderEpoch)
  const open = async () =>
    openHarness({
      disk: await diskWith(withFile(killed, LOG_FILE, bytes)),
      maxEpoch: MAX_EPOCH,
      boot: 'boot-1',
      manager: { hadPowerCut: false },
    })
  await assert.rejects(open(), {
    code: 'DATA_DAMAGED',
    message: /byte \d+, offset 2: the batch says leader epoch 7, offset 2 was written in 2/,
  })
})

test('without the leader epoch checkpoint exactly the flips of docs/GUARANTEES.md pass', async () => {
  const { killed, starts } = await sample()
  const undetected = await recoverEachFlip(withFile(killed, EPOCH_FILE, null), starts, AT.attributes)
  // An epoch that neither falls below the batch before nor rises above the batch behind and the metadata log cannot be told wrong.
  const expected: Undetected[] = []
  for (const [batch, epoch] of EPOCHS.entries()) {
    for (let bit = 0; bit < 32; bit++) {
      const value = epoch ^ (1 << (24 - (bit & ~7) + (bit & 7)))
      if (value >= (EPOCHS[batch - 1] ?? 0) && value <= (EPOCHS[batch + 1] ?? MAX_EPOCH)) {
        expected.push({ batch, byte: AT.leaderEpoch + (bit >> 3), epoch: value })
      }
    }
  }
  assert.ok(expected.length > 0)
  assert.deepEqual(undetected, expected)
})

test('a read finds every flipped bit, names file and position, and never returns the batch', async () => {
  const { stopped, starts } = await sample()
  const disk = await diskWith(stopped)
  const { log } = await openHarness({ disk, maxEpoch: MAX_EPOCH })
  for (let batch = 0; batch < EPOCHS.length; batch++) {
    const [from, to] = [starts[batch] as number, starts[batch + 1] as number]
    for (const bit of bitsOf(from, to)) {
      disk.corrupt(LOG_FILE, bit >> 3, 1 << (bit & 7))
      await assert.rejects(
        async () => log.read({ offset: batch * 2, maxBytes: 0, minOneBatch: true, limitOffset: 6 }),
        (error: MoonMQError) => {
          assert.equal(error.code, 'CORRUPT_RECORDS')
          assert.equal(error.details.file, LOG_FILE)
          assert.equal(error.details.position, from)
          return true
        },
        `bit ${bit}`,
      )
      if (batch > 0) {
        const read = await log.read({ offset: 0, maxBytes: 1 << 20, minOneBatch: true, limitOffset: 6 })
        assert.equal(read.sizeBytes, from)
        read.release()
      }
      disk.corrupt(LOG_FILE, bit >> 3, 1 << (bit & 7))
    }
  }
  assert.equal((await readAll(log)).length, 3)
})

test('a file cut at any byte: recovery keeps the whole batches, a read reports the missing ones', async () => {
  const { killed, stopped, starts } = await sample()
  const bytes = killed.get(LOG_FILE) as Buffer
  for (let size = 0; size < bytes.length; size++) {
    const whole = starts.filter((start) => start > 0 && start <= size).length
    const recovered = await openHarness({ disk: await diskWith(withFile(killed, LOG_FILE, bytes.subarray(0, size))), maxEpoch: MAX_EPOCH })
    assert.equal(recovered.log.logEndOffset, whole * 2)
    const kept = starts[whole] as number
    if (size > kept) {
      const [cut] = recovered.log.cuts
      assert.deepEqual([cut?.file, cut?.fromPosition, cut?.toPosition], [LOG_FILE, kept, size])
      assert.ok(recovered.lines.some((line) => line.event === 'storage.tail_cut' && line.fields.toPosition === size))
    } else assert.deepEqual(recovered.log.cuts, [])
    assert.equal(recovered.disk.peek(LOG_FILE)?.length, kept)
    await recovered.manager.close()
  }
  for (let size = 0; size < bytes.length; size++) {
    const disk = await diskWith(stopped)
    const { log } = await openHarness({ disk, maxEpoch: MAX_EPOCH })
    const file = await disk.open(LOG_FILE, 'write')
    await file.truncate(size)
    await file.close()
    const whole = starts.filter((start) => start > 0 && start <= size).length
    await assert.rejects(
      async () => log.read({ offset: whole * 2, maxBytes: 1 << 20, minOneBatch: true, limitOffset: 6 }),
      (error: MoonMQError) => error.code === 'CORRUPT_RECORDS' && error.details.file === LOG_FILE,
    )
  }
})

test('a flip below the synced checkpoint is damage and cuts nothing', async () => {
  const { log, manager, disk } = await openHarness()
  for (const epoch of EPOCHS) appendTo(log, ['value'], { epoch })
  await log.whenDurable(3)
  await manager.checkpoint()
  const files = await filesOf(disk)
  files.delete('/data/moonmq.lock')
  const bytes = files.get(LOG_FILE) as Buffer
  const disk2 = await diskWith(withFile(files, LOG_FILE, flipped(bytes, (bytes.length - 1) * 8)))
  await assert.rejects(openHarness({ disk: disk2, manager: { hadPowerCut: true } }), (error: MoonMQError) => {
    assert.equal(error.code, 'DATA_DAMAGED')
    assert.match(error.message, /everything below offset 3 was acknowledged/)
    return true
  })
  assert.deepEqual(disk2.peek(LOG_FILE)?.length, bytes.length)
})
