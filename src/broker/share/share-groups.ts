import type { Clock } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { type Uuid, ZERO_UUID } from '../../core/uuid.ts'
import type { Metadata } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import type { GroupTable } from '../groups/group-table.ts'
import type { GroupKindRules } from '../groups/machine.ts'
import { metadataHash } from '../groups/metadata-hash.ts'
import type {
  ShareAcknowledged,
  ShareAcknowledgeRequest,
  ShareFetched,
  ShareFetchRequest,
  ShareGroupDescription,
  ShareGroupHeartbeat,
  ShareGroupHeartbeatAnswer,
  SharePartitions,
  SharePort,
  SharePosition,
  SharePositions,
} from '../share-ports.ts'
import type { Partitions } from '../topics/partitions.ts'
import { ShareGroup, type ShareGroupOptions, type TopicsSeen } from './share-group.ts'
import { type KnownTopic, type StoredMember, storedShareGroup } from './share-group-records.ts'
import type { ShareService } from './share-service.ts'
import type { ShareSettings } from './share-settings.ts'
import type { ShareAssignment } from './simple-assignor.ts'

export interface ShareGroupDeps {
  readonly clock: Clock
  readonly table: GroupTable
  readonly metadata: Metadata
  readonly partitions: Partitions
  readonly service: ShareService
  readonly settings: ShareSettings
}

export interface ShareKindDeps {
  readonly metadata: Metadata
  readonly settings: ShareSettings
  /** `group.share.max.size`. */
  readonly maxMembers: number
}

const ASSIGNOR = 'simple'
const JOIN = 0
const LEAVE = -1
/** The limits of what a member may say. */
const MAX_TOPICS = 10_000
const UNKNOWN = -1

function topicsSeen(metadata: Metadata): TopicsSeen {
  return {
    version: () => metadata.image.topics,
    hash: (names) => metadataHash(new Set(names), metadata.image.topics),
    find(name) {
      const topic = metadata.image.topics.get(name)
      return topic === undefined ? undefined : { id: topic.id, partitions: topic.partitions.length }
    },
  }
}

/** How share groups are made, and made again from what is stored. */
export class ShareKind implements GroupKindRules {
  readonly kind = 'share'
  readonly mark = 'ShareGroupMetadataKey'
  readonly #deps: ShareKindDeps
  readonly #topics: TopicsSeen
  /** What else is kept of a group that is deleted; set when there is somebody to take it away. */
  cleared: (group: string) => Promise<void> = () => Promise.resolve()

  constructor(deps: ShareKindDeps) {
    this.#deps = deps
    this.#topics = topicsSeen(deps.metadata)
  }

  #options(group: string): ShareGroupOptions {
    const { settings, maxMembers } = this.#deps
    return {
      sessionTimeoutMs: () => settings.membership(group).sessionTimeoutMs,
      assignmentIntervalMs: () => settings.membership(group).assignmentIntervalMs,
      maxMembers,
    }
  }

  make(group: string): ShareGroup {
    return new ShareGroup(group, this.#topics, this.#options(group))
  }

  restore(group: string, records: Parameters<GroupKindRules['restore']>[1], nowMs: number): ReturnType<GroupKindRules['restore']> {
    const stored = storedShareGroup(records.map(({ record }) => record))
    const machine = ShareGroup.restore(group, stored, this.#topics, this.#options(group), nowMs)
    return { machine, stateChangedAtMs: Math.max(0, ...records.map(({ timestampMs }) => timestampMs)) }
  }
}

/** Share groups as the doors see them: their members, which the coordinator keeps, and their share partitions. */
export class ShareGroups implements SharePort {
  readonly #deps: ShareGroupDeps
  readonly #kind: ShareKind

  constructor(deps: ShareGroupDeps, kind: ShareKind) {
    this.#deps = deps
    this.#kind = kind
  }

  // ---- members --------------------------------------------------------------------------------------------------------------

  async heartbeat(context: RequestContext, request: ShareGroupHeartbeat): Promise<ShareGroupHeartbeatAnswer> {
    checkHeartbeat(request)
    const { group } = request
    const make = () => this.#kind.make(group)
    const ask = request.memberEpoch === JOIN ? { group, kind: 'share' as const, make } : { group, kind: 'share' as const }
    const { clientId, clientHost } = context
    const answer = await this.#deps.table.ask<ShareGroup, ReturnType<ShareGroup['heartbeat']>>(ask, (machine, nowMs) =>
      machine.heartbeat({ ...request, clientId, clientHost }, nowMs),
    )
    return {
      memberEpoch: answer.memberEpoch,
      heartbeatIntervalMs: this.#deps.settings.membership(group).heartbeatIntervalMs,
      assignment: answer.assignment === null ? null : partitionsOf(answer.assignment),
    }
  }

  async describe(_context: RequestContext, groups: readonly string[]): Promise<readonly ShareGroupDescription[]> {
    return await inTurns(this.#deps.clock, groups, (group) => {
      try {
        return this.#describe(group, this.#machine(group))
      } catch (error) {
        return missing(group, asMoonMQError(error))
      }
    })
  }

  #describe(group: string, machine: ShareGroup): ShareGroupDescription {
    return {
      error: null,
      group,
      state: machine.state,
      groupEpoch: machine.epoch,
      assignmentEpoch: machine.assignmentEpoch,
      assignor: ASSIGNOR,
      members: [...machine.members()].map((member) => this.#describeMember(member)),
    }
  }

  #describeMember(member: StoredMember): ShareGroupDescription['members'][number] {
    const { memberId, rackId, epoch, clientId, clientHost, topicNames } = member
    const assignment = partitionsOf(member.assigned).flatMap((one) => {
      const topic = this.#deps.metadata.image.topicsById.get(one.topicId)?.name
      return topic === undefined ? [] : [{ ...one, topic }]
    })
    return { memberId, rackId, memberEpoch: epoch, clientId, clientHost, topicNames, assignment }
  }

  /** Throws GROUP_MISSING unless there is such a share group. */
  #machine(group: string): ShareGroup {
    if (group === '') throw new MoonMQError('GROUP_ID_INVALID', { reason: 'it is empty' })
    const machine = this.#deps.table.find(group)?.entry.machine
    if (machine === undefined) throw new MoonMQError('GROUP_MISSING', { group })
    if (!(machine instanceof ShareGroup)) throw new MoonMQError('GROUP_KIND', { group, kind: 'share' })
    return machine
  }

  checkGroup(group: string): void {
    this.#machine(group)
  }

  // ---- records --------------------------------------------------------------------------------------------------------------

  fetch(context: RequestContext, request: ShareFetchRequest): Promise<ShareFetched> {
    return this.#deps.service.fetch(context, request)
  }

  acknowledge(context: RequestContext, request: ShareAcknowledgeRequest): Promise<ShareAcknowledged> {
    return this.#deps.service.acknowledge(context, request)
  }

  // ---- positions ------------------------------------------------------------------------------------------------------------

  async positions(
    _context: RequestContext,
    group: string,
    topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[] | null,
  ): Promise<readonly SharePositions[]> {
    // As on Kafka, positions that are asked for by name need no group: those of an unknown one are not known.
    if (this.#deps.table.find(group) !== undefined) this.#machine(group)
    const asked = topics ?? this.#known(this.#machine(group)).map(({ name, partitions }) => ({ topic: name, partitions }))
    return asked.map(({ topic, partitions }) => {
      const topicId = this.#deps.metadata.image.topics.get(topic)?.id
      return {
        topic,
        topicId: topicId ?? ZERO_UUID,
        partitions: partitions.map((partition) => this.#position(group, topic, topicId, partition)),
      }
    })
  }

  /** Topics in which the group has positions, but for those that are gone. */
  #known(machine: ShareGroup): KnownTopic[] {
    return [...machine.topics()].filter(({ id }) => this.#deps.metadata.image.topicsById.has(id))
  }

  #position(group: string, topic: string, topicId: Uuid | undefined, partition: number): SharePosition {
    try {
      if (topicId === undefined) throw new MoonMQError('TOPIC_MISSING', { topic })
      const { log } = this.#deps.partitions.partition(topic, partition)
      const machine = this.#deps.service.states.find({ group, topicId, partition })?.machine
      if (machine === undefined || machine.startOffset < 0) return { partition, error: null, startOffset: UNKNOWN, lag: UNKNOWN }
      const lag = log === undefined ? UNKNOWN : Math.max(0, log.highWatermark - machine.startOffset - machine.doneCount)
      return { partition, error: null, startOffset: machine.startOffset, lag }
    } catch (error) {
      return { partition, error: asMoonMQError(error), startOffset: UNKNOWN, lag: UNKNOWN }
    }
  }

  async alterPositions(
    _context: RequestContext,
    group: string,
    topics: readonly { readonly topic: string; readonly partitions: readonly { readonly partition: number; readonly offset: number }[] }[],
  ): Promise<readonly SharePositions[]> {
    if (this.#deps.table.find(group) !== undefined) this.#checkEmpty(group)
    const answers: SharePositions[] = []
    for (const { topic, partitions } of topics) {
      const topicId = this.#deps.metadata.image.topics.get(topic)?.id
      const outcomes: SharePosition[] = []
      for (const { partition, offset } of partitions) outcomes.push(await this.#alter(group, topic, topicId, partition, offset))
      answers.push({ topic, topicId: topicId ?? ZERO_UUID, partitions: outcomes })
      const count = this.#deps.metadata.image.topics.get(topic)?.partitions.length ?? 0
      if (topicId !== undefined && outcomes.some(({ error }) => error === null)) {
        const make = () => this.#kind.make(group)
        await this.#deps.table.ask<ShareGroup, void>({ group, kind: 'share', make }, (machine) => machine.addTopic(topicId, topic, count))
      }
    }
    return answers
  }

  async #alter(group: string, topic: string, topicId: Uuid | undefined, partition: number, offset: number): Promise<SharePosition> {
    try {
      if (topicId === undefined) throw new MoonMQError('TOPIC_MISSING', { topic })
      this.#deps.partitions.partition(topic, partition)
      if (!Number.isSafeInteger(offset) || offset < 0)
        throw new MoonMQError('INVALID_REQUEST', { reason: `${offset} is no offset to begin at` })
      await this.#deps.service.moveTo(group, topicId, partition, offset)
      return { partition, error: null, startOffset: offset, lag: UNKNOWN }
    } catch (error) {
      return { partition, error: asMoonMQError(error), startOffset: UNKNOWN, lag: UNKNOWN }
    }
  }

  async deletePositions(_context: RequestContext, group: string, topics: readonly string[]): Promise<readonly (MoonMQError | null)[]> {
    this.#checkEmpty(group)
    const { image } = this.#deps.metadata
    const outcomes = topics.map((topic) => (image.topics.has(topic) ? null : new MoonMQError('TOPIC_MISSING', { topic })))
    const ids = new Set(topics.flatMap((topic) => image.topics.get(topic)?.id ?? []))
    await this.#deps.service.removeStates(group, ids)
    await this.#deps.table.ask<ShareGroup, void>({ group, kind: 'share' }, (machine) => {
      for (const id of ids) machine.forgetTopic(id)
    })
    return outcomes
  }

  /** Positions are changed only while nobody reads: throws GROUP_NOT_EMPTY. */
  #checkEmpty(group: string): void {
    if (this.#machine(group).memberCount > 0) throw new MoonMQError('GROUP_NOT_EMPTY', { group })
  }
}

function partitionsOf(assignment: ShareAssignment): SharePartitions[] {
  return [...assignment].map(([topicId, partitions]) => ({ topicId, partitions }))
}

function missing(group: string, error: MoonMQError): ShareGroupDescription {
  const state = error.code === 'GROUP_MISSING' || error.code === 'GROUP_KIND' ? 'Dead' : ''
  return { error, group, state, groupEpoch: 0, assignmentEpoch: 0, assignor: '', members: [] }
}

/** Throws INVALID_REQUEST for what no member says. */
/** Kafka's rule for members of share groups. */
const MAX_MEMBER_ID_LETTERS = 36

function checkHeartbeat({ group, memberId, memberEpoch, rackId, topicNames }: ShareGroupHeartbeat): void {
  const refuse = (reason: string) => new MoonMQError('INVALID_REQUEST', { reason })
  if (group === '') throw refuse('the name of the group is empty')
  if (memberId.length > MAX_MEMBER_ID_LETTERS) throw refuse(`a member id has at most ${MAX_MEMBER_ID_LETTERS} letters, those of a UUID`)
  if (memberId.trim() === '') throw refuse('a member of a share group chooses its own id: it is empty')
  if (rackId !== null && rackId.trim() === '') throw refuse('the rack is empty')
  if (memberEpoch < LEAVE) throw refuse(`member epoch ${memberEpoch} is below ${LEAVE}`)
  if (memberEpoch === JOIN && (topicNames === null || topicNames.length === 0)) throw refuse('who joins names the topics that it reads')
  if ((topicNames?.length ?? 0) > MAX_TOPICS) throw refuse(`more than ${MAX_TOPICS} topics`)
}
