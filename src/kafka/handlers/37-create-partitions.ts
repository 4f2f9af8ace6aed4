/** CreatePartitions: raises the number of partitions of topics (KIP-195). Keys may map to other partitions afterwards. */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { CreatePartitionsRequest, CreatePartitionsResponse } from '../../schema/types.generated.ts'
import { checkNewPartitions, errorFields, outcome, repeats, withinTimeout } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type Asked = CreatePartitionsRequest['topics'][number]

export const createPartitions = api<CreatePartitionsRequest, CreatePartitionsResponse>({
  key: 37,
  name: 'CreatePartitions',
  versions: [0, 3],
  omissions: [],
  async handle(call, request) {
    const { topics } = call.broker
    checkNewPartitions(
      request.topics.reduce((sum, { name, count }) => sum + Math.max(0, count - (topics.find(name)?.partitions.length ?? count)), 0),
    )
    const repeated = repeats(request.topics.map(({ name }) => name))
    const once = [...new Map(request.topics.map((asked) => [asked.name, asked])).values()]
    const answer = async (asked: Asked) => {
      const result = await outcome(async () => {
        if (repeated.has(asked.name)) throw new MoonMQError('INVALID_REQUEST', { reason: `topic "${asked.name}" is named more than once` })
        await withinTimeout(call, request.timeoutMs, () => grow(call, asked, request.validateOnly))
      })
      return { name: asked.name, ...errorFields(result ?? null) }
    }
    return { throttleTimeMs: 0, results: await inTurns(call.clock, once, answer, 1) }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    results: request.topics.map(({ name }) => ({ name, ...errorFields(error) })),
  }),
})

async function grow(call: KafkaCall, asked: Asked, validateOnly: boolean): Promise<void> {
  const { topics, cluster } = call.broker
  if (asked.assignments !== null) checkAssignments(asked, topics.get(asked.name).partitions.length, cluster.nodeId)
  await topics.createPartitions(call.context, asked.name, asked.count, { validateOnly })
}

/** With one broker there is one assignment that works; any other would promise what cannot be kept. */
function checkAssignments({ count, assignments }: Asked, before: number, nodeId: number): void {
  if (assignments === null) return
  if (assignments.length !== count - before) {
    const reason = `${count - before} new partitions, ${assignments.length} assignments`
    throw new MoonMQError('REPLICA_ASSIGNMENT_INVALID', { reason })
  }
  const wrong = assignments.find(({ brokerIds }) => brokerIds.length !== 1 || brokerIds[0] !== nodeId)
  if (wrong !== undefined) {
    throw new MoonMQError('REPLICA_ASSIGNMENT_INVALID', {
      reason: `replicas on ${wrong.brokerIds.join(', ')}; the only broker is ${nodeId}`,
    })
  }
}
