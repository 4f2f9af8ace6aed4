/**
 * DeleteTopics, by name or, from version 6, by id (KIP-516). Answered when the deletion is in the metadata log; the data goes in the
 * background, and a topic of the same name that is made afterwards has another id and none of it.
 */
import { withDeadline } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { ZERO_UUID } from '../../core/uuid.ts'
import type { DeleteTopicsRequest, DeleteTopicsResponse } from '../../schema/types.generated.ts'
import { errorFields, outcome } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type Asked = DeleteTopicsRequest['topics'][number]

const STATES_SINCE = 6

export const deleteTopics = api<DeleteTopicsRequest, DeleteTopicsResponse>({
  key: 20,
  name: 'DeleteTopics',
  versions: [1, 6],
  omissions: [],
  async handle(call, request) {
    const answer = async (asked: Asked) => {
      const result = await outcome(() => {
        const deleted = remove(call, asked)
        return request.timeoutMs > 0 ? withDeadline(call.clock, request.timeoutMs, deleted) : deleted
      })
      const failure = result instanceof MoonMQError ? result : null
      const { name, id } = result instanceof MoonMQError ? { name: asked.name, id: asked.topicId } : result
      return { name, topicId: id, ...errorFields(failure) }
    }
    return { throttleTimeMs: 0, responses: await inTurns(call.clock, askedTopics(call.version, request), answer, 1) }
  },
  refuse: (error, request, call) => ({
    throttleTimeMs: 0,
    responses: askedTopics(call.version, request).map(({ name, topicId }) => ({ name, topicId, ...errorFields(error) })),
  }),
})

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
