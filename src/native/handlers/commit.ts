import { MoonMQError } from '../../core/errors.ts'
import { type Call, type Handler, ok } from '../session.ts'
import { openTopic } from './topic-rules.ts'

/** COMMIT: the next record to deliver to later connections of the group. Answered when it is synced; moves no position (docs/PROTOCOL.md). */
export const commit: Handler<'COMMIT'> = {
  op: 'COMMIT',
  async handle(call, { topic, partition, offset }) {
    const { consumer } = call.session
    if (consumer === null) throw new MoonMQError('BAD_PROTOCOL', { reason: 'COMMIT needs a FETCH or SUBSCRIBE on this connection first' })
    openTopic(call, topic)
    await storePositions(call, consumer.group, [{ topic, partition, offset: Number(offset) }])
    return ok(call)
  },
}

/** Stores positions for a group durably, as its member where the connection is one. Throws the first refusal; those before it are stored. */
export async function storePositions(
  call: Call,
  group: string,
  positions: readonly { topic: string; partition: number; offset: number }[],
): Promise<void> {
  const offsets = positions.map(({ topic, partition, offset }) => {
    const { logEndOffset, leaderEpoch } = call.broker.offsets.bounds(call.context, topic, partition)
    if (!Number.isSafeInteger(offset) || offset < 0 || offset > logEndOffset) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `offset ${offset} of ${topic}-${partition} is outside 0..${logEndOffset}` })
    }
    return { topic, partition, value: { offset, leaderEpoch, metadata: '' } }
  })
  const { membership } = call.session
  const member = membership?.group === group ? membership : null
  if (member?.hasLapsed === true) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: member.memberId })
  const claim = { generation: member?.joinEpoch ?? -1, memberId: member?.memberId ?? '', instanceId: null }
  const request = { group, ...claim, offsets, durable: true }
  for (const error of await call.broker.groups.commit(call.context, request)) if (error !== null) throw error
}
