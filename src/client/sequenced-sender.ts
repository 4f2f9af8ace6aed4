import { Backoff } from '../core/backoff.ts'
import type { Clock, Timer } from '../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import type { Random } from '../core/random.ts'
import { fromWire } from '../wire/errors.ts'
import { MAX_COUNT } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { ANY_PARTITION } from '../wire/opcodes.ts'
import type { SendRecord } from '../wire/records.ts'
import type { ClientConnection } from './connection.ts'
import { type Identity, Lane, type LaneBatch, type Waiting } from './lane.ts'
import { type Link, passes } from './link.ts'
import { ACK_TIMEOUT_MS } from './producer.ts'
import { FRAME_OVERHEAD_BYTES } from './records.ts'
import { TopicPartitions, type TopicShape } from './topic-partitions.ts'

const RETRY_INITIAL_MS = 20
const RETRY_MAX_MS = 1_000

/** For whom it sends. */
export interface SenderHost {
  /** Of batches that have none yet. */
  identity(): Promise<Identity>
  /** Another one, for a partition whose numbers are lost. Rejects where the producer cannot have one. */
  renew(): Promise<Identity>
  /** Throws when the batches may not go by this connection. */
  check(connection: ClientConnection): void
  /** What comes now need not wait for company. */
  readonly isFlushing: boolean
  /** Whether it is over after this error, so that nothing goes again. */
  isOver(error: MoonMQError): boolean
}

export interface SenderOptions {
  readonly flags: number
  readonly acks: number
  readonly lingerMs: number
  readonly batchBytes: number
  readonly deliveryTimeoutMs: number
}

interface Part {
  readonly lane: Lane
  readonly batch: LaneBatch
}

/**
 * Sends numbered batches: each partition has a lane of its own, whose batches are sent again after whatever went wrong until they are
 * acknowledged, refused or too late. A request takes one batch of each partition of a topic.
 */
export class SequencedSender {
  readonly #link: Link
  readonly #clock: Clock
  readonly #host: SenderHost
  readonly #options: SenderOptions
  readonly #topics: TopicPartitions
  readonly #lanes = new Map<string, Map<number, Lane>>()
  /** Records of topics that are being looked up, in order. */
  readonly #unplaced = new Map<string, { readonly record: SendRecord; readonly waiting: Waiting }[]>()
  readonly #sticky = new Map<string, number>()
  readonly #random: Random
  readonly #backoffs = new Map<Lane, Backoff>()
  #timer: Timer | null = null
  #deferred = false

  constructor(deps: { link: Link; clock: Clock; random: Random; host: SenderHost }, options: SenderOptions) {
    this.#link = deps.link
    this.#clock = deps.clock
    this.#random = deps.random
    this.#host = deps.host
    this.#options = options
    this.#topics = new TopicPartitions(deps.link, deps.clock)
  }

  add(topic: string, record: SendRecord, waiting: Waiting): void {
    const shape = this.#topics.known(topic)
    const queue = this.#unplaced.get(topic)
    if (shape !== undefined && queue === undefined) {
      this.#place(topic, shape, record, waiting)
      return
    }
    if (queue !== undefined) {
      queue.push({ record, waiting })
      return
    }
    this.#unplaced.set(topic, [{ record, waiting }])
    this.#topics.find(topic).then(
      (found) => {
        for (const each of this.#takeUnplaced(topic)) this.#place(topic, found, each.record, each.waiting)
      },
      (error: unknown) => {
        for (const each of this.#takeUnplaced(topic)) each.waiting.acked.reject(asMoonMQError(error))
      },
    )
  }

  #takeUnplaced(topic: string): readonly { readonly record: SendRecord; readonly waiting: Waiting }[] {
    const queue = this.#unplaced.get(topic) ?? []
    this.#unplaced.delete(topic)
    return queue
  }

  #place(topic: string, shape: TopicShape, record: SendRecord, waiting: Waiting): void {
    const { partitions, maxBatchBytes } = shape
    const partition = this.#partitionOf(topic, shape, record)
    if (partition >= partitions) {
      this.#topics.forget(topic)
      waiting.acked.reject(new MoonMQError('PARTITION_MISSING', { topic, partition }))
      return
    }
    const limit = Math.min(this.#options.batchBytes, maxBatchBytes, this.#maxFrameBytes)
    if (this.#laneOf(topic, partition).add(waiting, limit, MAX_COUNT.batchRecords, this.#clock.monotonicMs())) this.#pump()
    this.#schedule()
  }

  /** As the broker chooses: by the hash of the key, else one partition for what travels together. */
  #partitionOf(topic: string, { partitions, hash }: TopicShape, { partition, key }: SendRecord): number {
    if (partition !== ANY_PARTITION) return partition
    if (key !== null && key.length > 0) return hash(key) % partitions
    let sticky = this.#sticky.get(topic)
    if (sticky === undefined || sticky >= partitions) {
      sticky = this.#random.below(partitions)
      this.#sticky.set(topic, sticky)
    }
    return sticky
  }

  #laneOf(topic: string, partition: number): Lane {
    let lanes = this.#lanes.get(topic)
    if (lanes === undefined) {
      lanes = new Map()
      this.#lanes.set(topic, lanes)
    }
    let lane = lanes.get(partition)
    if (lane === undefined) {
      lane = new Lane(topic, partition, this.#options.deliveryTimeoutMs)
      lanes.set(partition, lane)
    }
    return lane
  }

  get #maxFrameBytes(): number {
    return (this.#link.server?.maxFrameBytes ?? MIB) - FRAME_OVERHEAD_BYTES
  }

  #schedule(): void {
    if (this.#options.lingerMs > 0 && !this.#host.isFlushing) {
      this.#timer ??= this.#clock.setTimer(this.#options.lingerMs, () => this.hurry(), { keepAlive: true })
      return
    }
    if (this.#deferred) return
    this.#deferred = true
    this.#clock.defer(() => {
      this.#deferred = false
      this.hurry()
    })
  }

  /** What gathers goes now. */
  hurry(): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const lanes of this.#lanes.values()) for (const lane of lanes.values()) lane.hurry()
    this.#pump()
    // The next records without a key go elsewhere.
    for (const [topic, partition] of this.#sticky) this.#sticky.set(topic, partition + 1)
  }

  /** Takes back what nobody waits for and what has not left. */
  withdraw(): void {
    for (const lanes of this.#lanes.values()) for (const lane of lanes.values()) lane.withdraw()
    for (const [topic, queue] of this.#unplaced) {
      this.#unplaced.set(
        topic,
        queue.filter(({ waiting }) => !waiting.isGivenUp),
      )
    }
  }

  /** Everything that is left is rejected. */
  fail(error: MoonMQError): void {
    this.#timer?.cancel()
    this.#timer = null
    for (const lanes of this.#lanes.values()) for (const lane of lanes.values()) lane.fail(error)
    for (const topic of [...this.#unplaced.keys()]) for (const { waiting } of this.#takeUnplaced(topic)) waiting.acked.reject(error)
  }

  /** Numbers begin anew, for another identity. Nothing is outstanding. */
  reset(): void {
    this.#lanes.clear()
    this.#backoffs.clear()
  }

  #pump(): void {
    for (const [topic, lanes] of this.#lanes) while (this.#sendRound(topic, lanes));
  }

  /** One batch of each lane that has one. Whether there may be more. */
  #sendRound(topic: string, lanes: ReadonlyMap<number, Lane>): boolean {
    const nowMs = this.#clock.monotonicMs()
    const requests: { identity: Identity | null; parts: Part[]; bytes: number }[] = []
    for (const lane of lanes.values()) {
      const batch = lane.take(nowMs)
      if (batch === null) continue
      const bytes = batch.bytes + 16
      const room = requests.find(({ identity, bytes: taken }) => identity === lane.identity && taken + bytes <= this.#maxFrameBytes)
      if (room === undefined) requests.push({ identity: lane.identity, parts: [{ lane, batch }], bytes })
      else {
        room.parts.push({ lane, batch })
        room.bytes += bytes
      }
    }
    for (const { identity, parts, bytes } of requests) this.#exchange(topic, identity, parts, bytes)
    return requests.length > 0
  }

  #exchange(topic: string, known: Identity | null, parts: readonly Part[], bytes: number): void {
    const send = (identity: Identity, connection: ClientConnection) => {
      this.#host.check(connection)
      const { flags, acks } = this.#options
      const batches = parts.map(({ lane, batch }) => {
        return { partition: lane.partition, baseSequence: batch.baseSequence, records: batch.records.map(({ record }) => record) }
      })
      const message = { flags, acks, codec: 0, timeoutMs: ACK_TIMEOUT_MS, ...identity, topic, batches }
      return connection.request(
        'SEND_SEQUENCED',
        message,
        'SENT_SEQUENCED',
        this.#link.optionsOf({ sizeHint: bytes + FRAME_OVERHEAD_BYTES }),
      )
    }
    const connected = (identity: Identity) => {
      const found = this.#link.connection()
      return found instanceof Promise ? found.then((connection) => send(identity, connection)) : send(identity, found)
    }
    this.#withIdentity(known, parts, connected).then(
      (sent) => this.#answered(topic, parts, sent),
      (error: unknown) => {
        for (const part of parts) this.#settle(topic, part, asMoonMQError(error))
        this.#after(parts)
      },
    )
  }

  async #withIdentity(
    known: Identity | null,
    parts: readonly Part[],
    send: (identity: Identity) => Promise<Message<'SENT_SEQUENCED'>>,
  ): Promise<Message<'SENT_SEQUENCED'>> {
    if (known !== null) return await send(known)
    const identity = await this.#host.identity()
    for (const { lane } of parts) lane.identity ??= identity
    return await send(identity)
  }

  #answered(topic: string, parts: readonly Part[], { results, errors }: Message<'SENT_SEQUENCED'>): void {
    for (const [index, part] of parts.entries()) {
      const result = results[index]
      if (result?.error === 0) {
        part.lane.acknowledged(part.batch, result.baseOffset)
        continue
      }
      const told = result === undefined ? undefined : errors[result.error - 1]
      const reason = 'an answer without a result for a batch'
      this.#settle(topic, part, told === undefined ? new MoonMQError('BAD_PROTOCOL', { reason }) : fromWire(told))
    }
    this.#after(parts)
  }

  #settle(topic: string, { lane, batch }: Part, error: MoonMQError): void {
    if (error.code === 'TOPIC_MISSING' || error.code === 'PARTITION_MISSING') this.#topics.forget(topic)
    const goesAgain = (passes(error) || error.retriable || error.code === 'OUT_OF_ORDER_SEQUENCE') && !this.#host.isOver(error)
    if (goesAgain) lane.troubled(batch, error)
    else if (error.code === 'RECORD_TOO_LARGE' && batch.records.length > 1) lane.split(batch, error)
    else lane.refused(batch, error)
  }

  #after(parts: readonly Part[]): void {
    for (const { lane } of parts) if (lane.needsRestart) void this.#restart(lane)
    this.#pump()
  }

  /** Never rejects: what it cannot send again it gives up. */
  async #restart(lane: Lane): Promise<void> {
    try {
      const { trouble } = lane
      if (trouble !== undefined && (passes(trouble) || trouble.retriable)) await this.#link.pause(this.#backoffOf(lane).nextMs())
      const identity = lane.needsIdentity ? await this.#host.renew() : null
      lane.restart(this.#clock.monotonicMs(), identity)
      lane.hurry()
    } catch (error) {
      lane.fail(asMoonMQError(error))
    }
    if (lane.isIdle) this.#backoffs.delete(lane)
    this.#pump()
  }

  #backoffOf(lane: Lane): Backoff {
    let backoff = this.#backoffs.get(lane)
    if (backoff === undefined) {
      backoff = new Backoff(this.#random, { initialMs: RETRY_INITIAL_MS, maxMs: RETRY_MAX_MS })
      this.#backoffs.set(lane, backoff)
    }
    return backoff
  }
}
