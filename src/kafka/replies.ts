/** A request that was started and whose answer has not been sent. */
export interface OpenReply {
  /** What the request holds until its answer is ready. */
  readonly requestBytes: number
  /** Monotonic. */
  readonly startedMs: number
  /** Null: not ready. Empty: there is none. */
  parts: readonly Buffer[] | null
  /** Null until something is to be done once the answer was sent. */
  afterSent: (() => void)[] | null
}

export interface ReadyReplies {
  readonly parts: Buffer[]
  readonly sizeBytes: number
  readonly afterSent: readonly (() => void)[]
}

const NOTHING: readonly (() => void)[] = []

/** Answers leave in the order of their requests, all that are ready in one gathering write. */
export class Replies {
  readonly #open: OpenReply[] = []
  #unready = 0
  #unreadyBytes = 0
  #readyBytes = 0

  /** Requests whose answers are not ready yet. */
  get unready(): number {
    return this.#unready
  }

  /** Bytes of those requests. */
  get unreadyBytes(): number {
    return this.#unreadyBytes
  }

  /** Bytes of answers that are ready and not taken, those behind an answer that is not ready included. */
  get readyBytes(): number {
    return this.#readyBytes
  }

  /** Requests whose answers were not taken. */
  get count(): number {
    return this.#open.length
  }

  begin(requestBytes: number, startedMs: number): OpenReply {
    const reply: OpenReply = { requestBytes, startedMs, parts: null, afterSent: null }
    this.#open.push(reply)
    this.#unready++
    this.#unreadyBytes += requestBytes
    return reply
  }

  ready(reply: OpenReply, parts: readonly Buffer[]): void {
    reply.parts = parts
    this.#unready--
    this.#unreadyBytes -= reply.requestBytes
    for (const part of parts) this.#readyBytes += part.length
  }

  /** What can be sent now: every ready answer up to the first that is not. Null when there is none. */
  takeReady(): ReadyReplies | null {
    let count = 0
    while (count < this.#open.length && this.#open[count]?.parts !== null) count++
    if (count === 0) return null
    const parts: Buffer[] = []
    let sizeBytes = 0
    let afterSent: (() => void)[] | null = null
    for (const reply of this.#open.splice(0, count)) {
      for (const part of reply.parts ?? []) {
        parts.push(part)
        sizeBytes += part.length
      }
      if (reply.afterSent !== null) afterSent = afterSent === null ? reply.afterSent : afterSent.concat(reply.afterSent)
    }
    this.#readyBytes -= sizeBytes
    return { parts, sizeBytes, afterSent: afterSent ?? NOTHING }
  }

  /** Drops every answer; what the ready ones had lent is given back. Those that are not ready give it back when they are. */
  clear(): void {
    for (const reply of this.#open.splice(0)) if (reply.parts !== null) giveBack(reply)
    this.#readyBytes = 0
  }
}

export function giveBack(reply: OpenReply): void {
  const lent = reply.afterSent
  reply.afterSent = null
  if (lent !== null) for (const run of lent) run()
}
