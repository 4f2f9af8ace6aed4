import { isLoopback } from '../config/address.ts'
import type { Counter, Gauge, Metrics } from '../core/counters.ts'

export interface ConnectionLimitOptions {
  /** Connections in all, over every listener. */
  readonly maxConnections: number
  /** Per address before login; loopback is exempt. */
  readonly maxPerAddressBeforeLogin: number
  /** Descriptors that the process may have open; null = unknown. */
  readonly descriptorLimit: number | null
  /** Descriptors kept for files, so that a flood of clients never keeps a log from rolling. */
  readonly descriptorReserve: number
}

export const DEFAULT_CONNECTION_LIMITS: ConnectionLimitOptions = {
  maxConnections: 10_000,
  maxPerAddressBeforeLogin: 32,
  descriptorLimit: null,
  descriptorReserve: 512,
}

export type Refusal = 'total' | 'descriptors' | 'per_address'

/** A place that a connection takes; `leave` gives it back, `loggedIn` frees the place per address. Both may be called again. */
export interface Seat {
  loggedIn(): void
  leave(): void
}

/** Counts open connections of all listeners against the bounds, and refusals. */
export class ConnectionLimits {
  readonly max: number
  readonly #byDescriptors: boolean
  readonly #maxPerAddress: number
  readonly #beforeLogin = new Map<string, number>()
  readonly #openGauge: Gauge
  readonly #accepted: Counter
  readonly #refused: Readonly<Record<Refusal, Counter>>
  readonly #refusedForDescriptors: Counter
  #open = 0

  constructor(metrics: Metrics, options: ConnectionLimitOptions) {
    const byDescriptors = options.descriptorLimit === null ? Infinity : connectionsFor(options.descriptorLimit, options.descriptorReserve)
    this.max = Math.min(options.maxConnections, byDescriptors)
    this.#byDescriptors = byDescriptors < options.maxConnections
    this.#maxPerAddress = options.maxPerAddressBeforeLogin
    this.#openGauge = metrics.gauge('moonmq_connections_open')
    this.#accepted = metrics.counter('moonmq_connections_accepted_total')
    this.#refusedForDescriptors = metrics.counter('moonmq_connections_refused_fd_total')
    this.#refused = {
      total: metrics.counter('moonmq_connections_refused_total', { reason: 'total' }),
      descriptors: metrics.counter('moonmq_connections_refused_total', { reason: 'descriptors' }),
      per_address: metrics.counter('moonmq_connections_refused_total', { reason: 'per_address' }),
    }
  }

  get open(): number {
    return this.#open
  }

  /** A seat, or why there is none. */
  enter(host: string): Seat | Refusal {
    if (this.#open >= this.max) return this.#refuse(this.#byDescriptors ? 'descriptors' : 'total')
    const counted = !isLoopback(host)
    if (counted && (this.#beforeLogin.get(host) ?? 0) >= this.#maxPerAddress) return this.#refuse('per_address')
    this.#open++
    this.#openGauge.set(this.#open)
    this.#accepted.add()
    if (counted) this.#beforeLogin.set(host, (this.#beforeLogin.get(host) ?? 0) + 1)
    return this.#seat(host, counted)
  }

  #refuse(reason: Refusal): Refusal {
    this.#refused[reason].add()
    if (reason === 'descriptors') this.#refusedForDescriptors.add()
    return reason
  }

  #seat(host: string, counted: boolean): Seat {
    let waiting = counted
    let seated = true
    const loggedIn = () => {
      if (!waiting) return
      waiting = false
      const left = (this.#beforeLogin.get(host) ?? 1) - 1
      if (left > 0) this.#beforeLogin.set(host, left)
      else this.#beforeLogin.delete(host)
    }
    const leave = () => {
      loggedIn()
      if (!seated) return
      seated = false
      this.#open--
      this.#openGauge.set(this.#open)
    }
    return { loggedIn, leave }
  }
}

/** Never none at all: under a tiny descriptor limit a quarter of it still serves clients. */
function connectionsFor(descriptorLimit: number, reserve: number): number {
  return Math.max(Math.floor(descriptorLimit / 4), descriptorLimit - reserve)
}
