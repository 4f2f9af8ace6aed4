import type { BrokerSettings } from '../broker/settings.ts'
import { isLoopback } from '../config/address.ts'
import { elementsOf } from '../config/kafka-setting.ts'
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
  /** Kafka's bounds, asked for at each connection: they may change while the broker runs. */
  readonly kafka?: KafkaConnectionLimits
}

export interface KafkaConnectionLimits {
  /** `max.connections`. */
  total(): number
  /** `max.connection.creation.rate`. */
  perSecond(): number
  /** `max.connections.per.ip`, with its overrides. Loopback is not exempt. */
  ofAddress(host: string): number
}

const NO_KAFKA_LIMITS: KafkaConnectionLimits = { total: () => Infinity, perSecond: () => Infinity, ofAddress: () => Infinity }

export function kafkaConnectionLimits(settings: BrokerSettings): KafkaConnectionLimits {
  return {
    total: () => settings.number('max.connections'),
    perSecond: () => settings.number('max.connection.creation.rate'),
    ofAddress(host) {
      for (const override of elementsOf(settings.text('max.connections.per.ip.overrides'))) {
        const colon = override.lastIndexOf(':')
        if (override.slice(0, colon).replace(/^\[|\]$/g, '') === host) return Number(override.slice(colon + 1))
      }
      return settings.number('max.connections.per.ip')
    },
  }
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
  readonly #kafka: KafkaConnectionLimits
  readonly #beforeLogin = new Map<string, number>()
  readonly #byAddress = new Map<string, number>()
  readonly #openGauge: Gauge
  readonly #accepted: Counter
  readonly #refused: Readonly<Record<Refusal, Counter>>
  readonly #refusedForDescriptors: Counter
  #open = 0
  /** When the last of the connections that are served would have come at an even rate (monotonic). */
  #pacedMs = Number.NEGATIVE_INFINITY

  constructor(metrics: Metrics, options: ConnectionLimitOptions) {
    const byDescriptors = options.descriptorLimit === null ? Infinity : connectionsFor(options.descriptorLimit, options.descriptorReserve)
    this.max = Math.min(options.maxConnections, byDescriptors)
    this.#byDescriptors = byDescriptors < options.maxConnections
    this.#maxPerAddress = options.maxPerAddressBeforeLogin
    this.#kafka = options.kafka ?? NO_KAFKA_LIMITS
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
  enter(remote: string): Seat | Refusal {
    // One machine is one address, also where it comes over a socket of IPv6.
    const host = remote.replace(/^::ffff:/i, '')
    if (this.#open >= this.max) return this.#refuse(this.#byDescriptors ? 'descriptors' : 'total')
    if (this.#open >= this.#kafka.total()) return this.#refuse('total')
    if ((this.#byAddress.get(host) ?? 0) >= this.#kafka.ofAddress(host)) return this.#refuse('per_address')
    const counted = !isLoopback(host)
    if (counted && (this.#beforeLogin.get(host) ?? 0) >= this.#maxPerAddress) return this.#refuse('per_address')
    this.#open++
    this.#openGauge.set(this.#open)
    this.#accepted.add()
    count(this.#byAddress, host, 1)
    if (counted) count(this.#beforeLogin, host, 1)
    return this.#seat(host, counted)
  }

  /** 0 where one more connection may be served now, which counts it; else how long until one may, at the rate of now. */
  turnInMs(nowMs: number): number {
    const nextMs = Math.max(this.#pacedMs, nowMs - 1000) + 1000 / this.#kafka.perSecond()
    const waitMs = Math.max(0, Math.ceil(nextMs - nowMs))
    if (waitMs === 0) this.#pacedMs = nextMs
    return waitMs
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
      count(this.#beforeLogin, host, -1)
    }
    const leave = () => {
      loggedIn()
      if (!seated) return
      seated = false
      count(this.#byAddress, host, -1)
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

function count(byHost: Map<string, number>, host: string, change: number): void {
  const left = (byHost.get(host) ?? 0) + change
  if (left > 0) byHost.set(host, left)
  else byHost.delete(host)
}
