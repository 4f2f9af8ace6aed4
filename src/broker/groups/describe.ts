import { MoonMQError } from '../../core/errors.ts'
import type { GroupDescription, GroupListing } from '../ports.ts'
import { ClassicGroup } from './classic-group.ts'
import type { GroupMachine } from './machine.ts'

const NOTHING = Buffer.alloc(0)

/** Protocol, subscriptions and assignments are told of a stable group only: in any other state they are not one generation's. */
export function describeGroup(group: GroupMachine): GroupDescription {
  if (!(group instanceof ClassicGroup))
    return describeMissing(group.group, new MoonMQError('GROUP_KIND', { group: group.group, kind: 'classic' }))
  const stable = group.state === 'Stable'
  return {
    error: null,
    group: group.group,
    state: group.state,
    protocolType: group.protocolType,
    protocol: stable ? (group.protocol ?? '') : '',
    members: [...group.members()].map((member) => ({
      memberId: member.memberId,
      instanceId: member.instanceId,
      clientId: member.clientId,
      clientHost: member.clientHost,
      metadata: stable ? member.metadata(group.protocol) : NOTHING,
      assignment: stable ? member.assignment : NOTHING,
    })),
  }
}

export function describeMissing(group: string, error: MoonMQError): GroupDescription {
  return {
    error,
    group,
    state: error.code === 'GROUP_MISSING' || error.code === 'GROUP_KIND' ? 'Dead' : '',
    protocolType: '',
    protocol: '',
    members: [],
  }
}

export function listGroup({ group, protocolType, state, kind }: GroupMachine): GroupListing {
  return { group, protocolType, state, kind }
}
