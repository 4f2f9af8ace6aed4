import type { Clock, Timer } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import type { Log } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type { Fetched, FetchedFollowed, FetchPartition, FetchPort, FetchRequest } from '../ports.ts'
import type { Partitions, ServedTopic } from '../topics/partitions.ts'
import { Followed } from './followed.ts'
import { type PartitionRead, readPartition } from './read-partition.ts'

/** Of one request, before others get their turn. What moves meanwhile is looked at again before the request waits. */
const PARTITIONS_PER_TURN = 1000

export interface FetchDeps {
  readonly partitions: Partitions
  readonly clock: Clock
  readonly metrics: Metrics
}

export interface FetchOptions {
  /** Largest answer, whatever the client asks for: Kafka's `fetch.max.bytes`. */
  readonly maxBytes: number
  /** Waiting requests of the whole broker. One more ends the oldest early, with what there is. */
  readonly maxParked: number
}

/** Where a connection's next request starts reading, when the last one ran out of room before it. */
interface Turn {
  readonly topic: string
  readonly partition: number
}

/** What one pass over the partitions found. */
interface Pass {
  readonly results: (PartitionRead | undefined)[]
  bytes: number
  /** An error or a diverging epoch: the answer does not wait. */
  urgent: boolean
}

/**
 * Fetch as in KIP-74: the first batch of the first partition that has one is returned whole whatever the limits; after that, limits
 * hold. A request that finds too little is parked: it costs one watcher a partition and one timer, and nothing until a log moves.
 */
export class FetchService implements FetchPort {
  readonly #partitions: Partitions
  readonly #clock: Clock
  readonly #options: FetchOptions
  /** By the signal of the connection, which is all that tells two of them apart. */
  readonly #turns = new WeakMap<AbortSignal, Turn>()
  readonly #parked = new Set<Parked>()
  readonly #stopWatching: () => void
  readonly #stopObserving: () => void
  #closed = false

  constructor(deps: FetchDeps, options: FetchOptions) {
    this.#partitions = deps.partitions
    this.#clock = deps.clock
    this.#options = options
    this.#stopObserving = deps.metrics.observed('moonmq_fetches_waiting', () => this.#parked.size)
    this.#stopWatching = this.#partitions.onRemoved((topic) => this.#wakeAll(topic))
  }

  get parkedCount(): number {
    return this.#parked.size
  }

  async fetch(context: RequestContext, request: FetchRequest): Promise<Fetched> {
    const deadlineMs = this.#clock.monotonicMs() + request.maxWaitMs
    const maxBytes = Math.min(request.maxBytes, this.#options.maxBytes)
    const minBytes = Math.min(request.minBytes, maxBytes)
    for (;;) {
      const pass = await this.#read(context, request, maxBytes)
      const leftMs = deadlineMs - this.#clock.monotonicMs()
      if (
        pass.urgent ||
        pass.bytes >= minBytes ||
        leftMs <= 0 ||
        context.signal.aborted ||
        this.#closed ||
        request.partitions.length === 0
      ) {
        return this.#answer(pass)
      }
      releaseAll(pass)
      // What moved while this turn ended or another partition was read from disk has no event to come.
      if (this.#moved(request, pass)) continue
      const waited = this.#park(context, request, this.#logsOf(request), minBytes - pass.bytes, leftMs)
      if (!(await waited)) {
        // Out of time, gone or stopped: what is there now is the answer.
        return this.#answer(await this.#read(context, request, maxBytes))
      }
    }
  }

  follow(): Followed {
    return new Followed({ partitions: this.#partitions, clock: this.#clock })
  }

  async fetchFollowed(context: RequestContext, followed: Followed, request: Omit<FetchRequest, 'partitions'>): Promise<FetchedFollowed> {
    const deadlineMs = this.#clock.monotonicMs() + request.maxWaitMs
    const maxBytes = Math.min(request.maxBytes, this.#options.maxBytes)
    const minBytes = Math.min(request.minBytes, maxBytes)
    // What an earlier look of this request has seen and nobody was told of yet is looked at again.
    const asked = new Set<FetchPartition>()
    for (;;) {
      followed.take(request.isolation, asked)
      const partitions = [...asked]
      const pass = await this.#read(context, { ...request, partitions }, maxBytes)
      noteAll(followed, partitions, pass)
      const leftMs = deadlineMs - this.#clock.monotonicMs()
      if (pass.urgent || pass.bytes >= minBytes || leftMs <= 0 || context.signal.aborted || this.#closed || followed.isClosed) {
        return { ...this.#answer(pass), asked: partitions }
      }
      releaseAll(pass)
      if (!followed.hasNews) await this.#awaitNews(context.signal, followed, minBytes - pass.bytes, leftMs)
    }
  }

  #awaitNews(signal: AbortSignal, followed: Followed, missingBytes: number, waitMs: number): Promise<void> {
    this.#makeRoom()
    return new Promise((resolve) => {
      const end = () => {
        if (!this.#parked.delete(parked)) return false
        timer.cancel()
        signal.removeEventListener('abort', end)
        stop()
        resolve()
        return true
      }
      // The partitions that it follows have watchers of their own.
      const parked: Parked = { end, reads: () => false }
      const timer = this.#clock.setTimer(waitMs, end)
      const stop = followed.await(missingBytes, end)
      signal.addEventListener('abort', end, { once: true })
      this.#parked.add(parked)
    })
  }

  #makeRoom(): void {
    if (this.#parked.size >= this.#options.maxParked) for (const oldest of this.#parked) if (oldest.end(false)) break
  }

  #answer(pass: Pass): Fetched {
    const partitions = pass.results.filter((each) => each !== undefined)
    for (const { topic, read } of partitions) {
      if (read !== null && read.sizeBytes > 0) this.#partitions.topic(topic)?.counters.fetchedBytes.add(read.sizeBytes)
    }
    let released = false
    return {
      partitions,
      release() {
        if (released) return
        released = true
        releaseAll(pass)
      },
    }
  }

  async #read(context: RequestContext, request: FetchRequest, maxBytes: number): Promise<Pass> {
    const count = request.partitions.length
    const pass: Pass = { results: new Array<PartitionRead | undefined>(count), bytes: 0, urgent: false }
    const start = this.#startOf(context, request)
    try {
      for (let step = 0; step < count; step++) {
        if (step > 0 && step % PARTITIONS_PER_TURN === 0) await new Promise<void>((resolve) => this.#clock.defer(resolve))
        const index = (start + step) % count
        const wanted = request.partitions[index]
        if (wanted === undefined) continue
        const room = maxBytes - pass.bytes
        const reading = readPartition(this.#partitions, context, wanted, {
          isolation: request.isolation,
          maxBytes: Math.max(0, Math.min(wanted.maxBytes, room)),
          minOneBatch: pass.bytes === 0,
        })
        const result = reading instanceof Promise ? await reading : reading
        pass.results[index] = result
        if (result.starved && pass.bytes > 0) this.#remember(context, wanted)
        pass.bytes += result.read?.sizeBytes ?? 0
        pass.urgent ||= result.error !== null || result.divergingEpoch !== null
      }
      return pass
    } catch (error) {
      releaseAll(pass)
      throw error
    }
  }

  /** With one batch an answer each partition must still come first at some time (KIP-74): the next request goes on where room ran out. */
  #startOf(context: RequestContext, request: FetchRequest): number {
    if (request.partitions.length < 2) return 0
    const turn = this.#turns.get(context.signal)
    if (turn === undefined) return 0
    this.#turns.delete(context.signal)
    const at = request.partitions.findIndex((each) => each.partition === turn.partition && each.topic === turn.topic)
    return Math.max(0, at)
  }

  #remember(context: RequestContext, wanted: Turn): void {
    if (this.#turns.has(context.signal)) return
    this.#turns.set(context.signal, { topic: wanted.topic, partition: wanted.partition })
  }

  /** Whether a partition has changed since the pass looked at it. */
  #moved(request: FetchRequest, pass: Pass): boolean {
    return request.partitions.some((wanted, index) => {
      const seen = pass.results[index]
      const log = this.#partitions.topic(wanted.topic)?.partitions[wanted.partition]?.log
      return (
        seen === undefined ||
        log === undefined ||
        log !== seen.log ||
        log.state === 'closed' ||
        log.highWatermark !== seen.highWatermark ||
        log.lastStableOffset !== seen.lastStableOffset ||
        log.logStartOffset !== seen.logStartOffset
      )
    })
  }

  #logsOf(request: FetchRequest): Log[] {
    const logs: Log[] = []
    for (const each of request.partitions) {
      const log = this.#partitions.topic(each.topic)?.partitions[each.partition]?.log
      if (log !== undefined) logs.push(log)
    }
    return logs
  }

  /** Resolves true when reading again may give more, false when the wait is over. */
  #park(context: RequestContext, request: FetchRequest, logs: readonly Log[], missingBytes: number, waitMs: number): Promise<boolean> {
    this.#makeRoom()
    return new Promise((resolve) => {
      const parked = new ParkedFetch(this.#clock, { request, logs, missingBytes, waitMs, signal: context.signal }, (again) => {
        this.#parked.delete(parked)
        resolve(again)
      })
      this.#parked.add(parked)
    })
  }

  #wakeAll(topic: ServedTopic): void {
    for (const parked of [...this.#parked]) if (parked.reads(topic.name)) parked.end(true)
  }

  /** Answers every parked request with what there is. */
  close(): void {
    this.#closed = true
    this.#stopWatching()
    this.#stopObserving()
    for (const parked of [...this.#parked]) parked.end(false)
  }
}

/** What has given records is noted last, so that it comes last the next time. */
function noteAll(followed: Followed, partitions: readonly FetchPartition[], { results }: Pass): void {
  for (const gave of [false, true]) {
    for (const [at, found] of results.entries()) {
      if (found !== undefined && (found.read?.sizeBytes ?? 0) > 0 === gave) followed.note(partitions[at] as FetchPartition, found)
    }
  }
}

function releaseAll(pass: Pass): void {
  for (const result of pass.results) result?.read?.release()
}

interface ParkedOptions {
  readonly request: FetchRequest
  readonly logs: readonly Log[]
  readonly missingBytes: number
  readonly waitMs: number
  readonly signal: AbortSignal
}

/** What waits: `end` says false when it had ended before, and takes whether reading again may give more. */
interface Parked {
  end(again: boolean): boolean
  reads(topic: string): boolean
}

/** A request that waits: owns its timer, its watchers and its place at the signal until `end`, which happens once. */
class ParkedFetch implements Parked {
  readonly #request: FetchRequest
  readonly #logs: readonly Log[]
  readonly #stops: (() => void)[] = []
  readonly #timer: Timer
  readonly #signal: AbortSignal
  readonly #sizeWhenParked: number
  readonly #hiddenWhenParked: boolean
  readonly #missingBytes: number
  readonly #finish: (again: boolean) => void
  #ended = false

  constructor(clock: Clock, options: ParkedOptions, finish: (again: boolean) => void) {
    this.#request = options.request
    this.#logs = options.logs
    this.#missingBytes = options.missingBytes
    this.#signal = options.signal
    this.#finish = finish
    this.#sizeWhenParked = this.#totalBytes()
    const isCommitted = options.request.isolation === 'read_committed'
    this.#hiddenWhenParked = options.logs.some((log) => log.logEndOffset > (isCommitted ? log.lastStableOffset : log.highWatermark))
    this.#timer = clock.setTimer(options.waitMs, () => this.end(false))
    options.signal.addEventListener('abort', this.#onAbort, { once: true })
    for (const log of options.logs) this.#stops.push(log.watch((event) => this.#onEvent(event)))
  }

  #totalBytes(): number {
    let bytes = 0
    for (const log of this.#logs) bytes += log.sizeBytes
    return bytes
  }

  readonly #onAbort = () => {
    this.end(false)
  }

  #onEvent(event: 'advance' | 'state' | 'start'): void {
    if (event !== 'advance' || this.#mayHaveEnough()) this.end(true)
  }

  /**
   * Whether reading again is worth it. What became visible is at most what the logs grew by, unless something was written but not
   * visible yet when the wait began.
   */
  #mayHaveEnough(): boolean {
    return this.#missingBytes <= 1 || this.#hiddenWhenParked || this.#totalBytes() - this.#sizeWhenParked >= this.#missingBytes
  }

  reads(topic: string): boolean {
    return this.#request.partitions.some((each) => each.topic === topic)
  }

  /** False when it had ended before. */
  end(again: boolean): boolean {
    if (this.#ended) return false
    this.#ended = true
    this.#timer.cancel()
    this.#signal.removeEventListener('abort', this.#onAbort)
    for (const stop of this.#stops) stop()
    this.#finish(again)
    return true
  }
}
