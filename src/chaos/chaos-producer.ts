import type { Acked, Producer, RecordToSend } from '../client/types.ts'
import { type Clock, SystemClock, sleep } from '../core/clock.ts'
import { type Deferred, deferred } from '../core/deferred.ts'
import { asMoonMQError, MoonMQError } from '../core/errors.ts'
import type { Resource } from '../core/types.ts'
import type { ChaosNet } from './chaos-net.ts'
import { type ChaosOptions, ChaosPlan, type Decision, FAULTS, type Fault } from './plan.ts'

export interface ChaosProducerDeps {
  /** What really sends. It is not closed with the chaos around it. */
  readonly producer: Pick<Producer, 'send' | 'flush'>
  /** What delays wait on; the machine's own unless given. */
  readonly clock?: Clock
  /** The network of the producer's client; without it no connection can break. */
  readonly net?: ChaosNet
}

/** Records that wait for the one behind which they go. */
const MAX_HELD = 16

interface Job {
  readonly topic: string
  readonly record: RecordToSend
  readonly decision: Decision
  readonly done: Deferred<Acked>
}

/**
 * A producer to which things happen. Records go out one at a time, so that the same seed and the same calls do the same to the log.
 * What it resolves or rejects with is what a program would have seen.
 */
export class ChaosProducer implements Resource {
  readonly #deps: ChaosProducerDeps
  readonly #clock: Clock
  readonly #plan: ChaosPlan
  readonly #counts = new Map<Fault, number>()
  #held: Job[] = []
  /** Everything handed on so far. */
  #tail: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(deps: ChaosProducerDeps, options: ChaosOptions) {
    this.#deps = deps
    this.#clock = deps.clock ?? new SystemClock()
    this.#plan = new ChaosPlan(options)
  }

  /** How often each fault happened. */
  get counts(): Readonly<Record<Fault, number>> {
    return Object.fromEntries(FAULTS.map((fault) => [fault, this.#counts.get(fault) ?? 0])) as Record<Fault, number>
  }

  send(topic: string, record: RecordToSend): Promise<Acked> {
    if (this.#isClosed) return Promise.reject(new MoonMQError('CLOSED', { what: 'the producer' }))
    const job: Job = { topic, record, decision: this.#plan.next(), done: deferred<Acked>() }
    if (job.decision.faults.has('reorder') && this.#held.length < MAX_HELD) {
      this.#held.push(job)
      this.#releaseWhenIdle()
    } else this.#goOn([job])
    return job.done.promise
  }

  async sendMany(topic: string, records: readonly RecordToSend[]): Promise<readonly Acked[]> {
    return Promise.all(records.map((record) => this.send(topic, record)))
  }

  async flush(): Promise<void> {
    this.#goOn([])
    await this.#tail
    await this.#deps.producer.flush()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.flush()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** These, and behind them what was held back. */
  #goOn(jobs: readonly Job[]): void {
    const behind = this.#held
    this.#held = []
    // One that nothing went before was not reordered after all.
    if (jobs.length > 0) for (const _ of behind) this.#count('reorder')
    for (const job of [...jobs, ...behind]) {
      this.#tail = this.#tail.then(() =>
        this.#run(job).then(
          (acked) => job.done.resolve(acked),
          (error: unknown) => job.done.reject(asMoonMQError(error)),
        ),
      )
    }
  }

  /** A record that nobody follows goes on once everything before it is done: no time is involved, or a seed would not do the same again. */
  #releaseWhenIdle(): void {
    const before = this.#tail
    // Whoever tries again what failed does so before this.
    const look = () =>
      this.#clock.defer(() => {
        if (this.#held.length === 0) return
        if (this.#tail === before) this.#goOn([])
        else this.#releaseWhenIdle()
      })
    before.then(look, look)
  }

  async #run({ topic, record, decision }: Job): Promise<Acked> {
    const { producer, net } = this.#deps
    const { faults, delayMs, bit } = decision
    if (faults.has('drop')) {
      this.#count('drop')
      throw new MoonMQError('CONNECTION_CLOSED', { reason: 'chaos: the record was lost on its way' })
    }
    if (delayMs > 0) {
      this.#count('delay')
      await sleep(this.#clock, delayMs)
    }
    const sent = faults.has('corrupt') ? this.#corrupted(record, bit) : record
    if (faults.has('disconnect') && net !== undefined) {
      this.#count('disconnect')
      net.cutNextAnswer()
    }
    try {
      const acked = await producer.send(topic, sent)
      if (faults.has('duplicate')) {
        this.#count('duplicate')
        await producer.send(topic, sent)
      }
      return acked
    } finally {
      net?.disarm()
    }
  }

  #corrupted(record: RecordToSend, bit: number): RecordToSend {
    const value = Buffer.from(record.value ?? '')
    if (value.length === 0) return record
    this.#count('corrupt')
    const at = Math.floor(bit * value.length * 8)
    value[at >> 3] = (value[at >> 3] ?? 0) ^ (1 << (at & 7))
    return { ...record, value }
  }

  #count(fault: Fault): void {
    this.#counts.set(fault, (this.#counts.get(fault) ?? 0) + 1)
  }
}
