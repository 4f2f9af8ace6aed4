import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { ByteReader } from '../../../src/core/reader.ts'
import { ByteWriter } from '../../../src/core/writer.ts'
import { Dispatch } from '../../../src/kafka/dispatch.ts'
import type { KafkaCall } from '../../../src/kafka/handler.ts'
import { KAFKA_APIS } from '../../../src/kafka/handlers/index.ts'
import { type ApiName, apiInfo, hasFlexibleHeader, requestCodec } from '../../../src/schema/messages.ts'
import { batchOf, contextOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { testDoor } from '../../support/kafka-door.ts'
import { frames, readResponse } from '../../support/kafka-frames.ts'

/** Requests with something in them: what an answer has to say differs by version, and each must be sayable. */
const SAMPLES: Readonly<Record<string, (version: number, topicId: string) => object>> = {
  Produce: (version, topicId) => ({
    acks: -1,
    timeoutMs: 1000,
    topicData: [
      {
        ...(version < 13 ? { name: 't' } : { topicId }),
        partitionData: [
          { index: 0, records: batchOf(1) },
          { index: 1, records: null },
        ],
      },
    ],
  }),
  Fetch: (version, topicId) => ({
    isolationLevel: 1,
    maxBytes: 1000,
    topics: [
      {
        ...(version < 13 ? { topic: 't' } : { topicId }),
        partitions: [
          { partition: 0, fetchOffset: 0, partitionMaxBytes: 1000, ...(version < 12 ? {} : { lastFetchedEpoch: 0 }) },
          { partition: 1, fetchOffset: 0, partitionMaxBytes: 1000 },
        ],
      },
    ],
  }),
  ListOffsets: () => ({ topics: [{ name: 't', partitions: [-1, 5].map((timestamp, partitionIndex) => ({ partitionIndex, timestamp })) }] }),
  Metadata: () => ({ topics: [{ name: 't' }, { name: 'a/b' }] }),
  ApiVersions: (version) => (version < 3 ? {} : { clientSoftwareName: 'a', clientSoftwareVersion: '1' }),
  CreateTopics: () => ({
    topics: [
      { name: 'made', numPartitions: 2, replicationFactor: 1 },
      { name: 't', numPartitions: 1, replicationFactor: 1 },
    ],
  }),
  DeleteTopics: (version, topicId) => (version < 6 ? { topicNames: ['t', 'x'] } : { topics: [{ topicId, name: null }, { name: 'x' }] }),
  OffsetForLeaderEpoch: () => ({ topics: [{ topic: 't', partitions: [0, 7].map((partition) => ({ partition, leaderEpoch: 0 })) }] }),
  DescribeConfigs: () => ({
    includeSynonyms: true,
    resources: [
      { resourceType: 2, resourceName: 't', configurationKeys: null },
      { resourceType: 4, resourceName: '0', configurationKeys: null },
      { resourceType: 4, resourceName: '5', configurationKeys: null },
      { resourceType: 8, resourceName: '0', configurationKeys: null },
    ],
  }),
  CreatePartitions: () => ({
    topics: [
      { name: 't', count: 3, assignments: null },
      { name: 'x', count: 1, assignments: [{ brokerIds: [0] }] },
    ],
  }),
  DescribeCluster: (version) => ({ includeClusterAuthorizedOperations: true, ...(version < 1 ? {} : { endpointType: 2 }) }),
  DescribeTopicPartitions: () => ({ topics: [{ name: 't' }, { name: 'x' }], responsePartitionLimit: 10, cursor: null }),
  InitProducerId: () => ({ transactionalId: null, transactionTimeoutMs: 1000 }),
}

function call(version: number): KafkaCall {
  return {
    version,
    context: contextOf(),
    broker: { cluster: { clusterId: 'c', nodeId: 0 } } as KafkaCall['broker'],
    advertised: { host: 'h', port: 1 },
    clock: new SystemClock(),
    log: SILENT,
    offer: [],
    afterSent() {},
  }
}

const dispatch = new Dispatch(KAFKA_APIS)

describe('kafka handlers at every version', () => {
  for (const { key, name: apiName, versions, refuse } of KAFKA_APIS) {
    const name = apiName as ApiName
    it(`${name}: its key, name and versions are of the schema`, () => {
      const info = apiInfo(key)
      assert.equal(info?.name, name)
      assert.ok(info && versions[0] >= info.versions[0] && versions[1] <= info.versions[1])
      assert.ok(!info.latestVersionUnstable || versions[1] < info.versions[1], 'an unstable version is not offered')
    })

    for (let version = versions[0]; version <= versions[1]; version++) {
      it(`${name} ${version}: a refusal as a whole can be said`, () => {
        const sample = (SAMPLES[name]?.(version, 'AAAAAAAAAAAAAAAAAAAAAQ') ?? {}) as never
        const writer = new ByteWriter()
        requestCodec(name, version).encode(writer, sample)
        const request = requestCodec(name, version).decode(new ByteReader(writer.toBuffer()))
        const response = refuse(new MoonMQError('INTERNAL', { reason: 'a test' }), request, call(version))
        assert.ok(response !== null)
        const route = dispatch.decode(frameOf(key, version, name, sample)).route
        assert.ok(route !== null)
        const [frame] = frames(Buffer.concat(dispatch.encode(route, 7, response)))
        assert.ok(frame)
        assert.equal(readResponse(name, version, frame).correlationId, 7)
      })

      if (SAMPLES[name] === undefined) continue
      it(`${name} ${version}: is answered`, async () => {
        const { broker, connect } = await testDoor()
        const topic = await createTopic(broker, 't')
        await produceOne(broker, 't', 0, batchOf(1))
        const client = connect()
        await client.call(name, version, SAMPLES[name]?.(version, topic.id) as never)
        assert.equal(client.socket.closed, false)
      })
    }
  }
})

function frameOf(key: number, version: number, name: ApiName, body: never): Buffer {
  const writer = new ByteWriter()
  writer.int16(key)
  writer.int16(version)
  writer.int32(7)
  writer.int16(-1)
  if (hasFlexibleHeader(key, version, 'request')) writer.uvarint(0)
  requestCodec(name, version).encode(writer, body)
  return writer.toBuffer()
}
