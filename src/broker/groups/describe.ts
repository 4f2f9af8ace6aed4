import type { MoonMQError } from '../../core/errors.ts'
import type { GroupDescription, GroupListing } from '../ports.ts'
import type { ClassicGroup } from './classic-group.ts'

const NOTHING = Buffer.alloc(0)

/** Protocol, subscriptions and assignments are told of a stable group only: in any other state they are not one generation's. */
export function describeGroup(group: ClassicGroup): GroupDescription {
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
  return { error, group, state: error.code === 'GROUP_MISSING' ? 'Dead' : '', protocolType: '', protocol: '', members: [] }
}

export function listGroup(group: ClassicGroup): GroupListing {
  return { group: group.group, protocolType: group.protocolType, state: group.state, kind: 'classic' }
}
