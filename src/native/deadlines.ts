import type { Clock, Timer } from '../core/clock.ts'
import type { NativeLimits } from './options.ts'

/** Which deadline passed. */
export type Overdue = 'handshake' | 'pre_auth_read' | 'idle' | 'heartbeat' | 'send'

/**
 * The deadlines of one connection (docs/PROTOCOL.md) on one timer. What happens only notes its time; the timer, when it fires, looks at
 * the notes and sets itself again, at the latest for the shortest limit that something may begin to run against meanwhile.
 */
export class ConnectionDeadlines {
  readonly #clock: Clock
  readonly #limits: NativeLimits
  readonly #overdue: (which: Overdue) => void
  readonly #probe: () => void
  #timer: Timer | null = null
  #acceptedMs = 0
  #loggedInMs: number | null = null
  /** Of the last byte. */
  #receivedMs = 0
  /** Of the end of the last frame. */
  #frameMs = 0
  /** Since when a frame has been incomplete, or null. */
  #partialMs: number | null = null
  #nextBeatMs = 0
  /** When each write that is not taken yet was begun, oldest first. */
  readonly #sends: number[] = []
  #reading = true
  #done = false

  constructor(clock: Clock, limits: NativeLimits, overdue: (which: Overdue) => void, probe: () => void) {
    this.#clock = clock
    this.#limits = limits
    this.#overdue = overdue
    this.#probe = probe
  }

  start(): void {
    const now = this.#clock.monotonicMs()
    this.#acceptedMs = now
    this.#receivedMs = now
    this.#frameMs = now
    this.#arm(now)
  }

  loggedIn(): void {
    const now = this.#clock.monotonicMs()
    this.#loggedInMs = now
    this.#nextBeatMs = now + this.#limits.heartbeatIntervalMs
    this.#arm(now)
  }

  /** Bytes came: `whole` frames were completed by them, and another one has begun or not. */
  received(whole: number, inFrame: boolean): void {
    const now = this.#clock.monotonicMs()
    this.#receivedMs = now
    if (whole > 0) this.#frameMs = now
    if (!inFrame) this.#partialMs = null
    else if (whole > 0 || this.#partialMs === null) this.#partialMs = now
  }

  /** While the broker does not read, what the client sends cannot be complete. */
  reading(yes: boolean): void {
    this.#reading = yes
    const now = this.#clock.monotonicMs()
    this.#receivedMs = now
    this.#frameMs = now
    if (this.#partialMs !== null) this.#partialMs = now
  }

  /** A write begins; the function returned is called when it was taken. */
  sending(): () => void {
    this.#sends.push(this.#clock.monotonicMs())
    return this.#taken
  }

  readonly #taken = () => {
    this.#sends.shift()
  }

  /** Only this is left to wait for. */
  linger(delayMs: number, then: () => void): void {
    this.#done = true
    this.#timer?.cancel()
    this.#timer = this.#clock.setTimer(delayMs, then)
  }

  close(): void {
    this.#done = true
    this.#timer?.cancel()
    this.#timer = null
  }

  #arm(now: number): void {
    if (this.#done) return
    this.#timer?.cancel()
    this.#timer = this.#clock.setTimer(Math.max(1, this.#nextMs(now) - now), () => this.#check())
  }

  #check(): void {
    if (this.#done) return
    const now = this.#clock.monotonicMs()
    const late = this.#late(now)
    if (late !== null) {
      this.#overdue(late)
      return
    }
    if (this.#loggedInMs !== null && now >= this.#nextBeatMs) {
      this.#nextBeatMs = now + this.#limits.heartbeatIntervalMs
      if (this.#reading && now - this.#receivedMs >= this.#limits.heartbeatIntervalMs / 2) this.#probe()
    }
    this.#arm(now)
  }

  #late(now: number): Overdue | null {
    const limits = this.#limits
    const sendMs = this.#sends[0]
    if (sendMs !== undefined && now - sendMs >= limits.sendDeadlineMs) return 'send'
    if (this.#loggedInMs === null) {
      if (now - this.#acceptedMs >= limits.handshakeDeadlineMs) return 'handshake'
      return now - this.#frameMs >= limits.preAuthReadDeadlineMs ? 'pre_auth_read' : null
    }
    if (!this.#reading) return null
    if (this.#partialMs !== null && now - this.#partialMs >= limits.idleDeadlineMs) return 'idle'
    return now - this.#receivedMs >= limits.heartbeatIntervalMs * limits.heartbeatMissThreshold ? 'heartbeat' : null
  }

  #nextMs(now: number): number {
    const limits = this.#limits
    let next = (this.#sends[0] ?? now) + limits.sendDeadlineMs
    if (this.#loggedInMs === null) {
      return Math.min(next, this.#acceptedMs + limits.handshakeDeadlineMs, this.#frameMs + limits.preAuthReadDeadlineMs)
    }
    next = Math.min(next, this.#nextBeatMs, (this.#partialMs ?? now) + limits.idleDeadlineMs)
    return this.#reading ? Math.min(next, this.#receivedMs + limits.heartbeatIntervalMs * limits.heartbeatMissThreshold) : next
  }
}
