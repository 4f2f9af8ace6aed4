import type { ConsumerHeartbeat, ConsumerHeartbeatAnswer } from '../../src/broker/ports.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import type { GroupHarness } from './group-harness.ts'

type Partitions = readonly { readonly topicId: string; readonly partitions: readonly number[] }[]

/** A member of the consumer protocol as clients behave: it owns what it is told, one heartbeat after it was told. */
export class FakeConsumer {
  readonly memberId: string
  epoch = 0
  /** What it reads from. */
  owned: Partitions = []
  /** What it was told last. */
  assigned: Partitions = []
  lastError: string | null = null
  readonly #harness: GroupHarness
  readonly #fields: Partial<ConsumerHeartbeat>

  constructor(harness: GroupHarness, memberId: string, fields: Partial<ConsumerHeartbeat> = {}) {
    this.#harness = harness
    this.memberId = memberId
    this.#fields = fields
  }

  /** One heartbeat; it does with the answer what a client does. False: it was refused. */
  async beat(): Promise<boolean> {
    if (this.epoch === 0) this.owned = this.assigned = []
    const { instanceId = null } = this.#fields
    try {
      const request = this.epoch === 0 ? this.#fields : { instanceId, owned: this.owned }
      this.#hear(await this.#harness.beat(this.memberId, this.epoch, request))
      this.lastError = null
      return true
    } catch (error) {
      this.lastError = error instanceof MoonMQError ? error.code : String(error)
      if (['FENCED_MEMBER_EPOCH', 'GROUP_MEMBER_UNKNOWN', 'GROUP_MISSING'].includes(this.lastError)) this.epoch = 0
      return false
    }
  }

  #hear(answer: ConsumerHeartbeatAnswer): void {
    this.epoch = answer.memberEpoch
    if (answer.assignment === null) return
    this.assigned = answer.assignment
    this.owned = answer.assignment
  }

  async leave(epoch = -1): Promise<void> {
    const { instanceId = null } = this.#fields
    await this.#harness.beat(this.memberId, epoch, { instanceId })
    this.epoch = 0
    this.owned = this.assigned = []
  }

  /** Partitions of all topics together, in order. */
  get numbers(): number[] {
    return this.owned.flatMap(({ partitions }) => partitions).sort((left, right) => left - right)
  }
}

/** Heartbeats of all in turn, until nobody hears anything new. */
export async function converge(consumers: readonly FakeConsumer[], rounds = 12): Promise<void> {
  for (let round = 0; round < rounds; round++) for (const consumer of consumers) await consumer.beat()
}
