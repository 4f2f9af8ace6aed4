import type { Clock } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Random } from '../../core/random.ts'
import { newUuid, type Uuid } from '../../core/uuid.ts'
import type { MetadataImage } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import { featureLevel } from '../features.ts'
import type { ConsumerAssignment, ConsumerGroupDescription, ConsumerHeartbeat, ConsumerHeartbeatAnswer } from '../ports.ts'
import { ClassicGroup } from './classic-group.ts'
import { listed } from './consumer/assignment.ts'
import { ConsumerGroup } from './consumer/consumer-group.ts'
import type { ConsumerMember } from './consumer/consumer-member.ts'
import { type ConsumerDeps, type ConsumerOptions, JOIN_EPOCH, STATIC_LEAVE_EPOCH } from './consumer/consumer-types.ts'
import { upgraded } from './consumer/upgrade.ts'
import type { GroupTable } from './group-table.ts'
import type { GroupMachine } from './machine.ts'

interface ServiceDeps extends ConsumerDeps {
  readonly clock: Clock
  readonly random: Random
  readonly table: GroupTable
}

/** The requests of members of the consumer protocol: what is refused before the machine is asked, and how groups are shown. */
export class ConsumerService {
  readonly #deps: ServiceDeps
  readonly #options: ConsumerOptions

  constructor(deps: ServiceDeps, options: ConsumerOptions) {
    this.#deps = deps
    this.#options = options
  }

  async heartbeat(context: RequestContext, request: ConsumerHeartbeat): Promise<ConsumerHeartbeatAnswer> {
    if (featureLevel(this.#deps.image(), 'group.version') < 1) {
      throw new MoonMQError('UNSUPPORTED_VERSION', {
        version: 'any',
        api: 'ConsumerGroupHeartbeat',
        supported: 'none while group.version is 0',
      })
    }
    this.#check(request)
    const { patterns, random, table } = this.#deps
    if (request.subscribedRegex !== null && request.subscribedRegex !== '') await patterns.ready()
    const { group } = request
    const isJoin = request.memberEpoch === JOIN_EPOCH
    const memberId = isJoin && request.memberId === '' ? newUuid(random) : request.memberId
    const { clientId, clientHost } = context
    const make = () => new ConsumerGroup(group, this.#deps, this.#options)
    return await table.ask(
      {
        group,
        kind: 'consumer',
        ...(isJoin ? { make, convert: (former: GroupMachine, nowMs: number) => this.#upgraded(former, nowMs) } : {}),
      },
      (machine, nowMs) => machine.heartbeat({ ...request, memberId, clientId, clientHost }, nowMs),
    )
  }

  #upgraded(former: GroupMachine, nowMs: number): ConsumerGroup | null {
    return former instanceof ClassicGroup ? upgraded(former, this.#deps, this.#options, nowMs) : null
  }

  /** Kafka's checks, in Kafka's order. */
  #check(request: ConsumerHeartbeat): void {
    const bad = (reason: string) => new MoonMQError('INVALID_REQUEST', { reason })
    const { memberEpoch, instanceId, rackId, assignor } = request
    if (request.memberId === '' && (request.idIsClients || memberEpoch !== JOIN_EPOCH)) throw bad("MemberId can't be empty.")
    if (request.group.trim() === '') throw bad("GroupId can't be empty.")
    if (instanceId?.trim() === '') throw bad("InstanceId can't be empty.")
    if (rackId?.trim() === '') throw bad("RackId can't be empty.")
    if (memberEpoch === JOIN_EPOCH) {
      if (request.rebalanceTimeoutMs === null) throw bad('RebalanceTimeoutMs must be provided in first request.')
      if (request.owned === null || request.owned.length > 0) throw bad('TopicPartitions must be empty when (re-)joining.')
      if (request.subscribedTopics === null && request.subscribedRegex === null) {
        throw bad('Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.')
      }
    } else if (memberEpoch === STATIC_LEAVE_EPOCH) {
      if (instanceId === null) throw bad("InstanceId can't be null.")
    } else if (memberEpoch < STATIC_LEAVE_EPOCH) throw bad('MemberEpoch is invalid.')
    const { assignors } = this.#options
    if (assignor !== null && !assignors.includes(assignor)) {
      throw new MoonMQError('UNSUPPORTED_ASSIGNOR', { assignor, supported: assignors.join(', ') })
    }
  }

  async describe(_context: RequestContext, groups: readonly string[]): Promise<readonly ConsumerGroupDescription[]> {
    return await inTurns(this.#deps.clock, groups, (group) => {
      try {
        if (group === '') throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is empty' })
        const machine = this.#deps.table.find(group)?.entry.machine
        if (machine === undefined) throw new MoonMQError('GROUP_MISSING', { group })
        if (!(machine instanceof ConsumerGroup)) throw new MoonMQError('GROUP_KIND', { group, kind: 'consumer' })
        return describeConsumer(machine, this.#deps.image())
      } catch (error) {
        return { error: asMoonMQError(error), group, state: '', epoch: 0, assignmentEpoch: 0, assignor: '', members: [] }
      }
    })
  }
}

function describeConsumer({ group, core }: ConsumerGroup, image: MetadataImage): ConsumerGroupDescription {
  const { state, epoch, assignmentEpoch, members } = core
  const described = (member: ConsumerMember) => ({
    memberId: member.memberId,
    instanceId: member.instanceId,
    rackId: member.rackId,
    epoch: member.epoch,
    clientId: member.clientId,
    clientHost: member.clientHost,
    subscribedTopics: member.subscribedTopics,
    subscribedRegex: member.subscribedRegex,
    assigned: named(heldBy(member), image),
    target: named(members.target(member.memberId), image),
    isClassic: member.classic !== null,
  })
  return { error: null, group, state, epoch, assignmentEpoch, assignor: core.elected(), members: [...members.all()].map(described) }
}

/** What a member may still read from: also what it was told to let go of. */
function heldBy({ assigned, revoking }: ConsumerMember): ReadonlyMap<Uuid, ReadonlySet<number>> {
  const held = new Map([...assigned].map(([topic, partitions]) => [topic, new Set(partitions.keys())]))
  for (const [topic, partitions] of revoking) held.set(topic, new Set([...(held.get(topic) ?? []), ...partitions.keys()]))
  return held
}

/** Topics that are gone are left out: nobody can say what they were called. */
function named(partitions: Parameters<typeof listed>[0], image: MetadataImage): ConsumerAssignment {
  const nameOf = (id: Uuid) => image.topicsById.get(id)?.name
  return listed(partitions).flatMap(({ topicId, partitions: numbers }) => {
    const topic = nameOf(topicId)
    return topic === undefined ? [] : [{ topicId, topic, partitions: numbers }]
  })
}
