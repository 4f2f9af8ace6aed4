import { AssignerProtocol, Kafka, logLevel, type PartitionAssigner } from 'kafkajs'

/** A kafkajs client that keeps trying while the broker is away and says nothing of it. */
export function kafkaClient(address: string, clientId: string): Kafka {
  return new Kafka({
    clientId,
    brokers: [address],
    logLevel: logLevel.NOTHING,
    connectionTimeout: 5000,
    requestTimeout: 10_000,
    retry: { initialRetryTime: 30, maxRetryTime: 300, retries: 200 },
  })
}

/**
 * Round robin under the name and with the bytes of Kafka's own assignor, so that librdkafka and kafkajs can be in one group:
 * all partitions of all topics in order, dealt to the members in order of their ids.
 */
export const roundRobin: PartitionAssigner = ({ cluster }) => ({
  name: 'roundrobin',
  version: 0,
  async assign({ members, topics }) {
    const ids = members.map((member) => member.memberId).sort()
    const given = new Map(ids.map((id) => [id, {} as Record<string, number[]>]))
    let next = 0
    for (const topic of [...topics].sort()) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map((metadata) => metadata.partitionId)
      for (const partition of partitions.sort((a, b) => a - b)) {
        const mine = given.get(ids[next++ % ids.length] as string) as Record<string, number[]>
        mine[topic] = [...(mine[topic] ?? []), partition]
      }
    }
    return ids.map((memberId) => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({
        version: 0,
        assignment: given.get(memberId) ?? {},
        userData: Buffer.alloc(0),
      }),
    }))
  },
  protocol: ({ topics }) => ({
    name: 'roundrobin',
    metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics: [...topics], userData: Buffer.alloc(0) }),
  }),
})
