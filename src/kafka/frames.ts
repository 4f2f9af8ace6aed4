import { MoonMQError } from '../core/errors.ts'
import { KIB } from '../core/limits.ts'

/** Request header v0: key, version, correlation id. Nothing shorter can be a request. */
const SMALLEST_REQUEST_BYTES = 8
const FIRST_PARTIAL_BYTES = 64 * KIB
/** What a buffer costs beside its bytes; keeps a sender of single bytes from filling memory with bookkeeping. */
const CHUNK_OVERHEAD_BYTES = 128

/**
 * Memory for frames that have begun and are not complete, shared by the connections of a door. A connection that would exceed it
 * is closed rather than paused: paused frames would hold what the others wait for.
 */
export class FrameBudget {
  readonly #limitBytes: number
  #takenBytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  get takenBytes(): number {
    return this.#takenBytes
  }

  take(bytes: number): boolean {
    if (this.#takenBytes + bytes > this.#limitBytes) return false
    this.#takenBytes += bytes
    return true
  }

  give(bytes: number): void {
    this.#takenBytes -= bytes
  }
}

/**
 * Cuts a stream into Kafka frames (int32 length, then that many bytes) as they are asked for.
 *
 * A frame that lies within one chunk is a view of it: the network hands each chunk over for good, so the broker may own and change
 * the record batch inside. A frame over several chunks is copied once into memory of its own, which grows with what has arrived
 * and never ahead of it: a length alone takes no memory.
 */
export class FrameReader {
  #maxFrameBytes: number
  #budget: FrameBudget
  readonly #waiting: Buffer[] = []
  #waitingBytes = 0
  #chunk: Buffer | null = null
  #at = 0
  /** Length of the frame that is being read, or −1 while its four bytes are. */
  #length = -1
  #lengthSoFar = 0
  #lengthBytes = 0
  #partial: Buffer | null = null
  #filled = 0

  constructor(budget: FrameBudget, maxFrameBytes: number) {
    this.#budget = budget
    this.#maxFrameBytes = maxFrameBytes
  }

  /** Bytes that arrived and were not asked for yet, with what keeping them costs. */
  get waitingBytes(): number {
    return this.#waitingBytes + (this.#chunk === null ? 0 : this.#chunk.length - this.#at)
  }

  /** A frame has begun and is not complete. */
  get inFrame(): boolean {
    return this.#length >= 0 || this.#lengthBytes > 0
  }

  /** The connection has sent a valid request: larger frames, and memory from another budget. Called between two frames. */
  trust(budget: FrameBudget, maxFrameBytes: number): void {
    if (this.#partial !== null) throw new Error('a frame is half read')
    this.#budget = budget
    this.#maxFrameBytes = maxFrameBytes
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return
    if (this.#chunk === null) {
      this.#chunk = chunk
      this.#at = 0
      return
    }
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length + CHUNK_OVERHEAD_BYTES
  }

  /** The next whole frame without its length, or null. Throws FRAME_TOO_LARGE, BAD_FRAME and, out of memory, RATE_LIMITED. */
  next(): Buffer | null {
    for (let chunk = this.#chunk; chunk !== null; chunk = this.#chunk) {
      if (this.#length < 0) {
        // The length may end its chunk: what follows stands in the next one.
        this.#readLength(chunk)
        continue
      }
      const frame = this.#readBody(chunk)
      if (frame !== null) return frame
    }
    return null
  }

  /** Gives back all memory. Nothing may be asked for afterwards. */
  close(): void {
    this.#dropPartial()
    this.#chunk = null
    this.#waiting.length = 0
    this.#waitingBytes = 0
  }

  #readLength(chunk: Buffer): void {
    let length: number
    if (this.#lengthBytes === 0 && chunk.length - this.#at >= 4) {
      length = chunk.readInt32BE(this.#at)
      this.#advance(chunk, 4)
    } else {
      while (this.#lengthBytes < 4 && this.#at < chunk.length) {
        this.#lengthSoFar = (this.#lengthSoFar << 8) | (chunk[this.#at++] as number)
        this.#lengthBytes++
      }
      const complete = this.#lengthBytes === 4
      length = this.#lengthSoFar
      this.#advance(chunk, 0)
      if (!complete) return
    }
    this.#lengthSoFar = 0
    this.#lengthBytes = 0
    if (length < SMALLEST_REQUEST_BYTES) throw new MoonMQError('BAD_FRAME', { reason: `a frame of ${length} bytes cannot be a request` })
    if (length > this.#maxFrameBytes) {
      throw new MoonMQError('FRAME_TOO_LARGE', { size: length, limit: this.#maxFrameBytes, setting: 'socket.request.max.bytes' })
    }
    this.#length = length
  }

  #readBody(chunk: Buffer): Buffer | null {
    const length = this.#length
    const available = chunk.length - this.#at
    if (this.#partial === null && available >= length) {
      const frame = chunk.subarray(this.#at, this.#at + length)
      this.#length = -1
      this.#advance(chunk, length)
      return frame
    }
    const size = Math.min(available, length - this.#filled)
    const partial = this.#room(size)
    chunk.copy(partial, this.#filled, this.#at, this.#at + size)
    this.#filled += size
    this.#advance(chunk, size)
    if (this.#filled < length) return null
    this.#length = -1
    this.#dropPartial()
    return partial
  }

  /** Memory for `size` more bytes of the frame: at most four times what has arrived, so the whole is copied 1.3 times at worst. */
  #room(size: number): Buffer {
    const needed = this.#filled + size
    const old = this.#partial
    if (old !== null && old.length >= needed) return old
    const capacity = Math.min(this.#length, Math.max(FIRST_PARTIAL_BYTES, 4 * needed))
    if (!this.#budget.take(capacity)) {
      throw new MoonMQError('RATE_LIMITED', { reason: 'too much memory is held by unfinished requests of all connections' })
    }
    // Not from the shared pool: the broker may keep a batch of this frame for long.
    const grown = Buffer.allocUnsafeSlow(capacity)
    if (old !== null) {
      old.copy(grown, 0, 0, this.#filled)
      this.#budget.give(old.length)
    }
    this.#partial = grown
    return grown
  }

  #dropPartial(): void {
    if (this.#partial !== null) this.#budget.give(this.#partial.length)
    this.#partial = null
    this.#filled = 0
  }

  #advance(chunk: Buffer, size: number): void {
    this.#at += size
    if (this.#at < chunk.length) return
    const next = this.#waiting.shift()
    if (next !== undefined) this.#waitingBytes -= next.length + CHUNK_OVERHEAD_BYTES
    this.#chunk = next ?? null
    this.#at = 0
  }
}
