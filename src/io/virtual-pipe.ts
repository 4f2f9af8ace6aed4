import type { Random } from '../core/random.ts'
import type { Completions } from './completions.ts'

/** The most that one delivery hands over: what a socket reads at once. */
const DELIVERY_BYTES = 64 * 1024

interface Waiting {
  readonly parts: readonly Buffer[]
  readonly bytes: number
  readonly sent: (() => void) | undefined
  /** The part and the byte in it that come next. */
  part: number
  offset: number
  taken: number
}

/** The receiving end, as the pipe sees it. */
export interface PipeReceiver {
  /** Started, not paused, not closed. */
  readonly ready: boolean
  received(bytes: Buffer): void
  /** The sender's last byte has arrived. */
  receivedEnd(): void
}

export interface PipeDeps {
  readonly completions: Completions
  /** Delivers any prefix of what is under way, as a network may; all that fits when absent. */
  readonly random?: Random
  /** Resolves when the network lets the next delivery through; undefined when nothing stands in its way. */
  readonly hold: () => Promise<void> | undefined
}

/**
 * One direction of a virtual connection. Like a kernel, it takes at most `windowBytes` that the receiver has not been given yet;
 * the rest waits with the sender. Bytes are copied when taken, so the sender may use its buffers again once `sent` was called.
 */
export class VirtualPipe {
  readonly #deps: PipeDeps
  readonly #label: string
  readonly #windowBytes: number
  readonly #drained: () => void
  readonly #waiting: Waiting[] = []
  readonly #told: Waiting[] = []
  #underWay: Buffer[] = []
  #underWayBytes = 0
  #queuedBytes = 0
  #receiver: PipeReceiver | null = null
  #ending = false
  #endDelivered = false
  #cut = false
  #delivering = false

  constructor(deps: PipeDeps, options: { label: string; windowBytes: number; drained: () => void }) {
    this.#deps = deps
    this.#label = options.label
    this.#windowBytes = options.windowBytes
    this.#drained = options.drained
  }

  /** Bytes of sends whose `sent` has not been called. */
  get queuedBytes(): number {
    return this.#queuedBytes
  }

  /** The receiver was told that no more comes. */
  get ended(): boolean {
    return this.#endDelivered
  }

  attach(receiver: PipeReceiver): void {
    this.#receiver = receiver
    this.wake()
  }

  send(parts: readonly Buffer[], sent: (() => void) | undefined): void {
    let bytes = 0
    for (const part of parts) bytes += part.length
    this.#waiting.push({ parts, bytes, sent, part: 0, offset: 0, taken: 0 })
    this.#queuedBytes += bytes
    if (this.#cut) this.#loseWaiting()
    else this.#take()
    this.wake()
  }

  /** No more follows what was sent. */
  end(): void {
    this.#ending = true
    this.wake()
  }

  /** The sender is gone: what it had queued is lost, what was taken still arrives, then the end. */
  abandon(): void {
    this.#loseWaiting()
    this.end()
  }

  /** Nothing arrives any more; what is sent from now on is lost as if it had been taken. */
  cut(): void {
    this.#cut = true
    this.#underWay = []
    this.#underWayBytes = 0
    this.#loseWaiting()
  }

  /** Called when the receiver may be ready again. */
  wake(): void {
    if (this.#delivering || !this.#hasDelivery()) return
    this.#delivering = true
    // `#deliver` ends normally; what a handler throws goes to the process as it would from a socket.
    void this.#deliver()
  }

  #hasDelivery(): boolean {
    if (this.#cut || this.#receiver?.ready !== true) return false
    return this.#underWayBytes > 0 || (this.#ending && !this.#endDelivered && this.#waiting.length === 0)
  }

  async #deliver(): Promise<void> {
    try {
      while (this.#hasDelivery()) {
        const held = this.#deps.hold()
        if (held !== undefined) await held
        await this.#deps.completions.arrive(this.#label)
        // Everything may have changed while the delivery was under way.
        if (this.#hasDelivery()) this.#deliverOnce()
      }
    } finally {
      this.#delivering = false
    }
  }

  #deliverOnce(): void {
    const receiver = this.#receiver
    if (receiver === null) return
    if (this.#underWayBytes === 0) {
      this.#endDelivered = true
      receiver.receivedEnd()
      return
    }
    const bytes = this.#next()
    this.#take()
    receiver.received(bytes)
  }

  #next(): Buffer {
    const { random } = this.#deps
    const most = Math.min(DELIVERY_BYTES, this.#underWayBytes)
    let size = random === undefined || random.below(2) === 0 ? most : 1 + random.below(most)
    const first = this.#underWay[0]
    if (first !== undefined && (first.length === size || (random === undefined && first.length >= DELIVERY_BYTES))) size = first.length
    const parts: Buffer[] = []
    for (let left = size; left > 0; ) {
      const part = this.#underWay[0]
      if (part === undefined) break
      if (part.length <= left) {
        parts.push(part)
        this.#underWay.shift()
        left -= part.length
      } else {
        parts.push(part.subarray(0, left))
        this.#underWay[0] = part.subarray(left)
        left = 0
      }
    }
    this.#underWayBytes -= size
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)
  }

  /** Takes what fits into the window, in one copy. */
  #take(): void {
    let room = this.#windowBytes - this.#underWayBytes
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting[0]
      if (waiting === undefined) break
      const size = Math.min(room, waiting.bytes - waiting.taken)
      if (size > 0) {
        this.#underWay.push(takeBytes(waiting, size))
        this.#underWayBytes += size
        room -= size
      }
      if (waiting.taken < waiting.bytes) break
      this.#waiting.shift()
      this.#tell(waiting)
    }
  }

  #loseWaiting(): void {
    for (const waiting of this.#waiting.splice(0)) this.#tell(waiting)
  }

  /** `sent` is never called from within `send`. */
  #tell(waiting: Waiting): void {
    this.#told.push(waiting)
    if (this.#told.length === 1) queueMicrotask(this.#tellAll)
  }

  readonly #tellAll = (): void => {
    for (const waiting of this.#told.splice(0)) {
      this.#queuedBytes -= waiting.bytes
      waiting.sent?.()
    }
    if (this.#queuedBytes === 0 && this.#waiting.length === 0 && this.#told.length === 0) this.#drained()
  }
}

function takeBytes(waiting: Waiting, size: number): Buffer {
  const taken = Buffer.allocUnsafeSlow(size)
  let done = 0
  while (done < size) {
    const part = waiting.parts[waiting.part]
    if (part === undefined) break
    const count = part.copy(taken, done, waiting.offset, waiting.offset + size - done)
    done += count
    waiting.offset += count
    if (waiting.offset === part.length) {
      waiting.part++
      waiting.offset = 0
    }
  }
  waiting.taken += size
  return taken
}
