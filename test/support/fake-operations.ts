import type { ClientRecord } from '../../src/client/types.ts'
import type { FetchLimits, Membership, Operations, ScanRequest, SubscribeLimits } from '../../src/mql/operations.ts'

export function fakeRecord(offset: number, value: string | Buffer | null, more: Partial<ClientRecord> = {}): ClientRecord {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value
  return {
    topic: 't',
    partition: 0,
    offset,
    timestampMs: 1000 + offset,
    key: Buffer.from(`k${offset}`),
    value: bytes,
    headers: [],
    ...more,
  }
}

/** Operations that write down what is asked of them. */
export class FakeOperations implements Operations {
  readonly target = 'fake:1'
  readonly calls: unknown[][] = []
  records: readonly ClientRecord[] = []
  /** What the next call fails with. */
  failure: Error | null = null
  /** Called before each record of a scan. */
  beforeEach: (record: ClientRecord, signal: AbortSignal) => void | Promise<void> = () => {}
  membership: Membership | null = null
  closed = false

  #call(...call: unknown[]): void {
    this.calls.push(call)
    const { failure } = this
    this.failure = null
    if (failure !== null) throw failure
  }

  async close(): Promise<void> {
    this.closed = true
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async listTopics() {
    this.#call('listTopics')
    return [
      { name: 'orders', partitions: 3 },
      { name: 'topic', partitions: 1 },
    ]
  }

  async createTopic(name: string, partitions: number, config: Readonly<Record<string, string>>) {
    this.#call('createTopic', name, partitions, config)
  }

  async describeTopic(name: string) {
    this.#call('describeTopic', name)
    const online = { partition: 0, earliest: 1, highWatermark: 5, lastStableOffset: 4, logEndOffset: 6 }
    const offline = { partition: 1, earliest: -1, highWatermark: -1, lastStableOffset: -1, logEndOffset: -1 }
    return { name, id: 'id', partitions: [online, offline], config: new Map() }
  }

  async topicSettings() {
    const setting = { name: 'retention.ms', value: '5', default: '1', from: 'retention.ms', fixed: false, documentation: '' }
    return [{ ...setting, source: 'topic' } as const, { ...setting, name: 'segment.ms', source: 'default' } as const]
  }

  async alterTopic(name: string, change: { readonly set: Readonly<Record<string, string>>; readonly unset: readonly string[] }) {
    this.#call('alterTopic', name, change)
    return Object.keys(change.set)
  }

  async growTopic(name: string, partitions: number) {
    this.#call('growTopic', name, partitions)
  }

  async dropTopic(name: string) {
    this.#call('dropTopic', name)
  }

  async offsets(topic: string, group: string | null) {
    this.#call('offsets', topic, group)
    const bounds = { partition: 0, earliest: 2, latest: 9, highWatermark: 8, lastStableOffset: 7 }
    const committed = (offset: number) => (group === null ? null : offset)
    return [
      { ...bounds, committed: committed(-1) },
      { ...bounds, partition: 1, committed: committed(6) },
    ]
  }

  async produce(topic: string, record: object) {
    this.#call('produce', topic, record)
    return { partition: 1, offset: 7 }
  }

  async fetch(topic: string, group: string, { maxRecords }: FetchLimits) {
    this.#call('fetch', topic, group, maxRecords)
    return this.records.slice(0, maxRecords)
  }

  async *subscribe(topic: string, group: string, { idleMs, maxRecords }: SubscribeLimits, signal: AbortSignal) {
    this.#call('subscribe', topic, group, idleMs)
    for (const record of this.records.slice(0, maxRecords)) {
      await this.beforeEach(record, signal)
      yield record
    }
  }

  async *scan(request: ScanRequest, signal: AbortSignal) {
    this.#call('scan', request)
    for (const record of this.records) {
      await this.beforeEach(record, signal)
      yield record
    }
  }

  async commit(topic: string, partition: number, offset: number) {
    this.#call('commit', topic, partition, offset)
  }

  async nack(topic: string, partition: number, offset: number, reason: string) {
    this.#call('nack', topic, partition, offset, reason)
    const deadLettered = reason === 'last'
    return { deadLettered, attempts: deadLettered ? 3 : 1, deadLetterTopic: deadLettered ? `${topic}.dlq` : '' }
  }

  async join(group: string, topics: readonly string[]) {
    this.#call('join', group, topics)
    this.membership = { group, memberId: 'm-1', assignment: topics.map((topic) => ({ topic, partitions: [0, 2] })) }
    return this.membership
  }

  async leave() {
    this.#call('leave')
    this.membership = null
  }

  async heartbeat() {
    this.#call('heartbeat')
  }

  async listGroups() {
    this.#call('listGroups')
    return [{ group: 'billing', state: 'Stable', members: 2 }]
  }

  async describeGroup(group: string) {
    this.#call('describeGroup', group)
    return {
      group,
      state: 'Stable',
      members: [
        { memberId: 'm-1', assignment: [{ topic: 't', partitions: [1, 0] }] },
        { memberId: 'm-2', assignment: [] },
      ],
      offsets: [
        { topic: 't', partition: 0, offset: 4 },
        { topic: 'a', partition: 3, offset: 5 },
      ],
    }
  }

  async dropGroup(group: string) {
    this.#call('dropGroup', group)
  }

  async begin(name: string | null) {
    this.#call('begin', name)
  }

  async endTransaction(commit: boolean) {
    this.#call('endTransaction', commit)
  }
}
