import type { ShareAcks } from '../broker/ports.ts'

/** What ShareFetch and ShareAcknowledge have in common. */

type AckType = ShareAcks['batches'][number]['types'][number]

/** By Kafka's numbers; 4 from version 2 on. */
const TYPES: readonly AckType[] = ['gap', 'accept', 'release', 'reject', 'renew']
const RENEW = 4
const RENEW_SINCE = 2

interface AskedTopic {
  readonly topicId: string
  readonly partitions: readonly {
    readonly partitionIndex: number
    readonly acknowledgementBatches: readonly {
      readonly firstOffset: number
      readonly lastOffset: number
      readonly acknowledgeTypes: readonly number[]
    }[]
  }[]
}

/** The partitions of a request in its order. One with a type that the version does not know says so, and the others go on, as on Kafka. */
export function acksOf(topics: readonly AskedTopic[], version: number): ShareAcks[] {
  return topics.flatMap(({ topicId, partitions }) =>
    partitions.map(({ partitionIndex: partition, acknowledgementBatches }) => {
      const unknown = acknowledgementBatches.flatMap(({ acknowledgeTypes }) => acknowledgeTypes).find((type) => !isKnown(type, version))
      const batches = acknowledgementBatches.map(({ firstOffset: first, lastOffset: last, acknowledgeTypes }) => ({
        first,
        last,
        types: acknowledgeTypes.map((type) => TYPES[type] ?? 'gap'),
      }))
      if (unknown === undefined) return { topicId, partition, batches }
      return { topicId, partition, batches, unreadable: `acknowledgements of type ${unknown} are not known in version ${version}` }
    }),
  )
}

function isKnown(type: number, version: number): boolean {
  return TYPES[type] !== undefined && (type !== RENEW || version >= RENEW_SINCE)
}

/** Things of partitions by topic, in the order in which they come. */
export function byTopic<P extends { readonly topicId: string }, A>(
  partitions: readonly P[],
  answerOf: (partition: P, at: number) => A,
): { topicId: string; partitions: A[] }[] {
  const topics = new Map<string, A[]>()
  for (const [at, partition] of partitions.entries()) {
    const answers = topics.get(partition.topicId)
    if (answers === undefined) topics.set(partition.topicId, [answerOf(partition, at)])
    else answers.push(answerOf(partition, at))
  }
  return [...topics].map(([topicId, answers]) => ({ topicId, partitions: answers }))
}
