import type { Counter, Histogram, Metrics } from '../core/counters.ts'
import type { AnyApi } from './handler.ts'

/** The numbers of the Kafka door: made once, so that a request only adds. */
export class Instruments {
  readonly bytesReceived: Counter
  readonly bytesSent: Counter
  readonly #requests = new Map<string, Counter>()
  readonly #seconds = new Map<string, Histogram>()
  readonly #closings = new Map<string, Counter>()
  readonly #metrics: Metrics

  constructor(metrics: Metrics, apis: readonly AnyApi[]) {
    this.#metrics = metrics
    this.bytesReceived = metrics.counter('moonmq_bytes_received_total', { protocol: 'kafka' })
    this.bytesSent = metrics.counter('moonmq_bytes_sent_total', { protocol: 'kafka' })
    for (const { name } of apis) {
      this.#requests.set(name, metrics.counter('moonmq_kafka_requests_total', { api: name }))
      this.#seconds.set(name, metrics.histogram('moonmq_kafka_request_seconds', { api: name }))
    }
  }

  request(api: string): void {
    this.#requests.get(api)?.add()
  }

  answered(api: string, ms: number): void {
    this.#seconds.get(api)?.observe(ms / 1000)
  }

  /** Reasons come from a short list in the code, never from input. */
  closed(reason: string): void {
    let counter = this.#closings.get(reason)
    if (counter === undefined) {
      counter = this.#metrics.counter('moonmq_connections_closed_total', { reason })
      this.#closings.set(reason, counter)
    }
    counter.add()
  }
}
