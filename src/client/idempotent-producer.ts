import type { Clock } from '../core/clock.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import type { Random } from '../core/random.ts'
import type { Identity } from './lane.ts'
import type { Link } from './link.ts'
import { sendThrough } from './outgoing.ts'
import { ACKS, DEFAULT_BATCH_BYTES, DEFAULT_PENDING_BYTES } from './producer.ts'
import { SendWindow } from './send-window.ts'
import { type SenderHost, SequencedSender } from './sequenced-sender.ts'
import type { Acked, Producer, ProducerOptions, RecordToSend } from './types.ts'

export const DEFAULT_DELIVERY_TIMEOUT_MS = 120_000

/**
 * Gathers records of a partition into batches and numbers them, so that what is sent again after a lost connection or a restart of the
 * broker is stored once. It has no session: any connection goes on with its id.
 */
export class IdempotentProducer implements Producer, SenderHost {
  readonly #link: Link
  readonly #window: SendWindow
  readonly #sender: SequencedSender
  readonly #onClose: () => void
  #identity: Promise<Identity> | null = null
  #closed = false

  constructor(deps: { link: Link; clock: Clock; random: Random }, options: ProducerOptions, onClose: () => void) {
    this.#link = deps.link
    this.#onClose = onClose
    this.#window = new SendWindow(options.maxPendingBytes ?? DEFAULT_PENDING_BYTES)
    this.#sender = new SequencedSender(
      { ...deps, host: this },
      {
        flags: 0,
        acks: ACKS[options.acks ?? 'leader'],
        lingerMs: options.lingerMs ?? 0,
        batchBytes: options.batchBytes ?? DEFAULT_BATCH_BYTES,
        deliveryTimeoutMs: options.deliveryTimeoutMs ?? DEFAULT_DELIVERY_TIMEOUT_MS,
      },
    )
  }

  async send(topic: string, record: RecordToSend): Promise<Acked> {
    if (this.#closed) throw new MoonMQError('CLOSED', { what: 'the producer' })
    const deps = { window: this.#window, link: this.#link }
    return await sendThrough(deps, record, (outgoing) => this.#sender.add(topic, outgoing.record, outgoing))
  }

  async sendMany(topic: string, records: readonly RecordToSend[]): Promise<readonly Acked[]> {
    return Promise.all(records.map((record) => this.send(topic, record)))
  }

  flush(): Promise<void> {
    return this.#window.flush(() => this.#sender.hurry())
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.flush()
    this.#onClose()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  // ---- what the sender asks ---------------------------------------------------------------------------------------------------

  identity(): Promise<Identity> {
    this.#identity ??= this.renew().catch((error: unknown) => {
      this.#identity = null
      throw error
    })
    return this.#identity
  }

  renew(): Promise<Identity> {
    const message = { name: '', transactionTimeoutMs: 0, producerId: -1, producerEpoch: 0 }
    return this.#link.retrying(() => this.#link.request('OPEN_PRODUCER', message, 'PRODUCER_OPENED'))
  }

  check(): void {}

  isOver(error: MoonMQError): boolean {
    return isCode(error, 'CLOSED') || isCode(error, 'ABORTED')
  }
}
