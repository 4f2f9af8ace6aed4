import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { ByteReader } from '../../../src/core/reader.ts'
import { ByteWriter } from '../../../src/core/writer.ts'
import { readBatchHeader, verifyBatchCrc } from '../../../src/record/batch.ts'
import { buildBatch } from '../../../src/record/builder.ts'
import { readRecords, recordsSection, validateRecords } from '../../../src/record/record.ts'
import { readRequestHeader } from '../../../src/schema/headers.ts'
import { apiInfo, requestCodec, responseCodec } from '../../../src/schema/messages.ts'

/** Bytes as a client in the field writes and reads them: the encoders and decoders of kafkajs. */
const load = createRequire(import.meta.url)

interface ClientRequest {
  readonly apiKey: number
  readonly apiVersion: number
  encode(): Promise<{ readonly buffer: Buffer }>
}

type MakeRequest = (args: Record<string, unknown>) => ClientRequest
type FrameRequest = (args: { correlationId: number; clientId: string; request: ClientRequest }) => Promise<{ readonly buffer: Buffer }>
interface ClientResponse {
  decode(bytes: Buffer): Promise<Record<string, unknown>>
}

const MESSAGE = { key: 'k', value: 'v', timestamp: 1_700_000_000_000, headers: { h: 'x' } }

const REQUESTS: readonly (readonly [folder: string, args: Record<string, unknown>])[] = [
  ['apiVersions', {}],
  ['metadata', { topics: ['a', 'b'] }],
  [
    'produce',
    {
      acks: -1,
      timeout: 500,
      transactionalId: null,
      producerId: -1,
      producerEpoch: -1,
      compression: 0,
      topicData: [{ topic: 't', partitions: [{ partition: 0, firstSequence: 0, messages: [MESSAGE] }] }],
    },
  ],
  [
    'fetch',
    {
      replicaId: -1,
      maxWaitTime: 5,
      minBytes: 1,
      maxBytes: 99,
      isolationLevel: 1,
      topics: [{ topic: 't', partitions: [{ partition: 0, fetchOffset: 7, maxBytes: 9 }] }],
    },
  ],
  ['listOffsets', { replicaId: -1, isolationLevel: 0, topics: [{ topic: 't', partitions: [{ partition: 0, timestamp: -1 }] }] }],
  [
    'createTopics',
    {
      timeout: 5,
      validateOnly: false,
      topics: [{ topic: 't', numPartitions: 2, replicationFactor: 1, configEntries: [{ name: 'a', value: 'b' }] }],
    },
  ],
  ['deleteTopics', { topics: ['t'], timeout: 5 }],
  ['createPartitions', { timeout: 5, topicPartitions: [{ topic: 't', count: 3 }] }],
  ['describeConfigs', { includeSynonyms: true, resources: [{ type: 2, name: 't', configNames: ['a'] }] }],
  ['findCoordinator', { groupId: 'g', coordinatorKey: 'g', coordinatorType: 0 }],
  [
    'joinGroup',
    {
      groupId: 'g',
      sessionTimeout: 9,
      rebalanceTimeout: 8,
      memberId: '',
      protocolType: 'consumer',
      groupProtocols: [{ name: 'p', metadata: Buffer.from('m') }],
    },
  ],
  ['syncGroup', { groupId: 'g', generationId: 1, memberId: 'm', groupAssignment: [{ memberId: 'm', memberAssignment: Buffer.from('a') }] }],
  ['heartbeat', { groupId: 'g', groupGenerationId: 1, memberId: 'm' }],
  ['leaveGroup', { groupId: 'g', memberId: 'm', members: [{ memberId: 'm', groupInstanceId: null }] }],
  [
    'offsetCommit',
    {
      groupId: 'g',
      groupGenerationId: 1,
      memberId: 'm',
      topics: [{ topic: 't', partitions: [{ partition: 0, offset: '5', metadata: null }] }],
    },
  ],
  ['offsetFetch', { groupId: 'g', topics: [{ topic: 't', partitions: [{ partition: 0 }] }] }],
  ['describeGroups', { groupIds: ['g'] }],
  ['listGroups', {}],
  ['deleteGroups', ['g'] as unknown as Record<string, unknown>],
  ['initProducerId', { transactionalId: null, transactionTimeout: 30 }],
]

function protocol(folder: string): { request: MakeRequest; versions: number[] } {
  const { versions, protocol: of } = load(`kafkajs/src/protocol/requests/${folder}`) as {
    versions: string[]
    protocol: (args: { version: number }) => MakeRequest & ((args: Record<string, unknown>) => { request: ClientRequest })
  }
  const request: MakeRequest = (args) =>
    (of({ version: Number(args.version) })(args.args as Record<string, unknown>) as unknown as { request: ClientRequest }).request
  return { request, versions: versions.map(Number) }
}

test('requests of kafkajs are read to their last byte and written again the same', async () => {
  const frame = load('kafkajs/src/protocol/request') as FrameRequest
  let seen = 0
  for (const [folder, args] of REQUESTS) {
    const { request, versions } = protocol(folder)
    for (const version of versions) {
      const made = request({ version, args })
      const api = apiInfo(made.apiKey)
      assert.ok(api, folder)
      if (made.apiVersion < api.versions[0] || made.apiVersion > api.versions[1]) continue
      const { buffer } = await frame({ correlationId: 7, clientId: 'client', request: made })
      const reader = new ByteReader(buffer, 4)
      assert.deepEqual(readRequestHeader(reader), {
        apiKey: made.apiKey,
        apiVersion: made.apiVersion,
        correlationId: 7,
        clientId: 'client',
      })
      const start = reader.position
      const codec = requestCodec(api.name, made.apiVersion)
      const value = codec.decode(reader)
      reader.expectEnd(`${folder} ${version}`)
      const writer = new ByteWriter()
      codec.encode(writer, value as never)
      assert.deepEqual(writer.toBuffer(), buffer.subarray(start), `${folder} ${version}`)
      seen++
    }
  }
  assert.ok(seen > 40, `only ${seen} requests were compared`)
})

test('a batch that kafkajs makes is valid, and it reads ours', async () => {
  const { request } = protocol('produce')
  const made = request({ version: 7, args: REQUESTS[2]?.[1] as Record<string, unknown> })
  const { buffer } = await made.encode()
  const records = requestCodec('Produce', 7).decode(new ByteReader(buffer)).topicData[0]?.partitionData[0]?.records
  assert.ok(records)
  const header = readBatchHeader(records)
  verifyBatchCrc(records, 0, header)
  validateRecords(recordsSection(records, 0, header), header, { dense: true })
  const [record] = readRecords(recordsSection(records, 0, header), header)
  assert.deepEqual([record?.key?.toString(), record?.value?.toString(), record?.headers[0]?.key], ['k', 'v', 'h'])

  const batch = buildBatch(
    [
      { key: Buffer.from('k'), value: Buffer.from('v'), timestampMs: 1_700_000_000_000, headers: [{ key: 'h', value: Buffer.from('x') }] },
      { key: null, value: null, timestampMs: 1_700_000_000_009 },
    ],
    { baseOffset: 40 },
  )
  const writer = new ByteWriter()
  responseCodec('Fetch', 11).encode(writer, { responses: [{ topic: 't', partitions: [{ highWatermark: 42, records: batch }] }] })
  const { decode } = load('kafkajs/src/protocol/requests/fetch/v11/response') as ClientResponse
  const answer = (await decode(writer.toBuffer())) as {
    responses: { partitions: { messages: { offset: string; timestamp: string; key: Buffer | null; value: Buffer | null }[] }[] }[]
  }
  assert.deepEqual(
    answer.responses[0]?.partitions[0]?.messages.map(({ offset, timestamp, key, value }) => [
      offset,
      timestamp,
      key?.toString() ?? null,
      value?.toString() ?? null,
    ]),
    [
      ['40', '1700000000000', 'k', 'v'],
      ['41', '1700000000009', null, null],
    ],
  )
})
