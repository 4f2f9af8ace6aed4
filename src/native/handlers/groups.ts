import type { GroupMembership } from '../../broker/ports.ts'
import { MoonMQError } from '../../core/errors.ts'
import { MAX_COUNT } from '../../wire/limits.ts'
import { type Answer, type Call, type Handler, ok, reply } from '../session.ts'
import { openTopic } from './topic-rules.ts'

/** Words of the protocol for the states that groups of any kind can be in. */
const STATES: Readonly<Record<string, string>> = {
  Empty: 'empty',
  PreparingRebalance: 'preparing_rebalance',
  Assigning: 'preparing_rebalance',
  CompletingRebalance: 'completing_rebalance',
  Reconciling: 'completing_rebalance',
  Stable: 'stable',
  Dead: 'dead',
}

/** JOIN_GROUP: the connection becomes a member, or says anew what it reads; the broker assigns at once and tells what it may read. */
export const joinGroup: Handler<'JOIN_GROUP'> = {
  op: 'JOIN_GROUP',
  async handle(call, { group, memberId, topics }) {
    const membership = await join(call, { group, memberId, topics, cooperative: null, onChange: NOTHING })
    return reply(call, 'GROUP_ASSIGNMENT', { memberId: membership.memberId, assignment: membership.tellAssignment() })
  },
}

/** A member of version 1 sees a change by joining again. */
const NOTHING = () => {}

export async function join(call: Call, request: Parameters<Call['broker']['groups']['joinMember']>[1]): Promise<GroupMembership> {
  const { session } = call
  const { group, topics } = request
  for (const topic of topics) openTopic(call, topic)
  if (session.consumer !== null && session.consumer.group !== group) {
    throw new MoonMQError('GROUP_CONFLICT', { reason: `this connection reads as group "${session.consumer.group}"` })
  }
  const onChange = () => {
    request.onChange()
    session.push?.wake()
  }
  session.membership = await call.broker.groups.joinMember(call.context, { ...request, onChange }, session.membership)
  // What is pushed is what it may read from now on.
  session.push?.wake()
  return session.membership
}

/** LEAVE_GROUP: from then on the connection reads all partitions again. The member id is not looked at (docs/PROTOCOL.md). */
export const leaveGroup: Handler<'LEAVE_GROUP'> = {
  op: 'LEAVE_GROUP',
  handle(call, { group, memberId }) {
    const membership = memberOf(call, group, memberId)
    call.session.membership = null
    membership.leave()
    call.session.push?.wake()
    return ok(call)
  },
}

/** GROUP_HEARTBEAT: the only thing besides joining that keeps a member in its group. The member id is not looked at. */
export const groupHeartbeat: Handler<'GROUP_HEARTBEAT'> = {
  op: 'GROUP_HEARTBEAT',
  handle(call, { group, memberId }) {
    memberOf(call, group, memberId).heartbeat()
    return ok(call)
  },
}

/** Throws GROUP_MEMBER_UNKNOWN unless the connection has joined this group. */
export function memberOf(call: Call, group: string, memberId = ''): GroupMembership {
  const { membership } = call.session
  if (membership === null || membership.group !== group) throw new MoonMQError('GROUP_MEMBER_UNKNOWN', { group, member: memberId })
  return membership
}

/** LIST_GROUPS: groups of every kind, those that only hold offsets included, by name. */
export const listGroups: Handler<'LIST_GROUPS'> = {
  op: 'LIST_GROUPS',
  async handle(call) {
    const groups = await sortedGroups(call)
    const listed = groups.slice(0, MAX_COUNT.groups).map(({ group, state, members }) => ({ group, state: stateWord(state), members }))
    return reply(call, 'GROUP_LIST', { groups: listed })
  },
}

export async function sortedGroups(call: Call) {
  const { groups, loading } = await call.broker.groups.list(call.context, { states: [], kinds: [] })
  // Half a list would look like a whole one.
  if (loading) throw new MoonMQError('COORDINATOR_LOADING', { group: 'some groups' })
  return [...groups].sort((left, right) => (left.group < right.group ? -1 : 1))
}

/** DESCRIBE_GROUP: state, members and offsets of a group of any kind, cut where a client could not read more. */
export const describeGroup: Handler<'DESCRIBE_GROUP'> = {
  op: 'DESCRIBE_GROUP',
  async handle(call, { group }): Promise<Answer> {
    const { state, members, offsets } = await call.broker.groups.inspect(call.context, group)
    return reply(call, 'GROUP_DESCRIPTION', {
      group,
      state: stateWord(state),
      members: members.slice(0, MAX_COUNT.members).map(({ memberId, assignment }) => ({
        memberId,
        assignment: assignment
          .slice(0, MAX_COUNT.memberTopics)
          .map(({ topic, partitions }) => ({ topic, partitions: partitions.slice(0, MAX_COUNT.partitions) })),
      })),
      offsets: offsets.slice(0, MAX_COUNT.groupOffsets),
    })
  },
}

/** DELETE_GROUP: its offsets go. Durable when it is answered. */
export const deleteGroup: Handler<'DELETE_GROUP'> = {
  op: 'DELETE_GROUP',
  async handle(call, { group }) {
    for (const error of await call.broker.groups.delete(call.context, [group])) if (error !== null) throw error
    return ok(call)
  },
}

export function stateWord(state: string): string {
  return STATES[state] ?? state.toLowerCase()
}
