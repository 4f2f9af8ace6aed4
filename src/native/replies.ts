import type { Frame } from '../wire/frame.ts'
import type { Pace } from './dispatch.ts'

/** A request that was started and whose answer has not been sent. */
export interface OpenReply {
  /** What the request holds until its answer is ready. */
  readonly requestBytes: number
  readonly opcode: number
  readonly pace: Pace
  readonly startedMs: number
  /** Null: not ready. */
  frames: readonly Buffer[] | null
}

/** Answers leave in the order of their requests. */
export class Replies {
  readonly #open: OpenReply[] = []
  #unready = 0
  #unreadyBytes = 0
  #gathering = 0
  #readyBytes = 0

  /** Requests whose answers are not ready yet. */
  get unready(): number {
    return this.#unready
  }

  /** Bytes of those requests. */
  get unreadyBytes(): number {
    return this.#unreadyBytes
  }

  /** Of those requests: the ones whose records gather. */
  get gathering(): number {
    return this.#gathering
  }

  /** Bytes of answers that were not taken. */
  get readyBytes(): number {
    return this.#readyBytes
  }

  /** Requests whose answers were not taken. */
  get count(): number {
    return this.#open.length
  }

  begin({ opcode, payload }: Frame, pace: Pace, startedMs: number): OpenReply {
    const reply: OpenReply = { requestBytes: payload.length, opcode, pace, startedMs, frames: null }
    this.#open.push(reply)
    this.#unready++
    this.#unreadyBytes += reply.requestBytes
    if (pace === 'gathered') this.#gathering++
    return reply
  }

  ready(reply: OpenReply, frames: readonly Buffer[]): void {
    if (reply.frames !== null) return
    reply.frames = frames
    this.#unready--
    this.#unreadyBytes -= reply.requestBytes
    if (reply.pace === 'gathered') this.#gathering--
    for (const frame of frames) this.#readyBytes += frame.length
  }

  /** Every ready answer up to the first that is not. Null when there is none. */
  takeReady(): Buffer[] | null {
    let count = 0
    while (count < this.#open.length && this.#open[count]?.frames !== null) count++
    if (count === 0) return null
    const frames: Buffer[] = []
    for (const reply of this.#open.splice(0, count)) for (const frame of reply.frames ?? []) frames.push(frame)
    for (const frame of frames) this.#readyBytes -= frame.length
    return frames
  }

  clear(): void {
    this.#open.length = 0
    this.#unready = 0
    this.#unreadyBytes = 0
    this.#gathering = 0
    this.#readyBytes = 0
  }
}
