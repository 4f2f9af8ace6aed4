import type { Broker } from '../../src/broker/broker.ts'
import type { RequestContext } from '../../src/broker/context.ts'
import type { ShareAcks, ShareFetched, ShareFetchRequest } from '../../src/broker/ports.ts'
import { readBatchHeader } from '../../src/record/batch.ts'
import { RecordCursor, recordsSection } from '../../src/record/record.ts'
import { contextOf } from './fake-broker.ts'

type AckType = ShareAcks['batches'][number]['types'][number]

export interface HeldRecord {
  readonly topicId: string
  readonly partition: number
  readonly offset: number
  readonly deliveries: number
  readonly value: string
}

/** Sets something of one group. */
export async function setGroup(broker: Broker, group: string, settings: Readonly<Record<string, string>>): Promise<void> {
  const changes = Object.entries(settings).map(([name, value]) => ({ name, operation: 'set' as const, value }))
  await broker.topics.alterGroupConfig(contextOf(), { name: group, changes })
}

/** A member of a share group as a client is one: a heartbeat, a session, and what it was given. */
export class ShareMember {
  readonly group: string
  readonly memberId: string
  readonly context: RequestContext
  /** What it was given and has not spoken of. */
  held: HeldRecord[] = []
  readonly #broker: Broker
  readonly #gone = new AbortController()
  #memberEpoch = 0
  sessionEpoch = 0
  #assigned: readonly { readonly topicId: string; readonly partitions: readonly number[] }[] = []
  #asked = new Map<string, { readonly topicId: string; readonly partition: number }>()

  constructor(broker: Broker, group: string, memberId: string) {
    this.#broker = broker
    this.group = group
    this.memberId = memberId
    this.context = contextOf({ clientId: memberId, signal: this.#gone.signal })
  }

  get assigned(): readonly { readonly topicId: string; readonly partitions: readonly number[] }[] {
    return this.#assigned
  }

  get memberEpoch(): number {
    return this.#memberEpoch
  }

  async join(...topicNames: string[]): Promise<void> {
    this.#memberEpoch = 0
    await this.heartbeat(topicNames)
  }

  async heartbeat(topicNames: readonly string[] | null = null): Promise<void> {
    const { group, memberId } = this
    const request = { group, memberId, memberEpoch: this.#memberEpoch, rackId: null, topicNames }
    const answer = await this.#broker.share.heartbeat(this.context, request)
    this.#memberEpoch = answer.memberEpoch
    if (answer.assignment !== null) this.#assigned = answer.assignment
  }

  async leave(): Promise<void> {
    this.#memberEpoch = -1
    await this.heartbeat()
  }

  /** The socket is gone, without a word. */
  drop(): void {
    this.#gone.abort()
  }

  /** Begins a session, or goes on with it. The epoch is only spent when the broker took the request. */
  async fetch(options: Partial<ShareFetchRequest> = {}, acks: readonly ShareAcks[] = []): Promise<ShareFetched> {
    const { group, memberId } = this
    const all = this.#assigned.flatMap(({ topicId, partitions }) => partitions.map((partition) => ({ topicId, partition })))
    const isFirst = this.sessionEpoch === 0
    const added = all.filter((one) => isFirst || !this.#asked.has(`${one.topicId}-${one.partition}`))
    const names = new Map(all.map((one) => [`${one.topicId}-${one.partition}`, one]))
    const forgotten = [...this.#asked].filter(([name]) => !names.has(name)).map(([, one]) => one)
    const partitions = [...acks, ...added.map((one) => ({ ...one, batches: [] }))]
    const fetched = await this.#broker.share.fetch(this.context, {
      group,
      memberId,
      sessionEpoch: this.sessionEpoch,
      isRenewal: false,
      partitions,
      forgotten,
      maxWaitMs: 0,
      minBytes: 1,
      maxBytes: 1_000_000,
      maxRecords: 500,
      batchSize: 500,
      isStrict: false,
      ...options,
    })
    this.sessionEpoch++
    this.#asked = names
    return fetched
  }

  /** Records of one fetch, which it holds from now on. Throws the first error of a partition. */
  async poll(options: Partial<ShareFetchRequest> = {}): Promise<HeldRecord[]> {
    const fetched = await this.fetch(options)
    const found: HeldRecord[] = []
    for (const { error, topicId, partition, records, acquired } of fetched.partitions) {
      if (error !== null) throw error
      const values = valuesOf(records)
      for (const { first, last, deliveries } of acquired) {
        for (let offset = first; offset <= last; offset++) {
          const value = values.get(offset)
          if (value !== undefined) found.push({ topicId, partition, offset, deliveries, value })
        }
      }
    }
    fetched.release()
    this.held.push(...found)
    return found
  }

  /** Says the same of all these records; throws the first refusal. */
  async ack(type: AckType, records: readonly HeldRecord[] = this.held): Promise<void> {
    const { group, memberId } = this
    const partitions = acksOf(records, type)
    const request = { group, memberId, sessionEpoch: this.sessionEpoch, isRenewal: type === 'renew', partitions }
    const { errors } = await this.#broker.share.acknowledge(this.context, request)
    this.sessionEpoch++
    const refusal = errors.find((error) => error !== null)
    if (refusal !== undefined && refusal !== null) throw refusal
    if (type !== 'renew') this.held = this.held.filter((one) => !records.includes(one))
  }

  /** Ends its session: what it holds goes back. */
  async endSession(): Promise<void> {
    const { group, memberId } = this
    await this.#broker.share.acknowledge(this.context, { group, memberId, sessionEpoch: -1, isRenewal: false, partitions: [] })
    this.sessionEpoch = 0
    this.held = []
  }
}

export function acksOf(records: readonly HeldRecord[], type: AckType): ShareAcks[] {
  const byPartition = new Map<string, { topicId: string; partition: number; offsets: number[] }>()
  for (const { topicId, partition, offset } of records) {
    const key = `${topicId}-${partition}`
    const known = byPartition.get(key)
    if (known === undefined) byPartition.set(key, { topicId, partition, offsets: [offset] })
    else known.offsets.push(offset)
  }
  return [...byPartition.values()].map(({ topicId, partition, offsets }) => ({
    topicId,
    partition,
    batches: offsets.sort((left, right) => left - right).map((offset) => ({ first: offset, last: offset, types: [type] })),
  }))
}

/** Values of uncompressed batches by offset. */
export function valuesOf(buffers: readonly Buffer[]): Map<number, string> {
  const values = new Map<number, string>()
  for (const bytes of buffers) {
    for (let position = 0; position < bytes.length; ) {
      const header = readBatchHeader(bytes, position)
      const cursor = new RecordCursor(recordsSection(bytes, position, header), header)
      while (cursor.next()) values.set(cursor.offset, String(cursor.value()))
      position += header.sizeBytes
    }
  }
  return values
}
