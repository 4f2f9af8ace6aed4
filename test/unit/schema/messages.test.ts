import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { generateData, generateTypes, readSchemaFiles } from '../../../scripts/kafka-types.ts'
import { ByteReader } from '../../../src/core/reader.ts'
import { ByteWriter } from '../../../src/core/writer.ts'
import { readRequestHeader, readResponseHeader, writeRequestHeader, writeResponseHeader } from '../../../src/schema/headers.ts'
import { allApis, apiInfo, requestCodec, responseCodec } from '../../../src/schema/messages.ts'

function encode(write: (writer: ByteWriter) => void): Buffer {
  const writer = new ByteWriter()
  write(writer)
  return writer.toBuffer()
}

test('the generated files are what the definitions give', () => {
  const files = readSchemaFiles('src/schema')
  assert.equal(readFileSync('src/schema/data.generated.ts', 'utf8'), generateData(files))
  assert.equal(readFileSync('src/schema/types.generated.ts', 'utf8'), generateTypes(files))
})

test('every API has codecs for every version that it names', () => {
  for (const api of allApis()) {
    for (let version = api.versions[0]; version <= api.versions[1]; version++) {
      const request = requestCodec(api.name, version)
      const bytes = encode((writer) => request.encode(writer, {}))
      const reader = new ByteReader(bytes)
      request.decode(reader)
      reader.expectEnd(api.name)
      assert.equal(requestCodec(api.name, version), request, 'built once')
    }
    assert.throws(() => requestCodec(api.name, api.versions[1] + 1), { code: 'UNSUPPORTED_VERSION' })
    assert.throws(() => responseCodec(api.name, -1), { code: 'UNSUPPORTED_VERSION' })
  }
  assert.equal(apiInfo(999), undefined)
})

test('a decoded message has every field, with its default where the version lacks it', () => {
  const old = requestCodec('Fetch', 4)
  const bytes = encode((writer) => old.encode(writer, { maxWaitMs: 5, minBytes: 1, maxBytes: 9, topics: [{ topic: 't', partitions: [] }] }))
  const value = old.decode(new ByteReader(bytes))
  assert.equal(value.maxWaitMs, 5)
  assert.equal(value.sessionEpoch, -1)
  assert.equal(value.clusterId, null)
  assert.deepEqual(value.forgottenTopicsData, [])
  assert.deepEqual(
    Object.keys(value),
    Object.keys(requestCodec('Fetch', 17).decode(new ByteReader(encode((w) => requestCodec('Fetch', 17).encode(w, {}))))),
  )
})

test('records go out in parts without a copy and come in as a view', () => {
  const codec = responseCodec('Fetch', 11)
  const parts = [Buffer.alloc(5000, 1), Buffer.alloc(10, 2), Buffer.alloc(3000, 3)]
  const writer = new ByteWriter()
  codec.encode(writer, { responses: [{ topic: 't', partitions: [{ partitionIndex: 0, records: parts }] }] })
  const out = writer.finish()
  assert.ok(out.includes(parts[0] as Buffer) && out.includes(parts[2] as Buffer))
  const bytes = Buffer.concat(out)
  const records = codec.decode(new ByteReader(bytes)).responses[0]?.partitions[0]?.records
  assert.ok(records)
  assert.equal(records.buffer, bytes.buffer)
  assert.deepEqual(records, Buffer.concat(parts))
})

test('what a version cannot say is refused, unless it may be dropped', () => {
  const writer = new ByteWriter()
  assert.throws(() => requestCodec('Metadata', 0).encode(writer, { topics: null }), { code: 'INTERNAL' })
  assert.throws(
    () =>
      requestCodec('Fetch', 4).encode(writer, {
        topics: [{ topic: 't', topicId: 'AAAAAAAAAAAAAAAAAAAAAQ', partitions: [{ currentLeaderEpoch: 3 }] }],
        forgottenTopicsData: [{ topic: 'x' }],
      }),
    { code: 'INTERNAL' },
  )
  responseCodec('Produce', 3).encode(writer, { responses: [{ name: 't', partitionResponses: [{ logStartOffset: 9 }] }] })
})

test('counts and lengths that lie are refused before memory is taken', () => {
  const metadata = requestCodec('Metadata', 4)
  const refuse = (codec: { decode(reader: ByteReader): unknown }, hex: string) =>
    assert.throws(() => codec.decode(new ByteReader(Buffer.from(hex, 'hex'))), { code: 'BAD_FRAME' })
  refuse(metadata, '7fffffff')
  refuse(metadata, 'fffffffe')
  refuse(metadata, '00000001' + '7fff')
  refuse(metadata, '00000001' + 'ffff')
  const flexible = requestCodec('Metadata', 9)
  refuse(flexible, 'ffffffff0f')
  refuse(flexible, 'ffffffffff7f')
  // A tag section whose field says another size than it has, and one where a tag comes twice.
  refuse(requestCodec('Fetch', 12), `${'00'.repeat(25)}01010101${'0003'}026100`)
  refuse(flexible, '00' + '000000' + '02' + '0500' + '0500')
})

test('headers follow the version, and ApiVersions answers without tags', () => {
  const header = { apiKey: 1, apiVersion: 12, correlationId: 7, clientId: 'me' }
  const bytes = encode((writer) => writeRequestHeader(writer, header))
  assert.equal(bytes.toString('hex'), '0001000c000000070002' + '6d65' + '00')
  assert.deepEqual(readRequestHeader(new ByteReader(bytes)), header)
  assert.equal(
    encode((writer) => writeRequestHeader(writer, { ...header, apiVersion: 11, clientId: null })).toString('hex'),
    '0001000b00000007ffff',
  )
  assert.equal(encode((writer) => writeResponseHeader(writer, 18, 4, 9)).toString('hex'), '00000009')
  assert.equal(encode((writer) => writeResponseHeader(writer, 1, 12, 9)).toString('hex'), '0000000900')
  assert.equal(readResponseHeader(new ByteReader(Buffer.from('0000000900', 'hex')), 1, 12), 9)
  // An unknown version of ApiVersions: the client id is read, the rest is left alone.
  const future = new ByteReader(Buffer.from('001200630000000100016100ffff', 'hex'))
  assert.equal(readRequestHeader(future).clientId, 'a')
})
