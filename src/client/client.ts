import { setMaxListeners } from 'node:events'
import { MoonMQError } from '../core/errors.ts'
import { KIB, MIB } from '../core/limits.ts'
import { hastened } from './abortable.ts'
import { describe, LinkAdmin } from './admin.ts'
import {
  checkConsumerOptions,
  checkName,
  checkProducerOptions,
  checkPushOptions,
  checkReaderOptions,
  checkTransactionalOptions,
} from './arguments.ts'
import { GroupConsumer } from './consumer.ts'
import { IdempotentProducer } from './idempotent-producer.ts'
import { Link } from './link.ts'
import { type ClientDeps, depsOf, type Target, targetOf } from './options.ts'
import { BatchingProducer } from './producer.ts'
import { StreamConsumer } from './push-consumer.ts'
import { TopicReader } from './reader.ts'
import { WireSession } from './session.ts'
import { NamedProducer } from './transactional-producer.ts'
import type {
  Admin,
  Client,
  ClientOptions,
  Closable,
  Consumer,
  ConsumerOptions,
  PartitionReadersOptions,
  Producer,
  ProducerOptions,
  PushConsumer,
  PushConsumerOptions,
  Reader,
  ReaderOptions,
  RequestControl,
  Session,
  TopicDescription,
  TransactionalProducer,
  TransactionalProducerOptions,
} from './types.ts'
import { FetchConsumer } from './version-1.ts'

/** Answers that readers of many partitions hold together, besides as many that are on their way. */
const SHARED_BYTES = 32 * MIB
const MIN_SHARE_BYTES = 16 * KIB

/** Owns the connection of admin and producers, and everything made from it. */
class LinkClient implements Client {
  readonly admin: Admin
  readonly #deps: ClientDeps
  readonly #target: Target
  readonly #link: Link
  readonly #signal: AbortSignal | undefined
  readonly #parts = new Set<Closable>()
  readonly #onAbort: () => void
  #server = { name: '', version: '' }
  #closing: Promise<void> | null = null

  constructor(deps: ClientDeps, target: Target, signal: AbortSignal | undefined) {
    this.#deps = deps
    this.#target = target
    this.#signal = signal
    this.#link = new Link(deps, target)
    this.admin = new LinkAdmin(this.#link)
    this.#onAbort = () => {
      this.close().catch((error: unknown) => deps.log.debug('client.close_failed', `the client did not close in order: ${String(error)}`))
    }
  }

  async open(): Promise<void> {
    if (this.#signal?.aborted) throw new MoonMQError('ABORTED')
    this.#signal?.addEventListener('abort', this.#onAbort, { once: true })
    try {
      const { name, version } = (await this.#link.connection()).server
      this.#server = { name, version }
    } catch (error) {
      await this.close()
      if (this.#signal?.aborted) throw new MoonMQError('ABORTED', {}, error)
      throw error
    }
  }

  get server(): { readonly name: string; readonly version: string } {
    return this.#server
  }

  producer(options: ProducerOptions = {}): Producer {
    checkProducerOptions(options)
    const { clock, random } = this.#deps
    const { idempotent = true, acks } = options
    if (idempotent && acks !== 'none' && this.#link.server?.extended === true) {
      return this.#keep((gone) => new IdempotentProducer({ link: this.#link, clock, random }, options, gone))
    }
    return this.#keep((gone) => new BatchingProducer({ link: this.#link, clock }, options, gone))
  }

  async transactionalProducer(name: string, options: TransactionalProducerOptions = {}): Promise<TransactionalProducer> {
    checkName('the name of a transactional producer', name)
    checkTransactionalOptions(options)
    const { clock, random, log } = this.#deps
    const producer = this.#keep(
      (gone) => new NamedProducer({ link: this.#newLink(), clock, random, log }, name, this.#signalled(options), gone),
    )
    try {
      await producer.open()
      return producer
    } catch (error) {
      await producer.close()
      throw error
    }
  }

  reader(options: ReaderOptions): Reader {
    checkReaderOptions(options)
    return this.#readers(this.#signalled(options), [options.partitions])[0] as Reader
  }

  partitionReaders(options: PartitionReadersOptions): readonly Reader[] {
    checkReaderOptions(options, 0)
    const { partitions } = options
    const maxBytes = Math.max(MIN_SHARE_BYTES, Math.min(MIB, Math.floor(SHARED_BYTES / Math.max(1, partitions.length))))
    return this.#readers(
      { ...this.#signalled(options), maxBytes },
      partitions.map((partition) => [partition]),
    )
  }

  /** On one connection, which the last one that is closed closes. */
  #readers(given: ReaderOptions, partitions: readonly (readonly number[] | undefined)[]): Reader[] {
    const options = { ...given, ...(given.signal === undefined ? {} : { signal: AbortSignal.any([given.signal]) }) }
    // Every reader listens to it: a thousand of them are no leak.
    if (options.signal !== undefined) setMaxListeners(0, options.signal)
    const link = this.#newLink()
    let found: Promise<TopicDescription> | null = null
    const find = () => {
      found ??= describe(link, options.topic, options.signal)
      return found
    }
    let open = partitions.length
    return partitions.map((each) => {
      const chosen = each === undefined ? options : { ...options, partitions: each }
      return this.#keep(
        (gone) =>
          new TopicReader({ link, clock: this.#deps.clock, find }, chosen, async () => {
            if (--open === 0) await link.close()
            gone()
          }),
      )
    })
  }

  consumer(options: ConsumerOptions): Consumer {
    checkConsumerOptions(options)
    if (this.#link.server?.extended === false) {
      return this.#keep((gone) => new FetchConsumer({ link: this.#newLink() }, this.#signalled(options), gone))
    }
    const links = { reading: this.#newLink(), group: this.#newLink() }
    return this.#keep((gone) => new GroupConsumer({ links, clock: this.#deps.clock }, this.#signalled(options), gone))
  }

  pushConsumer(options: PushConsumerOptions): PushConsumer {
    checkPushOptions(options)
    return this.#keep((gone) => new StreamConsumer({ link: this.#newLink(), clock: this.#deps.clock }, this.#signalled(options), gone))
  }

  session(): Session {
    return this.#keep((gone) => new WireSession(this.#newLink(), gone))
  }

  close({ signal }: RequestControl = {}): Promise<void> {
    this.#closing ??= this.#close()
    return hastened(this.#closing, signal, () => {
      void this.#link.close()
      // Each is being closed already: this only hastens it, and its failure is told above.
      for (const part of this.#parts) part.close({ signal: AbortSignal.abort() }).catch(() => undefined)
    })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    this.#signal?.removeEventListener('abort', this.#onAbort)
    // Whoever aborts does not wait for acknowledgements.
    if (this.#signal?.aborted) await this.#link.close()
    try {
      await Promise.all([...this.#parts].map((part) => part.close()))
    } finally {
      await this.#link.close()
    }
  }

  #newLink(): Link {
    return new Link(this.#deps, this.#target)
  }

  #signalled<T extends { readonly signal?: AbortSignal }>(options: T): T {
    if (this.#signal === undefined) return options
    return { ...options, signal: options.signal === undefined ? this.#signal : AbortSignal.any([options.signal, this.#signal]) }
  }

  #keep<T extends Closable>(make: (gone: () => void) => T): T {
    const part: T = make(() => this.#parts.delete(part))
    this.#parts.add(part)
    return part
  }
}

/** Connects and logs in. Rejects with CONNECT_FAILED, ABORTED, REQUEST_TIMED_OUT, or what the broker refuses with. */
export async function connect(options: ClientOptions): Promise<Client> {
  // What it is given is looked at there.
  const target = targetOf(options)
  const client = new LinkClient(depsOf(options), target, options.signal)
  await client.open()
  return client
}
