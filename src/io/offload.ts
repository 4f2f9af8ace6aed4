import { Worker } from 'node:worker_threads'
import type { Clock, Timer } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import { KIB, MIB } from '../core/limits.ts'
import type { Logger } from '../core/logger.ts'
import type { Offload, OffloadJob, OffloadResult, OffloadResults, RunJob } from '../core/offload.ts'
import { AT_ONCE, type Completions } from './completions.ts'
import type { JobAnswer } from './job-server.ts'

export interface ThreadOffloadOptions {
  /** The module that calls `serveJobs`. */
  readonly threadUrl: URL
  /** Bytes that may wait for the thread. Default 64 MiB. */
  readonly maxQueuedBytes?: number
  /** From a job's coming to its answer. Default 30 s. */
  readonly deadlineMs?: number
  /** A thread without work is ended after this long, with the memory that its codecs hold. Default 60 s. */
  readonly idleMs?: number
}

const DEFAULTS = { maxQueuedBytes: 64 * MIB, deadlineMs: 30_000, idleMs: 60_000 }
/** The thread's own objects are few: what it inflates lies outside of this. */
const THREAD_LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16 }

/** Jobs up to this size go before larger ones that came earlier, */
const SMALL_BYTES = 256 * KIB
/** but for every so many of them the oldest job of all has its turn. */
const SMALL_IN_A_ROW = 8

interface Pending {
  readonly job: OffloadJob
  readonly resolve: (result: OffloadResult) => void
  readonly reject: (error: MoonMQError) => void
  /** Of its wait for the thread, then of the thread's work. */
  deadline: Timer
}

/**
 * Runs jobs on one thread, one after another: small ones first, so that a few huge batches do not keep everybody waiting, and large ones
 * now and then, so that they come to their turn. The thread starts with the first job and ends when it has been idle for a while. When it
 * dies, or a job takes too long, the job fails and the next one gets a new thread. Owns the thread; `close` ends it.
 */
export class ThreadOffload implements Offload {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #options: Required<ThreadOffloadOptions>
  #thread: Worker | null = null
  #running: Pending | null = null
  readonly #queue: Pending[] = []
  #queuedBytes = 0
  /** Small jobs that went before another since the oldest had its turn. */
  #overtaken = 0
  #idle: Timer | null = null

  constructor(deps: { clock: Clock; log: Logger }, options: ThreadOffloadOptions) {
    this.#clock = deps.clock
    this.#log = deps.log
    this.#options = { ...DEFAULTS, ...options }
  }

  /** For tests: whether there is a thread now. */
  get hasThread(): boolean {
    return this.#thread !== null
  }

  run<J extends OffloadJob>(job: J): Promise<OffloadResults[J['kind']]> {
    const { maxQueuedBytes, deadlineMs } = this.#options
    if (this.#queuedBytes > 0 && this.#queuedBytes + job.bytes.length > maxQueuedBytes) {
      return Promise.reject(failed(`${this.#queuedBytes} bytes wait to be inflated already`))
    }
    return new Promise<OffloadResult>((resolve, reject) => {
      const deadline = this.#clock.setTimer(deadlineMs, () => this.#overdue(pending), { keepAlive: true })
      const pending: Pending = { job, resolve, reject, deadline }
      this.#queue.push(pending)
      this.#queuedBytes += job.bytes.length
      this.#next()
    }) as Promise<OffloadResults[J['kind']]>
  }

  async close(): Promise<void> {
    for (const pending of this.#queue.splice(0)) this.#fail(pending, failed('the broker is stopping'))
    this.#queuedBytes = 0
    await this.#endThread(failed('the broker is stopping'))
  }

  #next(): void {
    if (this.#running !== null) return
    const pending = this.#take()
    if (pending === undefined) {
      this.#rest()
      return
    }
    this.#idle?.cancel()
    this.#idle = null
    this.#running = pending
    this.#queuedBytes -= pending.job.bytes.length
    // What it waited behind others says nothing about how long it takes.
    pending.deadline.cancel()
    pending.deadline = this.#clock.setTimer(this.#options.deadlineMs, () => this.#overdue(pending), { keepAlive: true })
    // A copy of its own: what is moved to a thread is the whole memory that a view lies in.
    const own = Uint8Array.prototype.slice.call(pending.job.bytes)
    try {
      this.#thread ??= this.#start()
      this.#thread.ref()
      this.#thread.postMessage({ ...pending.job, bytes: own }, [own.buffer])
    } catch (error) {
      this.#running = null
      this.#fail(pending, failed(error instanceof Error ? error.message : String(error), error))
      this.#next()
    }
  }

  #take(): Pending | undefined {
    const small = this.#overtaken < SMALL_IN_A_ROW ? this.#queue.findIndex(({ job }) => job.bytes.length <= SMALL_BYTES) : 0
    this.#overtaken = small > 0 ? this.#overtaken + 1 : 0
    return small > 0 ? this.#queue.splice(small, 1)[0] : this.#queue.shift()
  }

  #start(): Worker {
    const thread = new Worker(this.#options.threadUrl, {
      name: 'moonmq-codecs',
      env: {},
      execArgv: [],
      resourceLimits: THREAD_LIMITS,
    })
    thread.on('message', (answer: JobAnswer) => {
      if (this.#thread === thread) this.#answered(answer)
    })
    thread.on('error', (error) => {
      if (this.#thread === thread) this.#died(error instanceof Error ? error.message : String(error))
    })
    thread.on('exit', (code) => {
      if (this.#thread === thread) this.#died(`it ended with code ${code}`)
    })
    return thread
  }

  #answered(answer: JobAnswer): void {
    const pending = this.#running
    this.#running = null
    if (pending !== null) {
      pending.deadline.cancel()
      if (answer.error === null) pending.resolve(asBuffers(answer.result as OffloadResult))
      else pending.reject(new MoonMQError(answer.error.code, answer.error.details, undefined, answer.error.message))
    }
    // What a bomb filled goes with the thread at once; left to be collected, a row of bombs would add up.
    if (answer.error?.code === 'INFLATED_TOO_LARGE') void this.#endThread(failed('the thread was replaced'))
    this.#next()
  }

  #died(reason: string): void {
    this.#thread = null
    this.#log.warn('offload.thread_died', `the thread that inflates batches died and is replaced: ${reason}`, { reason })
    const pending = this.#running
    this.#running = null
    if (pending !== null) this.#fail(pending, failed(`the thread that inflates batches died: ${reason}`))
    this.#next()
  }

  #overdue(pending: Pending): void {
    const { deadlineMs } = this.#options
    if (this.#running !== pending) {
      this.#queue.splice(this.#queue.indexOf(pending), 1)
      this.#queuedBytes -= pending.job.bytes.length
      this.#fail(pending, failed(`it waited more than ${deadlineMs} ms for others to be inflated`))
      return
    }
    this.#log.warn('offload.overdue', `a batch was inflated for more than ${deadlineMs} ms; the thread is replaced`)
    // Owned: it never rejects.
    void this.#endThread(failed(`it took more than ${deadlineMs} ms`))
    this.#next()
  }

  #fail(pending: Pending, error: MoonMQError): void {
    pending.deadline.cancel()
    pending.reject(error)
  }

  #rest(): void {
    const thread = this.#thread
    if (thread === null) return
    thread.unref()
    this.#idle ??= this.#clock.setTimer(this.#options.idleMs, () => {
      this.#idle = null
      if (this.#running === null) void this.#endThread(failed('the thread was idle'))
    })
  }

  /** Never rejects: a thread that does not end in order is of no use to anybody. */
  async #endThread(error: MoonMQError): Promise<void> {
    this.#idle?.cancel()
    this.#idle = null
    const thread = this.#thread
    const pending = this.#running
    this.#thread = null
    this.#running = null
    if (pending !== null) this.#fail(pending, error)
    await thread
      ?.terminate()
      .catch((cause: unknown) => this.#log.warn('offload.end_failed', 'a thread did not end', { error: String(cause) }))
  }
}

/** Runs jobs on the calling thread when the completions say so: for simulation, where a thread would bring its own order. */
export class InlineOffload implements Offload {
  readonly #run: RunJob
  readonly #completions: Completions

  constructor(deps: { run: RunJob; completions?: Completions }) {
    this.#run = deps.run
    this.#completions = deps.completions ?? AT_ONCE
  }

  async run<J extends OffloadJob>(job: J): Promise<OffloadResults[J['kind']]> {
    await this.#completions.arrive(`offload ${job.kind}`)
    return (await this.#run(job)) as OffloadResults[J['kind']]
  }

  async close(): Promise<void> {}
}

function failed(reason: string, cause?: unknown): MoonMQError {
  return new MoonMQError('OFFLOAD_FAILED', { reason }, cause)
}

/** Bytes arrive as plain arrays of bytes. */
function asBuffers(result: OffloadResult): OffloadResult {
  if (result instanceof Uint8Array) return asBuffer(result)
  if (result === null || !('records' in result) || result.records === null) return result
  return { ...result, records: asBuffer(result.records) }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
