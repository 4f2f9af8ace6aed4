import type { Clock } from '../core/clock.ts'
import { fnv1a, murmur2 } from '../core/hash.ts'
import type { Link } from './link.ts'

/** How old what is known of a topic may be before it is asked for again, in the background. */
const MAX_AGE_MS = 60_000
/** What a batch takes besides its records, generously. */
const BATCH_OVERHEAD_BYTES = 1024

/** What a producer must know of a topic to choose partitions as the broker does. */
export interface TopicShape {
  readonly partitions: number
  readonly hash: (key: Uint8Array) => number
  /** Bytes of records that a batch may have. */
  readonly maxBatchBytes: number
  readonly foundMs: number
}

/** Looks topics up and remembers them. */
export class TopicPartitions {
  readonly #link: Link
  readonly #clock: Clock
  readonly #known = new Map<string, TopicShape>()
  readonly #asking = new Map<string, Promise<TopicShape>>()

  constructor(link: Link, clock: Clock) {
    this.#link = link
    this.#clock = clock
  }

  /** Undefined when it has to be asked for. */
  known(topic: string): TopicShape | undefined {
    const shape = this.#known.get(topic)
    if (shape !== undefined && this.#clock.monotonicMs() - shape.foundMs > MAX_AGE_MS) {
      // What is known serves meanwhile; who sends next hears what went wrong.
      this.find(topic).catch(() => this.forget(topic))
    }
    return shape
  }

  find(topic: string): Promise<TopicShape> {
    let asking = this.#asking.get(topic)
    if (asking === undefined) {
      asking = this.#find(topic).finally(() => this.#asking.delete(topic))
      this.#asking.set(topic, asking)
    }
    return asking
  }

  forget(topic: string): void {
    this.#known.delete(topic)
  }

  async #find(topic: string): Promise<TopicShape> {
    const link = this.#link
    const [description, config] = await link.retrying(() =>
      Promise.all([
        link.request('DESCRIBE', { name: topic }, 'DESCRIPTION', {}),
        link.request('DESCRIBE_CONFIG', { name: topic }, 'CONFIG', {}),
      ]),
    )
    const setting = (name: string) => config.settings.find((each) => each.name === name)?.value
    const shape: TopicShape = {
      partitions: Math.max(1, description.partitions.length),
      hash: setting('moonmq.partitioner') === 'murmur2' ? (key) => murmur2(key) & 0x7fffffff : fnv1a,
      maxBatchBytes: Math.max(1, Number(setting('max.message.bytes') ?? Number.POSITIVE_INFINITY) - BATCH_OVERHEAD_BYTES),
      foundMs: this.#clock.monotonicMs(),
    }
    this.#known.set(topic, shape)
    return shape
  }
}
