import type { ApiName } from '../../src/schema/messages.ts'
import { batchOf } from './fake-broker.ts'
import { requestFrame } from './kafka-frames.ts'

/** Requests with something in them: what an answer has to say differs by version, and each must be sayable. */
export const SAMPLES: Readonly<Record<string, (version: number, topicId: string) => object>> = {
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
  AlterReplicaLogDirs: () => ({
    dirs: [
      { path: '/data', topics: [{ name: 't', partitions: [0, 7] }] },
      { path: '/x', topics: [{ name: 't', partitions: [1] }] },
    ],
  }),
  DescribeLogDirs: () => ({ topics: null }),
  ElectLeaders: (version) => ({ ...(version < 1 ? {} : { electionType: 0 }), topicPartitions: [{ topic: 't', partitions: [0, 7] }] }),
  AlterPartitionReassignments: () => ({
    topics: [
      {
        name: 't',
        partitions: [
          { partitionIndex: 0, replicas: [0] },
          { partitionIndex: 1, replicas: null },
        ],
      },
    ],
  }),
  DescribeQuorum: () => ({ topics: [{ topicName: '__cluster_metadata', partitions: [{ partitionIndex: 0 }] }] }),
  UpdateFeatures: (version) => ({
    featureUpdates: [{ feature: 'group.version', maxVersionLevel: 0, ...(version < 1 ? { allowDowngrade: true } : { upgradeType: 2 }) }],
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

/** A frame of every API that has a sample, at each of these versions: real bytes for mutation. */
export function sampleFrames(apis: readonly { name: string; versions: readonly [number, number] }[], topicId: string): Buffer[] {
  const found: Buffer[] = []
  for (const { name, versions } of apis) {
    for (let version = versions[0]; version <= versions[1]; version++) {
      const sample = SAMPLES[name]?.(version, topicId) ?? {}
      found.push(requestFrame(name as ApiName, version, sample as never))
    }
  }
  return found
}
