/**
 * AlterReplicaLogDirs (KIP-113): moves replicas between the folders of a broker. There is one folder, where everything is already: naming
 * it is done at once, any other one is not there.
 */
import { MoonMQError } from '../../core/errors.ts'
import type { AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

const LOG_DIR_NOT_FOUND = 57

export const alterReplicaLogDirs = api<AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse>({
  key: 34,
  name: 'AlterReplicaLogDirs',
  versions: [1, 2],
  omissions: ['There is one folder of logs: any other one is LOG_DIR_NOT_FOUND.'],
  handle: (call, request) => ({ throttleTimeMs: 0, results: results(request, (path, topic, index) => codeFor(call, path, topic, index)) }),
  refuse: (error, request) => ({ throttleTimeMs: 0, results: results(request, () => kafkaCode(error)) }),
})

function codeFor({ broker }: KafkaCall, path: string, topic: string, partition: number): number {
  if (path !== broker.admin.folder) return LOG_DIR_NOT_FOUND
  if (broker.topics.find(topic)?.partitions[partition] !== undefined) return 0
  return kafkaCode(new MoonMQError('PARTITION_MISSING', { topic, partition }))
}

/** By topic: one that stands under several folders is answered once. */
function results({ dirs }: AlterReplicaLogDirsRequest, codeOf: (path: string, topic: string, partition: number) => number) {
  const byTopic = new Map<string, Map<number, number>>()
  for (const { path, topics } of dirs) {
    for (const { name, partitions } of topics) {
      const codes = byTopic.get(name) ?? new Map<number, number>()
      byTopic.set(name, codes)
      for (const partition of partitions) codes.set(partition, codeOf(path, name, partition))
    }
  }
  return [...byTopic].map(([topicName, codes]) => ({
    topicName,
    partitions: [...codes].map(([partitionIndex, errorCode]) => ({ partitionIndex, errorCode })),
  }))
}
