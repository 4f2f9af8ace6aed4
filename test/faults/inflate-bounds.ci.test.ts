import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { connect as connectNative } from '../../src/client/index.ts'
import { isCode } from '../../src/core/errors.ts'
import { MIB } from '../../src/core/limits.ts'
import { ByteReader } from '../../src/core/reader.ts'
import { ByteWriter } from '../../src/core/writer.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { CODEC } from '../../src/record/compression.ts'
import { xxh32 } from '../../src/record/xxhash.ts'
import { readResponseHeader, writeRequestHeader } from '../../src/schema/headers.ts'
import { type ApiName, requestCodec, responseCodec } from '../../src/schema/messages.ts'
import { BrokerProcess } from '../support/broker-process.ts'

/** Batches below a megabyte that would inflate to hundreds: refused at the bound, at a price that the bound sets. */

/** Twice what any batch may inflate to. */
const GROWTH_LIMIT_BYTES = 2 * 64 * MIB

/** Sixteen MiB of zeros are sixteen KiB of gzip; members one after another are one stream. */
function gzipBomb(): Buffer {
  const member = gzipSync(Buffer.alloc(16 * MIB), { level: 9 })
  return Buffer.concat(new Array<Buffer>(40).fill(member))
}

/** Blocks of one repeated byte, 128 KiB each in four bytes, and no promise of a size. */
function zstdBomb(): Buffer {
  const block = (last: number) => {
    const bytes = Buffer.alloc(4)
    bytes.writeUIntLE((131_072 << 3) | (1 << 1) | last, 0, 3)
    return bytes
  }
  return Buffer.concat([Buffer.from('28b52ffd0058', 'hex'), ...new Array<Buffer>(8000).fill(block(0)), block(1)])
}

/** Blocks of 4 MiB, each one long match: a length of 255 a byte. */
function lz4Bomb(): Buffer {
  const block = Buffer.concat([Buffer.from([0x1f, 0, 1, 0]), Buffer.alloc(16_000, 255), Buffer.from([0, 0x50]), Buffer.alloc(5)])
  const size = Buffer.alloc(4)
  size.writeUInt32LE(block.length)
  const head = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0])
  head[6] = (xxh32(head, 4, 6) >>> 8) & 0xff
  return Buffer.concat([head, ...new Array<Buffer[]>(50).fill([size, block]).flat(), Buffer.alloc(4)])
}

/** Copies of 64 bytes in three: the length before them is right, or says little. */
function snappyBomb(says?: number): Buffer {
  const copies = 290_000
  const head: number[] = []
  for (let size = says ?? 1 + 64 * copies; ; size = Math.floor(size / 128)) {
    head.push(size < 128 ? size : (size % 128) | 128)
    if (size < 128) break
  }
  return Buffer.concat([Buffer.from([...head, 0, 97]), Buffer.from('fe0100'.repeat(copies), 'hex')])
}

const BOMBS: readonly (readonly [codec: number, bytes: () => Buffer])[] = [
  [CODEC.gzip, gzipBomb],
  [CODEC.snappy, snappyBomb],
  [CODEC.lz4, lz4Bomb],
  [CODEC.zstd, zstdBomb],
]

class Connection {
  readonly #socket: Socket
  #received = Buffer.alloc(0)
  #wake: (() => void) | null = null
  #correlationId = 0

  constructor(address: string) {
    this.#socket = connect(Number(address.split(':')[1]), '127.0.0.1')
    this.#socket.on('data', (bytes: Buffer) => {
      this.#received = Buffer.concat([this.#received, bytes])
      this.#wake?.()
    })
    this.#socket.on('close', () => this.#wake?.())
  }

  async ask<N extends ApiName>(
    name: N,
    apiKey: number,
    version: number,
    body: Parameters<ReturnType<typeof requestCodec<N>>['encode']>[1],
  ) {
    const writer = new ByteWriter()
    const correlationId = ++this.#correlationId
    writeRequestHeader(writer, { apiKey, apiVersion: version, correlationId, clientId: 'bomb' })
    requestCodec(name, version).encode(writer, body)
    const frame = new ByteWriter()
    frame.int32(writer.length)
    for (const part of [...frame.finish(), ...writer.finish()]) this.#socket.write(part)
    const reader = new ByteReader(await this.#frame())
    assert.equal(readResponseHeader(reader, apiKey, version), correlationId)
    return responseCodec(name, version).decode(reader)
  }

  async #frame(): Promise<Buffer> {
    for (;;) {
      const size = this.#received.length < 4 ? null : this.#received.readInt32BE(0)
      if (size !== null && this.#received.length >= 4 + size) {
        const frame = this.#received.subarray(4, 4 + size)
        this.#received = this.#received.subarray(4 + size)
        return frame
      }
      assert.ok(!this.#socket.destroyed, 'the broker closed the connection')
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  close(): void {
    this.#socket.destroy()
  }
}

/** A field of /proc/PID/status in bytes. */
function memoryOf(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024
}

const skip = process.platform === 'linux' ? false : 'reads memory from /proc'

test('a bomb that was stored unseen kills nothing that looks into it', { skip }, async () => {
  await using broker = await BrokerProcess.start()
  const connection = new Connection(broker.address)
  const configs = [
    { name: 'moonmq.record.validation', value: 'header' },
    { name: 'message.timestamp.before.max.ms', value: '9223372036854775807' },
  ]
  const asked = { name: 'bombs', numPartitions: 1, replicationFactor: 1, assignments: [], configs }
  await connection.ask('CreateTopics', 19, 5, { timeoutMs: 5000, validateOnly: false, topics: [asked] })
  const record = { key: null, value: Buffer.from('fine'), timestampMs: 1_700_000_000_000 }
  const produce = async (records: Buffer) => {
    const topicData = [{ name: 'bombs', partitionData: [{ index: 0, records }] }]
    const answer = await connection.ask('Produce', 0, 9, { acks: -1, timeoutMs: 5000, topicData })
    return answer.responses[0]?.partitionResponses[0]?.errorCode
  }
  for (const [codec, make] of BOMBS) assert.equal(await produce(buildBatch([record], { codec, compress: make })), 0, `codec ${codec}`)
  assert.equal(await produce(buildBatch([{ ...record, timestampMs: record.timestampMs + 1 }])), 0)
  const before = memoryOf(broker.pid, 'VmRSS')
  const find = async (timestamp: number) => {
    const partitions = [{ partitionIndex: 0, currentLeaderEpoch: -1, timestamp }]
    const answer = await connection.ask('ListOffsets', 2, 5, { replicaId: -1, isolationLevel: 0, topics: [{ name: 'bombs', partitions }] })
    const { errorCode, offset } = answer.topics[0]?.partitions[0] ?? {}
    return [errorCode, offset]
  }
  // Where a batch cannot be looked into, the search ends at its beginning: early, but never past a record.
  assert.deepEqual(await find(record.timestampMs), [0, 0])
  assert.deepEqual(await find(record.timestampMs + 1), [0, BOMBS.length])
  await using client = await connectNative({ address: broker.address })
  const reading = (async () => {
    for await (const _ of client.reader({ topic: 'bombs' })) assert.fail('nothing before the bomb')
  })()
  await assert.rejects(reading, (error) => isCode(error, 'INFLATED_TOO_LARGE') || isCode(error, 'CORRUPT_BATCH'))
  assert.ok(memoryOf(broker.pid, 'VmHWM') - before < GROWTH_LIMIT_BYTES)
  assert.equal(await produce(buildBatch([record])), 0, 'the broker still serves')
  connection.close()
  assert.equal(await broker.stop(), 0)
})

test('batches that inflate without end are refused, and the broker goes on within its memory', { skip }, async () => {
  await using broker = await BrokerProcess.start()
  const connection = new Connection(broker.address)
  await connection.ask('Metadata', 3, 9, { topics: [{ name: 'bombs' }], allowAutoTopicCreation: true })
  const produce = async (records: Buffer) => {
    const topicData = [{ name: 'bombs', partitionData: [{ index: 0, records }] }]
    const answer = await connection.ask('Produce', 0, 9, { acks: -1, timeoutMs: 5000, topicData })
    return answer.responses[0]?.partitionResponses[0]?.errorCode
  }
  const record = { key: null, value: Buffer.from('fine'), timestampMs: 1_700_000_000_000 }
  assert.equal(await produce(buildBatch([record])), 0)
  const before = memoryOf(broker.pid, 'VmRSS')
  for (const [codec, make] of BOMBS) {
    const bomb = make()
    assert.ok(bomb.length < 900_000, `${bomb.length} bytes`)
    for (let round = 0; round < 3; round++) {
      assert.equal(await produce(buildBatch([record], { codec, compress: () => bomb })), 10, `codec ${codec}`)
    }
  }
  const grown = memoryOf(broker.pid, 'VmHWM') - before
  assert.ok(grown < GROWTH_LIMIT_BYTES, `memory grew by ${Math.round(grown / MIB)} MiB`)
  assert.equal(await produce(buildBatch([record])), 0, 'the broker still serves')
  connection.close()
  assert.equal(await broker.stop(), 0)
})
