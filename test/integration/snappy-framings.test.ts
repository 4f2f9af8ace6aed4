import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { CODEC, Codecs } from '../../src/record/compression.ts'
import { compact } from '../support/compaction.ts'
import { type DiskBroker, diskBroker } from '../support/disk-broker.ts'
import { contextOf, createTopic, produceOne } from '../support/fake-broker.ts'
import { valuesOf } from '../support/transactions.ts'

/** What every xerial stream begins with, its versions in network order. */
const XERIAL = Buffer.from('82534e4150505900' + '00000001' + '00000001', 'hex')
const BLOCK_BYTES = 100
const TEXT = 'snappy,'.repeat(40)

async function codecs(): Promise<Codecs> {
  const found = new Codecs({ loader: new NodeLoader() })
  await found.ready(CODEC.snappy)
  await found.ready(CODEC.gzip)
  return found
}

/** The ways in which clients put records into snappy. */
async function framings(): Promise<Readonly<Record<string, (records: Buffer) => Buffer>>> {
  const known = await codecs()
  const xerial = (bytes: Buffer) => known.deflate(CODEC.snappy, bytes)
  const block = (bytes: Buffer) => xerial(bytes).subarray(XERIAL.length)
  return {
    'a raw block': (records) => xerial(records).subarray(XERIAL.length + 4),
    'one xerial block': xerial,
    'many xerial blocks': (records) => {
      const blocks: Buffer[] = []
      for (let at = 0; at < records.length; at += BLOCK_BYTES) blocks.push(block(records.subarray(at, at + BLOCK_BYTES)))
      return Buffer.concat([XERIAL, ...blocks])
    },
    'xerial with its versions in little-endian': (records) => {
      const bytes = Buffer.from(xerial(records))
      bytes.writeInt32LE(1, 8)
      bytes.writeInt32LE(1, 12)
      return bytes
    },
  }
}

async function open(config: Record<string, string> = {}): Promise<DiskBroker> {
  const running = await diskBroker(new MemoryDisk({ clock: new SystemClock() }))
  await createTopic(running.broker, 't', 1, config)
  return running
}

function batchOf(values: readonly string[], codec: number, pack: (records: Buffer) => Buffer, firstMs = 1000): Buffer {
  const records = values.map((value, at) => ({ key: Buffer.from(`k${at}`), value: Buffer.from(value), timestampMs: firstMs + at }))
  return buildBatch(records, { codec, compress: (_codec, bytes) => pack(bytes) })
}

async function stored({ broker }: DiskBroker): Promise<Buffer> {
  const request = {
    partitions: [{ topic: 't', partition: 0, fetchOffset: 0, maxBytes: 1e6, currentLeaderEpoch: -1, lastFetchedEpoch: -1 }],
  }
  const fetched = await broker.fetch.fetch(contextOf(), {
    ...request,
    isolation: 'read_uncommitted',
    maxWaitMs: 0,
    minBytes: 0,
    maxBytes: 1e6,
  })
  const bytes = Buffer.concat([...(fetched.partitions[0]?.read?.buffers ?? [])])
  fetched.release()
  return bytes
}

function packed(bytes: Buffer): Buffer {
  const header = readBatchHeader(bytes)
  return Buffer.from(bytes.subarray(61, header.sizeBytes))
}

describe('O18: snappy in any framing', () => {
  it('is checked, kept byte for byte, and looked into for a time', async () => {
    for (const [name, pack] of Object.entries(await framings())) {
      const running = await open()
      const sent = batchOf([`${TEXT}a`, `${TEXT}b`, `${TEXT}c`], CODEC.snappy, pack)
      const records = packed(sent)
      assert.equal((await produceOne(running.broker, 't', 0, sent)).error, null, name)
      assert.deepEqual(packed(await stored(running)), records, `${name} is kept as it came`)
      assert.deepEqual(await valuesOf(running.broker, 't', 0), [`${TEXT}a`, `${TEXT}b`, `${TEXT}c`], name)
      const found = await running.broker.offsets.forTimestamp(contextOf(), 't', 0, 1001, 'read_uncommitted')
      assert.equal(found?.offset, 1, name)
      await running.close()
    }
  })

  it('that lies about its records is refused', async () => {
    const pack = (await framings())['a raw block'] as (records: Buffer) => Buffer
    const running = await open()
    const cut = batchOf([TEXT], CODEC.snappy, (records) => pack(records.subarray(0, records.length - 5)))
    assert.notEqual((await produceOne(running.broker, 't', 0, cut)).error, null)
    await running.close()
  })

  it('is what the broker itself writes: xerial in network order', async () => {
    const gzip = await codecs()
    const anew = await open({ 'compression.type': 'snappy' })
    assert.equal(
      (
        await produceOne(
          anew.broker,
          't',
          0,
          batchOf([TEXT], CODEC.gzip, (records) => gzip.deflate(CODEC.gzip, records)),
        )
      ).error,
      null,
    )
    const written = await stored(anew)
    assert.equal(readBatchHeader(written).attributes & 7, CODEC.snappy)
    assert.deepEqual(packed(written).subarray(0, XERIAL.length), XERIAL)
    assert.deepEqual(await valuesOf(anew.broker, 't', 0), [TEXT])
    await anew.close()
  })

  it('can be compacted: what is left is written in the standard framing', async () => {
    for (const [name, pack] of Object.entries(await framings())) {
      const running = await open({ 'cleanup.policy': 'compact', 'segment.bytes': '1024', 'min.cleanable.dirty.ratio': '0' })
      for (let round = 0; round < 12; round++) {
        const values = [`old ${round}`, `${TEXT}${round}`]
        const batch = batchOf(round === 0 ? ['first', ...values] : values, CODEC.snappy, pack, 1000 * round)
        assert.equal((await produceOne(running.broker, 't', 0, batch)).error, null, name)
      }
      await compact(running.data.logs)
      // Of the first batch only the record with the third key is left, so it was written anew.
      const first = await stored(running)
      assert.deepEqual([readBatchHeader(first).recordCount, readBatchHeader(first).attributes & 7], [1, CODEC.snappy], name)
      assert.deepEqual(packed(first).subarray(0, XERIAL.length), XERIAL, name)
      const values = await valuesOf(running.broker, 't', 0)
      assert.equal(values[0], `${TEXT}0`, name)
      assert.ok(values.length < 25, `${name}: ${values.length} are left`)
      assert.ok(values.includes('old 11') || values.includes(`${TEXT}11`), name)
      await running.close()
    }
  })
})
