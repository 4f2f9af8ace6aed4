import type { GroupMembership } from '../../broker/ports.ts'
import { isCode } from '../../core/errors.ts'
import { encodeFrame, ZERO_CORRELATION } from '../../wire/frame.ts'
import { AndThen, type Answer, type Call, type Handler, ok, reply } from '../session.ts'
import { page } from './admin.ts'
import { join, memberOf, sortedGroups, stateWord } from './groups.ts'

/** Heartbeats in the time after which a member lapses: two of them may be lost. */
const BEATS = 3

/**
 * MEMBER_JOIN (extension): as JOIN_GROUP, for a member that says itself when it has let go of a partition. It is told of changes by
 * GROUP_CHANGED, and what it may read by MEMBER_STATE.
 */
export const memberJoin: Handler<'MEMBER_JOIN'> = {
  op: 'MEMBER_JOIN',
  async handle(call, { group, memberId, topics, rebalanceTimeoutMs }) {
    const onChange = () => changed(call, group)
    return state(call, await join(call, { group, memberId, topics, cooperative: { rebalanceTimeoutMs }, onChange }))
  },
}

function changed({ session, push }: Call, group: string): void {
  const { membership } = session
  if (membership?.group !== group || membership.hasLapsed) return
  push(encodeFrame('GROUP_CHANGED', ZERO_CORRELATION, { group, epoch: membership.epoch() }))
}

/** MEMBER_SYNC (extension): what the member still holds; it is told what it may read. Counts as a heartbeat. */
export const memberSync: Handler<'MEMBER_SYNC'> = {
  op: 'MEMBER_SYNC',
  handle(call, { group, held }) {
    const membership = memberOf(call, group)
    membership.hold(held)
    // What it is told here is pushed from now on.
    return new AndThen(state(call, membership), () => call.session.push?.wake())
  },
}

function state(call: Call, membership: GroupMembership): Buffer {
  const { memberId, sessionTimeoutMs } = membership
  const heartbeatIntervalMs = Math.floor(sessionTimeoutMs / BEATS)
  const assignment = membership.tellAssignment()
  return reply(call, 'MEMBER_STATE', { memberId, epoch: membership.epoch(), sessionTimeoutMs, heartbeatIntervalMs, assignment })
}

/** GROUPS (extension): groups of every kind, by name. A long list comes in pages. */
export const groups: Handler<'GROUPS'> = {
  op: 'GROUPS',
  async handle(call, { after = '' }) {
    const found = (await sortedGroups(call)).filter(({ group }) => group > after)
    const { items, more } = page(found, ({ group, kind }) => GROUP_ROW_BYTES + 3 * (group.length + kind.length))
    return reply(call, 'GROUP_NAMES', { groups: items.map(({ state, ...each }) => ({ ...each, state: stateWord(state) })), more })
  },
}

/** Bytes of a row beside its texts, with the word of its state. */
const GROUP_ROW_BYTES = 48

/** GROUP (extension): members and offsets of a group of any kind, with where the partitions end. */
export const group: Handler<'GROUP'> = {
  op: 'GROUP',
  async handle(call, { group }): Promise<Answer> {
    const { kind, state, epoch, members, offsets } = await call.broker.groups.inspect(call.context, group)
    return reply(call, 'GROUP_DETAILS', {
      group,
      kind,
      state: stateWord(state),
      epoch,
      members: members.map((member) => ({ ...member, instanceId: member.instanceId ?? '' })),
      offsets: offsets.map((each) => ({ ...each, end: endOf(call, each.topic, each.partition) })),
    })
  },
}

/** −1 where the partition is gone or offline. */
function endOf(call: Call, topic: string, partition: number): number {
  try {
    return call.broker.offsets.bounds(call.context, topic, partition).highWatermark
  } catch (error) {
    if (isCode(error, 'INTERNAL')) throw error
    return -1
  }
}

/** DELETE_POSITIONS (extension): the group forgets these offsets. Throws the first refusal; the others are gone. */
export const deletePositions: Handler<'DELETE_POSITIONS'> = {
  op: 'DELETE_POSITIONS',
  async handle(call, { group, offsets }) {
    for (const error of await call.broker.groups.deleteOffsets(call.context, { group, offsets })) if (error !== null) throw error
    return ok(call)
  },
}
