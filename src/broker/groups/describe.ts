import { MoonMQError } from '../../core/errors.ts'
import type { MetadataImage } from '../../metadata/types.ts'
import type { OffsetEntry } from '../offsets/offset-store.ts'
import type { GroupDescription, GroupListing, InspectedGroup, InspectedMember } from '../ports.ts'
import { ClassicGroup } from './classic-group.ts'
import { encodeAssignment, encodeSubscription } from './classic-subscription.ts'
import type { GroupEntry } from './group-entry.ts'
import type { GroupMachine, MemberView } from './machine.ts'
import { NativeGroup } from './native/native-group.ts'

const NOTHING = Buffer.alloc(0)

/** Protocol and subscriptions are told of a stable group only: in any other state they are not one generation's. */
export function describeGroup(group: GroupMachine, image: MetadataImage): GroupDescription {
  if (group instanceof NativeGroup) return describeNative(group, image)
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
      assignment: member.assignment,
    })),
  }
}

/** As consumers of the classic protocol would be, so that every tool of Kafka's shows who reads what. */
function describeNative(group: NativeGroup, image: MetadataImage): GroupDescription {
  const members = [...group.views()].map((view) => {
    const { memberId, clientId, clientHost, topics, assignment } = inspected(view, image)
    const said = { metadata: encodeSubscription(topics), assignment: encodeAssignment(0, assignment) }
    return { memberId, instanceId: null, clientId, clientHost, ...said }
  })
  const { state, protocolType } = group
  return { error: null, group: group.group, state, protocolType, protocol: members.length === 0 ? '' : 'range', members }
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

export function listGroup({ group, protocolType, state, kind, memberCount }: GroupMachine): GroupListing {
  return { group, protocolType, state, kind, members: memberCount }
}

/** A group of any kind, with its offsets. */
export function inspectGroup({ machine, offsets }: GroupEntry, image: MetadataImage): InspectedGroup {
  const { group, kind, state, epoch } = machine
  const members = [...machine.views()]
    .map((view) => inspected(view, image))
    .sort((left, right) => (left.memberId < right.memberId ? -1 : 1))
  const places = offsets
    .entries()
    .sort(byPlace)
    .map(({ topic, partition, value }) => ({ topic, partition, offset: value.offset }))
  return { group, kind, state, epoch, members, offsets: places }
}

/** Topics that are gone are left out: nobody can say what they were called. */
function inspected({ assigned, ...view }: MemberView, image: MetadataImage): InspectedMember {
  const assignment = isByName(assigned)
    ? assigned.map(({ topic, partitions }) => ({ topic, partitions: [...partitions].sort(ascending) }))
    : [...assigned].flatMap(([topicId, partitions]) => {
        const topic = image.topicsById.get(topicId)?.name
        return topic === undefined ? [] : [{ topic, partitions: numbersOf(partitions).sort(ascending) }]
      })
  return { ...view, assignment: assignment.sort((left, right) => (left.topic < right.topic ? -1 : 1)) }
}

function isByName(assigned: MemberView['assigned']): assigned is Extract<MemberView['assigned'], readonly unknown[]> {
  return Array.isArray(assigned)
}

function numbersOf(partitions: Iterable<number> | ReadonlyMap<number, unknown>): number[] {
  return partitions instanceof Map ? [...partitions.keys()] : [...(partitions as Iterable<number>)]
}

function ascending(left: number, right: number): number {
  return left - right
}

function byPlace(left: OffsetEntry, right: OffsetEntry): number {
  if (left.topic !== right.topic) return left.topic < right.topic ? -1 : 1
  return left.partition - right.partition
}
