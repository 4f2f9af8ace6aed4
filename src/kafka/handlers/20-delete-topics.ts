/**
 * DeleteTopics, by name or, from version 6, by id (KIP-516). Answered when the deletion is in the metadata log; the data goes in the
 * background, and a topic of the same name that is made afterwards has another id and none of it.
 */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { ZERO_UUID } from '../../core/uuid.ts'
import type { DeleteTopicsRequest, DeleteTopicsResponse } from '../../schema/types.generated.ts'
import { errorFields, outcome, repeats, withinTimeout } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type Asked = DeleteTopicsRequest['topics'][number]

const STATES_SINCE = 6

export const deleteTopics = api<DeleteTopicsRequest, DeleteTopicsResponse>({
  key: 20,
  name: 'DeleteTopics',
  versions: [1, 6],
  omissions: [],
  async handle(call, request) {
    const all = askedTopics(call.version, request)
    const repeated = repeats(all.map(keyOf))
    const once = [...new Map(all.map((asked) => [keyOf(asked), asked])).values()]
    const answer = async (asked: Asked) => {
      const result = await outcome(() => {
        if (repeated.has(keyOf(asked))) throw new MoonMQError('INVALID_REQUEST', { reason: 'a topic is named more than once' })
        return withinTimeout(call, request.timeoutMs, () => remove(call, asked))
      })
      const failure = result instanceof MoonMQError ? result : null
      const { name, id } = result instanceof MoonMQError ? { name: asked.name, id: asked.topicId } : result
      return { name, topicId: id, ...errorFields(failure) }
    }
    return { throttleTimeMs: 0, responses: await inTurns(call.clock, once, answer, 1) }
  },
  refuse: (error, request, call) => ({
    throttleTimeMs: 0,
    responses: askedTopics(call.version, request).map(({ name, topicId }) => ({ name, topicId, ...errorFields(error) })),
  }),
})

function keyOf({ name, topicId }: Asked): string {
  return `${topicId} ${name ?? ''}`
}

function askedTopics(version: number, request: DeleteTopicsRequest): readonly Asked[] {
  return version >= STATES_SINCE ? request.topics : request.topicNames.map((name) => ({ name, topicId: ZERO_UUID }))
}

async function remove(call: KafkaCall, asked: Asked): Promise<{ name: string; id: string }> {
  const { topics } = call.broker
  const byId = asked.topicId !== ZERO_UUID
  if (byId === (asked.name !== null)) throw new MoonMQError('INVALID_REQUEST', { reason: 'a topic is named either by name or by id' })
  const name = byId ? topics.findById(asked.topicId)?.name : asked.name
  if (name === undefined || name === null) throw new MoonMQError('TOPIC_ID_UNKNOWN', { id: asked.topicId })
  return await topics.delete(call.context, name)
}
