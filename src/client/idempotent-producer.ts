import type { Clock } from '../core/clock.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import type { Random } from '../core/random.ts'
import { AbortListeners, abortable, hastened } from './abortable.ts'
import { checkList } from './arguments.ts'
import type { Identity } from './lane.ts'
import type { Link } from './link.ts'
import { type SendPath, sendThrough } from './outgoing.ts'
import { ACKS, DEFAULT_BATCH_BYTES, DEFAULT_PENDING_BYTES } from './producer.ts'
import { SendWindow } from './send-window.ts'
import { type SenderHost, SequencedSender } from './sequenced-sender.ts'
import type { Acked, Producer, ProducerOptions, RecordToSend, RequestControl } from './types.ts'

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
  readonly #path: SendPath
  readonly #signal: AbortSignal | undefined
  readonly #onAbort = () => this.#giveUp()
  #identity: Promise<Identity> | null = null
  #closing: Promise<void> | null = null
  #isGivenUp = false

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
    this.#path = {
      window: this.#window,
      link: this.#link,
      listeners: new AbortListeners(),
      add: (topic, outgoing) => this.#sender.add(topic, outgoing.record, outgoing),
      withdraw: () => this.#sender.withdraw(),
    }
    this.#signal = options.signal
    this.#signal?.addEventListener('abort', this.#onAbort, { once: true })
    this.#isGivenUp = this.#signal?.aborted === true
  }

  async send(topic: string, record: RecordToSend, { signal }: RequestControl = {}): Promise<Acked> {
    if (this.#isGivenUp) throw new MoonMQError('ABORTED')
    if (this.#closing !== null) throw new MoonMQError('CLOSED', { what: 'the producer' })
    return await sendThrough(this.#path, topic, record, signal)
  }

  async sendMany(topic: string, records: readonly RecordToSend[], control?: RequestControl): Promise<readonly Acked[]> {
    checkList('records', records, 'give a list of records')
    return Promise.all(records.map((record) => this.send(topic, record, control)))
  }

  flush({ signal }: RequestControl = {}): Promise<void> {
    return abortable(
      this.#window.flush(() => this.#sender.hurry()),
      signal,
    )
  }

  close({ signal }: RequestControl = {}): Promise<void> {
    this.#closing ??= this.#close()
    return hastened(this.#closing, signal, this.#onAbort)
  }

  async #close(): Promise<void> {
    await this.flush()
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#onClose()
  }

  /** What is not acknowledged is rejected; what was sent may be stored. */
  #giveUp(): void {
    this.#isGivenUp = true
    const error = new MoonMQError('ABORTED')
    this.#window.fail(error)
    this.#sender.fail(error)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  // ---- what the sender asks ---------------------------------------------------------------------------------------------------

  get isFlushing(): boolean {
    return this.#window.isFlushing
  }

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
    return this.#isGivenUp || isCode(error, 'CLOSED') || isCode(error, 'ABORTED')
  }
}
