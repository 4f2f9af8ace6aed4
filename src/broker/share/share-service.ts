import type { Clock, Timer } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import type { Resource } from '../../core/types.ts'
import type { Uuid } from '../../core/uuid.ts'
import type { Metadata, MetadataImage } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import type { CoordinatorTopic } from '../coordination/coordinator-log.ts'
import type { DeadLetters } from '../dlq/dead-letters.ts'
import type { RecordPort } from '../ports.ts'
import type {
  ShareAcknowledged,
  ShareAcknowledgeRequest,
  ShareAcks,
  SharedPartition,
  ShareFetched,
  ShareFetchRequest,
} from '../share-ports.ts'
import type { Partitions } from '../topics/partitions.ts'
import { checkAcks } from './check-acks.ts'
import { DeadMoves } from './dead-work.ts'
import type { ShareEntry } from './share-entry.ts'
import { ShareFetcher, sharedPartition } from './share-fetch.ts'
import { FINAL_EPOCH, INITIAL_EPOCH, partitionName, type SessionPartition, type ShareSession, ShareSessions } from './share-sessions.ts'
import type { ShareSettings } from './share-settings.ts'
import { ShareStates } from './share-states.ts'
import type { ShareRules } from './share-types.ts'

export interface ShareDeps {
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
  readonly metrics: Metrics
  readonly metadata: Metadata
  readonly partitions: Partitions
  readonly records: Pick<RecordPort, 'read'>
  readonly letters: DeadLetters
  readonly stateTopic: CoordinatorTopic
  readonly settings: ShareSettings
  /** Throws GROUP_MISSING unless there is such a share group. */
  readonly checkGroup: (group: string) => void
}

export interface ShareOptions {
  readonly updatesPerSnapshot: number
  readonly maxSessions: number
}

const NO_DELAYS: readonly number[] = []
const PRUNE_INTERVAL_MS = 300_000

/**
 * Share partitions at work: sessions of the connections, records given out and taken back, locks that end, dead letters. Everything that
 * an answer tells is durable before it is told; what a crash takes back is only who holds what.
 */
export class ShareService implements Resource {
  readonly states: ShareStates
  readonly #deps: ShareDeps
  readonly #sessions: ShareSessions
  readonly #fetcher: ShareFetcher
  readonly #moves: DeadMoves
  readonly #stops: (() => void)[]
  #pruneTimer: Timer | null = null
  #closed = false

  constructor(deps: ShareDeps, options: ShareOptions) {
    this.#deps = deps
    const { clock, random, metadata, partitions, metrics, letters, records, stateTopic } = deps
    const log = deps.log.child({ room: 'share' })
    const topicById = (id: Uuid) => metadata.image.topicsById.get(id)
    this.states = new ShareStates(
      { clock, random, log, topic: stateTopic },
      { updatesPerSnapshot: options.updatesPerSnapshot, onLoaded: (entry) => this.#loaded(entry) },
    )
    this.#sessions = new ShareSessions({ maxSessions: options.maxSessions }, (session) => this.#releaseAll(session))
    this.#moves = new DeadMoves({
      letters,
      records,
      topicById,
      clock,
      random,
      log,
      whenDurable: (entry) => this.states.whenDurable(entry),
      onMoved: (entry, range) => {
        entry.machine.archive(range)
        this.#settle(entry)
      },
    })
    this.#fetcher = new ShareFetcher({
      partitions,
      states: this.states,
      clock,
      topicName: (id) => topicById(id)?.name,
      rulesOf: (group, topic) => this.#rules(group, topic),
      settingsOf: (group) => deps.settings.of(group),
      settle: (entry) => this.#settle(entry),
      delivered: metrics.counter('moonmq_share_delivered_total'),
    })
    this.#stops = [
      metadata.subscribe((before, after) => this.#onMetadata(before, after)),
      metrics.observed('moonmq_share_sessions', () => this.#sessions.count),
      metrics.observed('moonmq_share_partitions', () => this.states.count),
    ]
  }

  /** Reads the state topic: after listening. Never rejects. */
  async startLoading(): Promise<void> {
    this.#armPrune()
    await this.states.startLoading()
  }

  #rules(group: string, topic: string | undefined): ShareRules {
    const settings = this.#deps.settings.of(group)
    const retryDelaysMs = (topic === undefined ? undefined : this.#deps.partitions.topic(topic)?.settings.retryDelaysMs) ?? NO_DELAYS
    return {
      ...settings,
      maxDeliveries: retryDelaysMs.length > 0 ? retryDelaysMs.length + 1 : settings.maxDeliveries,
      retryDelaysMs,
      keepsDeadLetters: topic !== undefined && this.#deps.letters.deathOf({ topic }, group) === 'kept',
    }
  }

  #rulesOf({ id }: ShareEntry): ShareRules {
    return this.#rules(id.group, this.#deps.metadata.image.topicsById.get(id.topicId)?.name)
  }

  // ---- requests -------------------------------------------------------------------------------------------------------------

  async fetch(context: RequestContext, request: ShareFetchRequest): Promise<ShareFetched> {
    const { group, memberId, sessionEpoch: epoch, partitions, forgotten } = request
    const acks = partitions.filter(({ batches }) => batches.length > 0)
    const { lockMs } = this.#deps.settings.of(group)
    if (epoch === FINAL_EPOCH) {
      const results = await this.#acknowledgeAndEnd(context, request, acks)
      return {
        lockMs,
        partitions: acks.map((asked, at) => ({ ...sharedPartition(asked, null), ackError: results[at] ?? null })),
        release() {},
      }
    }
    if (epoch === INITIAL_EPOCH && acks.length > 0) {
      throw new MoonMQError('INVALID_REQUEST', { reason: 'the first fetch of a share session acknowledges nothing' })
    }
    const session =
      epoch === INITIAL_EPOCH ? this.#sessions.open(group, memberId, context.signal) : this.#sessions.next(group, memberId, epoch)
    for (const asked of partitions) add(session, asked)
    for (const asked of forgotten) session.partitions.delete(partitionName(asked))
    const acknowledged = this.#acknowledgeEach(context, request, acks)
    const found = await this.#find(context, session, request)
    try {
      const results = new Map((await acknowledged).map((error, at) => [partitionName(acks[at] as ShareAcks), error]))
      return { lockMs, partitions: answers(session, request, found.partitions, results), release: () => found.release() }
    } catch (error) {
      found.release()
      throw error
    }
  }

  #find(context: RequestContext, session: ShareSession, request: ShareFetchRequest) {
    if (request.isRenewal) return { partitions: [], release() {} }
    try {
      this.#deps.checkGroup(session.group)
    } catch (error) {
      const refusal = asMoonMQError(error)
      return { partitions: [...session.partitions.values()].map((asked) => sharedPartition(asked, refusal)), release() {} }
    }
    return this.#fetcher.fetch(context, session, request)
  }

  async acknowledge(context: RequestContext, request: ShareAcknowledgeRequest): Promise<ShareAcknowledged> {
    const { group, memberId, sessionEpoch: epoch, partitions } = request
    const { lockMs } = this.#deps.settings.of(group)
    // Only a fetch begins a session.
    if (epoch === INITIAL_EPOCH)
      throw new MoonMQError('SHARE_SESSION_EPOCH_INVALID', { group, member: memberId, epoch, expected: 'a later one' })
    if (epoch === FINAL_EPOCH) return { lockMs, errors: await this.#acknowledgeAndEnd(context, request, partitions) }
    this.#sessions.next(group, memberId, epoch)
    return { lockMs, errors: await this.#acknowledgeEach(context, request, partitions) }
  }

  /** What the member has not spoken of is given back after what it has. */
  async #acknowledgeAndEnd(
    context: RequestContext,
    request: Pick<ShareAcknowledgeRequest, 'group' | 'memberId' | 'isRenewal'>,
    acks: readonly ShareAcks[],
  ): Promise<readonly (MoonMQError | null)[]> {
    const session = this.#sessions.end(request.group, request.memberId)
    const acknowledged = this.#acknowledgeEach(context, request, acks)
    this.#releaseAll(session)
    return acknowledged
  }

  /** One outcome a partition, each durable. The changes are made in this turn. */
  #acknowledgeEach(
    context: RequestContext,
    request: Pick<ShareAcknowledgeRequest, 'group' | 'memberId' | 'isRenewal'>,
    acks: readonly ShareAcks[],
  ): Promise<readonly (MoonMQError | null)[]> {
    return Promise.all(
      acks.map(async (one) => {
        try {
          await this.#acknowledge(context, request, one)
          return null
        } catch (error) {
          return asMoonMQError(error)
        }
      }),
    )
  }

  #acknowledge(
    context: RequestContext,
    { group, memberId, isRenewal }: Pick<ShareAcknowledgeRequest, 'group' | 'memberId' | 'isRenewal'>,
    { topicId, partition, batches, unreadable }: ShareAcks,
  ): Promise<void> | undefined {
    const { metadata, partitions, settings, clock } = this.#deps
    if (unreadable !== undefined) throw new MoonMQError('INVALID_REQUEST', { reason: unreadable })
    checkAcks(batches, { isRenewal, renewIsAllowed: settings.of(group).renewIsAllowed })
    const topic = metadata.image.topicsById.get(topicId)
    if (topic === undefined) throw new MoonMQError('TOPIC_ID_UNKNOWN', { id: topicId })
    partitions.forClient(context, topic.name, partition)
    const entry = this.states.find({ group, topicId, partition })
    if (entry === undefined || entry.isUnset) throw new MoonMQError('PARTITION_MISSING', { topic: topic.name, partition })
    entry.machine.acknowledge(memberId, batches, clock.monotonicMs(), this.#rulesOf(entry))
    this.#count(batches)
    this.#settle(entry)
    return this.states.whenDurable(entry)
  }

  #count(batches: ShareAcks['batches']): void {
    for (const { first, last, types } of batches) {
      const each = types.length === 1 ? last - first + 1 : 1
      for (const type of types) this.#deps.metrics.counter('moonmq_share_acknowledged_total', { type }).add(each)
    }
  }

  // ---- what follows from a change -------------------------------------------------------------------------------------------

  /** Stores what has changed, moves what has died, and sees to the next lock that ends. Throws COORDINATOR_NOT_AVAILABLE. */
  #settle(entry: ShareEntry): void {
    if (entry.isGone) return
    this.#moves.add(entry, this.states.store(entry))
    entry.arm(this.#deps.clock, () => this.#expire(entry))
    entry.wake()
  }

  /** The same where nobody waits for the outcome. */
  #settleAlone(entry: ShareEntry): void {
    try {
      this.#settle(entry)
    } catch (error) {
      // The shard has failed and reads everything again: what was acquired is available then.
      this.#deps.log.warn('share.not_stored', `state of group "${entry.id.group}" is not stored: ${asMoonMQError(error).message}`)
    }
  }

  #expire(entry: ShareEntry): void {
    if (entry.isGone) return
    const count = entry.machine.expire(this.#deps.clock.monotonicMs(), this.#rulesOf(entry))
    if (count > 0) this.#deps.metrics.counter('moonmq_share_locks_expired_total').add(count)
    this.#settleAlone(entry)
  }

  /** Everything that the member of a session holds is given back: the session has ended. */
  #releaseAll({ group, memberId, held }: ShareSession): void {
    for (const { topicId, partition } of held.values()) {
      const entry = this.#entry(group, topicId, partition)
      if (entry === undefined) continue
      entry.machine.releaseAll(memberId, this.#deps.clock.monotonicMs(), this.#rulesOf(entry))
      this.#settleAlone(entry)
    }
  }

  #entry(group: string, topicId: Uuid, partition: number): ShareEntry | undefined {
    try {
      return this.states.find({ group, topicId, partition })
    } catch {
      // Being read again: nobody holds anything of it.
      return undefined
    }
  }

  #loaded(entry: ShareEntry): void {
    const { topicId } = entry.id
    // Its topic was deleted while nobody was there to see it.
    if (!this.#deps.metadata.image.topicsById.has(topicId)) this.#forget((one) => one === entry)
    this.#moves.add(entry, entry.machine.interrupted())
  }

  /** The positions of all groups in a topic go with it. */
  #onMetadata(before: MetadataImage, after: MetadataImage): void {
    if (before.topicsById === after.topicsById) return
    for (const id of before.topicsById.keys()) if (!after.topicsById.has(id)) this.#forget((entry) => entry.id.topicId === id)
  }

  #forget(where: (entry: ShareEntry) => boolean): void {
    for (const entry of [...this.states.all()].filter(where)) {
      this.states.remove(entry).catch((error: unknown) => {
        this.#deps.log.warn('share.not_removed', `positions of group "${entry.id.group}" stay for now: ${asMoonMQError(error).message}`)
      })
    }
  }

  /** Forgets where a group stands in these topics, or in all; durable when it resolves. Throws COORDINATOR_NOT_AVAILABLE. */
  async removeStates(group: string, topicIds: ReadonlySet<Uuid> | null): Promise<void> {
    const entries = [...this.states.all()].filter(({ id }) => id.group === group && (topicIds === null || topicIds.has(id.topicId)))
    await Promise.all(entries.map((entry) => this.states.remove(entry)))
  }

  /** The group goes on at this offset; durable when it resolves. */
  async moveTo(group: string, topicId: Uuid, partition: number, offset: number): Promise<void> {
    const entry = await this.states.open({ group, topicId, partition })
    entry.machine.begin(offset)
    entry.stateEpoch++
    entry.dead.length = 0
    this.states.restart(entry)
    entry.wake()
    await this.states.whenDurable(entry)
  }

  #armPrune(): void {
    if (this.#closed) return
    this.#pruneTimer = this.#deps.clock.setTimer(PRUNE_INTERVAL_MS, () => {
      this.states.prune()
      this.#armPrune()
    })
  }

  /** Answers whoever waits; nothing is given out any more. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const stop of this.#stops) stop()
    this.#pruneTimer?.cancel()
    this.#sessions.close()
    this.#fetcher.close()
    await this.#moves.close()
    await this.states.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function add(session: ShareSession, { topicId, partition }: SessionPartition): void {
  const asked = { topicId, partition }
  const name = partitionName(asked)
  if (!session.partitions.has(name)) session.partitions.set(name, asked)
}

/** Every partition of the first answer of a session; of later ones those that have something to tell. */
function answers(
  session: ShareSession,
  request: ShareFetchRequest,
  found: readonly SharedPartition[],
  acks: ReadonlyMap<string, MoonMQError | null>,
): SharedPartition[] {
  const byName = new Map(found.map((one) => [partitionName(one), one]))
  for (const asked of request.partitions) {
    const name = partitionName(asked)
    const isTold = acks.has(name) || request.sessionEpoch === INITIAL_EPOCH
    if (isTold && !byName.has(name) && (acks.has(name) || session.partitions.has(name))) byName.set(name, sharedPartition(asked, null))
  }
  return [...byName].map(([name, one]) => ({ ...one, ackError: acks.get(name) ?? null }))
}
