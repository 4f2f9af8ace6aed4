import * as re2js from 're2js'
import type { RequestContext } from '../../src/broker/context.ts'
import { DEFAULT_GROUP_OPTIONS, type GroupOptions } from '../../src/broker/groups/group-options.ts'
import { GroupCoordinator } from '../../src/broker/groups/group-shell.ts'
import type {
  CommitOffsets,
  ConsumerHeartbeat,
  ConsumerHeartbeatAnswer,
  JoinedGroup,
  JoinGroup,
  SyncedGroup,
} from '../../src/broker/ports.ts'
import { BrokerSettings, GroupSettings } from '../../src/broker/settings.ts'
import { type Metrics, NO_METRICS } from '../../src/core/counters.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { PreloadedLoader } from '../../src/io/loader.ts'
import { FakeOffsetsTopic } from './fake-offsets-topic.ts'
import { FakeTopics } from './fake-topics.ts'

export const GROUP = 'g'

/** A client's connection: `drop()` is what a broken socket does. */
export class FakeConnection {
  readonly #gone = new AbortController()
  readonly context: RequestContext

  constructor(clientId = 'client') {
    this.context = {
      principal: 'User:ANONYMOUS',
      protocol: 'kafka',
      clientId,
      clientHost: '/127.0.0.1',
      listener: 'test',
      signal: this.#gone.signal,
    }
  }

  drop(): void {
    this.#gone.abort()
  }
}

/** A promise whose outcome can be looked at without waiting. */
export class Watched<T> {
  value: T | undefined
  error: unknown

  /** Called the moment the value arrives. */
  onValue: (value: T) => void = () => {}
  onError: (error: unknown) => void = () => {}

  constructor(promise: Promise<T>) {
    promise.then(
      (value) => {
        this.value = value
        this.onValue(value)
      },
      (error: unknown) => {
        this.error = error
        this.onError(error)
      },
    )
  }

  get settled(): boolean {
    return this.value !== undefined || this.error !== undefined
  }
}

/** A coordinator on virtual time over a log in memory, and the requests that clients send. */
export class GroupHarness {
  readonly clock = new VirtualClock()
  readonly metadata = new FakeTopics()
  metrics: Metrics = NO_METRICS
  highWatermark = 100
  topic: FakeOffsetsTopic
  coordinator: GroupCoordinator
  readonly #random: SeededRandom
  readonly #options: GroupOptions
  readonly #settings: ReadonlyMap<string, string>

  private constructor(options: Partial<GroupOptions>, seed: number, settings: Readonly<Record<string, string>>) {
    this.#settings = new Map(Object.entries({ 'group.consumer.assignment.interval.ms': '0', ...settings }))
    this.#options = { ...DEFAULT_GROUP_OPTIONS, ...options }
    this.#random = new SeededRandom(seed)
    this.topic = new FakeOffsetsTopic(1)
    this.metadata.addTopic('t', 4)
    this.coordinator = this.#make()
  }

  /** Assignments wait for nothing unless `settings` say so. */
  static async open(options: Partial<GroupOptions> = {}, seed = 1, settings: Readonly<Record<string, string>> = {}): Promise<GroupHarness> {
    const harness = new GroupHarness(options, seed, settings)
    await harness.load()
    return harness
  }

  #make(): GroupCoordinator {
    return GroupCoordinator.open(
      {
        clock: this.clock,
        random: this.#random,
        log: SILENT,
        metrics: this.metrics,
        metadata: this.metadata,
        offsetsTopic: this.topic,
        highWatermark: () => this.highWatermark,
        loader: new PreloadedLoader({}, { re2js }),
        groupSettings: new GroupSettings({ metadata: this.metadata, broker: new BrokerSettings(this.#settings) }),
      },
      this.#options,
    )
  }

  async load(): Promise<void> {
    const loaded = this.coordinator.startLoading()
    await this.clock.advance(0)
    await loaded
  }

  /** Lets everything run that does not need time to pass. */
  async settle(): Promise<void> {
    await this.clock.advance(0)
  }

  /** Ends the broker without a word and starts it again on what was durable. */
  async crash(): Promise<void> {
    await this.crashUnloaded()
    await this.load()
  }

  /** The same, up to where the listeners are open and nothing has been read yet. */
  async crashUnloaded(): Promise<void> {
    await this.coordinator.close()
    this.topic = this.topic.reopened()
    this.coordinator = this.#make()
  }

  join(connection: FakeConnection, request: Partial<JoinGroup> = {}): Watched<JoinedGroup> {
    return new Watched(
      this.coordinator.join(connection.context, {
        group: GROUP,
        memberId: '',
        instanceId: null,
        protocolType: 'consumer',
        protocols: [{ name: 'range', metadata: Buffer.from('topics') }],
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 30_000,
        requireKnownMemberId: false,
        supportsSkippingAssignment: true,
        reason: null,
        ...request,
      }),
    )
  }

  sync(connection: FakeConnection, joined: JoinedGroup, assign: Readonly<Record<string, string>> = {}): Watched<SyncedGroup> {
    return this.syncAs(connection, joined.memberId, joined.generation, null, assign)
  }

  syncAs(
    connection: FakeConnection,
    memberId: string,
    generation: number,
    instanceId: string | null,
    assign: Readonly<Record<string, string>> = {},
  ): Watched<SyncedGroup> {
    const assignments = new Map(Object.entries(assign).map(([member, text]) => [member, Buffer.from(text)]))
    return new Watched(
      this.coordinator.sync(connection.context, {
        group: GROUP,
        generation,
        memberId,
        instanceId,
        protocolType: null,
        protocol: null,
        assignments,
      }),
    )
  }

  /** The error's code, or null when the heartbeat was taken. */
  async heartbeat(memberId: string, generation: number, instanceId: string | null = null): Promise<string | null> {
    return codeOf(this.coordinator.heartbeat(new FakeConnection().context, { group: GROUP, generation, memberId, instanceId }))
  }

  beat(memberId: string, memberEpoch: number, request: Partial<ConsumerHeartbeat> = {}): Promise<ConsumerHeartbeatAnswer> {
    const isJoin = memberEpoch === 0
    return this.coordinator.consumerHeartbeat(new FakeConnection(memberId).context, {
      group: GROUP,
      memberId,
      idIsClients: true,
      memberEpoch,
      instanceId: null,
      rackId: null,
      rebalanceTimeoutMs: isJoin ? 30_000 : null,
      subscribedTopics: isJoin ? ['t'] : null,
      subscribedRegex: null,
      assignor: null,
      owned: isJoin ? [] : null,
      ...request,
    })
  }

  async describeConsumer(group = GROUP) {
    const [description] = await this.coordinator.describeConsumerGroups(new FakeConnection().context, [group])
    if (description === undefined) throw new Error('no description')
    return description
  }

  async commit(offset: number, by: Partial<CommitOffsets> = {}, partition = 0): Promise<string | null> {
    const outcomes = await this.coordinator.commit(new FakeConnection().context, {
      group: GROUP,
      generation: -1,
      memberId: '',
      instanceId: null,
      durable: true,
      offsets: [{ topic: 't', partition, value: { offset, leaderEpoch: -1, metadata: '' } }],
      ...by,
    })
    return outcomes[0]?.code ?? null
  }

  async committed(partition = 0, group = GROUP): Promise<number | null> {
    const found = await this.coordinator.committed(new FakeConnection().context, {
      group,
      topics: [{ topic: 't', partitions: [partition] }],
    })
    return found[0]?.value?.offset ?? null
  }

  async describe(group = GROUP) {
    const [description] = await this.coordinator.describe(new FakeConnection().context, [group])
    if (description === undefined) throw new Error('no description')
    return description
  }
}

async function codeOf(work: Promise<unknown>): Promise<string | null> {
  try {
    await work
    return null
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  }
}
