import type { Counter, Histogram, Metrics } from '../core/counters.ts'
import { hex } from './dispatch.ts'

/** The numbers of the native door: made once each, so that a frame only adds. */
export class Instruments {
  readonly bytesReceived: Counter
  readonly #bytesSent: Counter
  readonly #framesSent: Counter
  readonly #framesReceived: (Counter | undefined)[] = []
  readonly #seconds: (Histogram | undefined)[] = []
  readonly #closings = new Map<string, Counter>()
  readonly #metrics: Metrics

  constructor(metrics: Metrics) {
    this.#metrics = metrics
    this.bytesReceived = metrics.counter('moonmq_bytes_received_total', { protocol: 'native' })
    this.#bytesSent = metrics.counter('moonmq_bytes_sent_total', { protocol: 'native' })
    this.#framesSent = metrics.counter('moonmq_frames_sent_total')
  }

  received(opcode: number): void {
    let counter = this.#framesReceived[opcode]
    if (counter === undefined) {
      counter = this.#metrics.counter('moonmq_frames_received_total', { op: hex(opcode) })
      this.#framesReceived[opcode] = counter
    }
    counter.add()
  }

  /** From the start of a request until its answer is ready; opcodes that nothing serves are not measured. */
  answered(opcode: number, ms: number): void {
    let histogram = this.#seconds[opcode]
    if (histogram === undefined) {
      histogram = this.#metrics.histogram('moonmq_dispatch_duration_seconds', { op: hex(opcode) })
      this.#seconds[opcode] = histogram
    }
    histogram.observe(ms / 1000)
  }

  sent(frames: number, bytes: number): void {
    this.#framesSent.add(frames)
    this.#bytesSent.add(bytes)
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
