/**
 * DescribeLogDirs (KIP-113, KIP-827): the folder of the logs, how much its volume has and how much each partition takes. Null topics = all;
 * of those named, what is not here is left out.
 */
import { inTurns } from '../../core/in-turns.ts'
import type { DescribeLogDirsRequest, DescribeLogDirsResponse } from '../../schema/types.generated.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

/** Kafka's "not known", for a volume without a limit, too. */
const UNKNOWN_BYTES = -1

export const describeLogDirs = api<DescribeLogDirsRequest, DescribeLogDirsResponse>({
  key: 35,
  name: 'DescribeLogDirs',
  versions: [1, 5],
  omissions: ['Topics with moonmq.storage=memory are in no folder, so they are left out.'],
  async handle(call, request) {
    const { path, freeBytes, totalBytes } = await call.broker.admin.describeFolder(call.context)
    const topics = await inTurns(call.clock, await wanted(call, request), ({ name, partitions }) => sizesOf(call, name, partitions))
    const folder = {
      errorCode: 0,
      logDir: path,
      topics: topics.filter(({ partitions }) => partitions.length > 0),
      totalBytes: told(totalBytes),
      usableBytes: told(freeBytes),
      isCordoned: false,
    }
    return { throttleTimeMs: 0, errorCode: 0, results: [folder] }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error), results: [] }),
})

interface Wanted {
  readonly name: string
  /** Null = all. */
  readonly partitions: ReadonlySet<number> | null
}

/** Each topic once, however often it is named. */
async function wanted(call: KafkaCall, { topics }: DescribeLogDirsRequest): Promise<readonly Wanted[]> {
  if (topics === null) return call.broker.topics.list().map(({ name }) => ({ name, partitions: null }))
  const byName = new Map<string, Set<number>>()
  await inTurns(call.clock, topics, ({ topic, partitions }) => {
    const named = byName.get(topic) ?? new Set()
    byName.set(topic, named)
    for (const partition of partitions) named.add(partition)
  })
  return [...byName].map(([name, partitions]) => ({ name, partitions }))
}

function sizesOf(call: KafkaCall, name: string, wantedPartitions: ReadonlySet<number> | null) {
  const sizes = call.broker.admin.sizes(call.context, name)
  const partitions = sizes.filter(({ partition }) => wantedPartitions === null || wantedPartitions.has(partition))
  return {
    name,
    partitions: partitions.map(({ partition, sizeBytes }) => ({
      partitionIndex: partition,
      partitionSize: sizeBytes,
      offsetLag: 0,
      isFutureKey: false,
    })),
  }
}

function told(bytes: number): number {
  return Number.isSafeInteger(bytes) ? bytes : UNKNOWN_BYTES
}
