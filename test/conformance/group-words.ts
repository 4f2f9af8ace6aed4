import { assignedPartitionsOf } from '../../src/broker/groups/classic-subscription.ts'
import type { Responses } from '../../src/schema/types.generated.ts'
import type { RawKafka } from '../support/raw-kafka.ts'

/** What a broker appends to the name of a client to make a member id. */
const RANDOM_PART = /-(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Za-z_-]{22})$/

export interface Assigned {
  readonly topicId: string
  readonly partitions: readonly number[]
}

/** One client of the group, as it believes to be. */
export interface Slot {
  readonly name: string
  readonly socket: RawKafka
  speaks: 'classic' | 'consumer' | null
  memberId: string
  /** It has an id and has not joined with it: Kafka begins a rebalance when such a one leaves, and here nobody is disturbed. */
  isPending: boolean
  /** Generation or member epoch. */
  epoch: number
  instanceId: string | null
  protocol: string
  isLeader: boolean
  /** Of the leader: everybody's ids. */
  members: readonly string[]
  assigned: readonly Assigned[]
  joins: number
  request: 'join' | 'sync' | null
}

export function newSlot(name: string, socket: RawKafka): Slot {
  return {
    name,
    socket,
    speaks: null,
    memberId: '',
    isPending: false,
    epoch: -1,
    instanceId: null,
    protocol: '',
    isLeader: false,
    members: [],
    assigned: [],
    joins: 0,
    request: null,
  }
}

/** What of a group two brokers have in common, in words. */
export class GroupWords {
  readonly topicNames = new Map<string, string>()
  /** Names of the members whose ids a broker made up, by id: Kafka does not always begin them with the client's name. */
  readonly clientNames = new Map<string, string>()
  /** Of the group when it became a consumer group: where epochs begin is a broker's own business. */
  firstEpoch: number | null = null
  /** A consumer group without members was seen last. */
  isEmpty = false
  readonly #prefix: string
  readonly #isMixed: boolean

  constructor(prefix: string, isMixed: boolean) {
    this.#prefix = prefix
    this.#isMixed = isMixed
  }

  /** A member id without what the broker made up. */
  nameOf(memberId: string): string {
    if (memberId.startsWith(this.#prefix)) return memberId.slice(this.#prefix.length + 1)
    return this.clientNames.get(memberId) ?? memberId.replace(RANDOM_PART, '')
  }

  partitionsOf(assigned: readonly Assigned[]): string {
    const texts = assigned.map(({ topicId, partitions }) => `${this.topicNames.get(topicId)}:${[...partitions].sort().join('+')}`)
    return texts.sort().join(' ')
  }

  /** An epoch as the distance from the first one; what is no epoch of a member as it is. */
  epochOf(epoch: number): string {
    return this.firstEpoch === null || epoch <= 0 ? `${epoch}` : `+${epoch - this.firstEpoch}`
  }

  classicText(group: Responses['DescribeGroups']['groups'][number] | undefined): string {
    if (group === undefined || group.errorCode !== 0) return `classic ${group?.errorCode}`
    const members = group.members.map((each) => {
      const partitions = assignedPartitionsOf(each.memberAssignment) ?? []
      // What members had before is shown by Kafka until the leader has assigned again. A group that has just changed back to the classic protocol
      // shows what its members have; on Kafka what they were to have, which others may still hold.
      const isShown = group.groupState === 'Stable' || (group.groupState !== 'CompletingRebalance' && !this.#isMixed)
      const assigned = (isShown ? partitions : []).map(({ topic, partitions: numbers }) => `${topic}:${numbers.join('+')}`).join(' ')
      return `${this.nameOf(each.memberId)} ${each.groupInstanceId ?? ''} ${each.clientId} ${each.memberMetadata.length} [${assigned}]`
    })
    return `classic ${group.groupState} ${group.protocolType} ${group.protocolData} {${members.sort().join('; ')}}`
  }

  consumerText(group: Responses['ConsumerGroupDescribe']['groups'][number] | undefined): string {
    if (group === undefined || group.errorCode !== 0) return `consumer ${group?.errorCode}`
    this.isEmpty = group.groupState === 'Empty'
    const members = group.members.map((each) => {
      const { assignment, targetAssignment } = each
      // What a group that changed back and over again believes that members of the classic protocol have: see above.
      const has = this.#isMixed && each.memberType === 0 ? '' : `[${this.partitionsOf(assignment.topicPartitions)}] `
      const target = `to [${this.partitionsOf(targetAssignment.topicPartitions)}]`
      return `${this.nameOf(each.memberId)} ${each.instanceId ?? ''} type ${each.memberType} epoch ${this.epochOf(each.memberEpoch)} topics ${each.subscribedTopicNames.length} ${has}${target}`
    })
    const { groupState, groupEpoch, assignmentEpoch, assignorName } = group
    return `consumer ${groupState} epoch ${this.epochOf(groupEpoch)}/${this.epochOf(assignmentEpoch)} ${assignorName} {${members.sort().join('; ')}}`
  }
}
