/** What the client does with a broker that speaks version 1 of the protocol without its extension. */
import { isCode, MoonMQError } from '../core/errors.ts'
import type { Message } from '../wire/messages.ts'
import { FETCH_BATCHED, ISOLATION_READ_COMMITTED } from '../wire/opcodes.ts'
import type { SendRecord, WireRecord } from '../wire/records.ts'
import { abortable } from './abortable.ts'
import type { ClientConnection, RequestOptions } from './connection.ts'
import type { Link } from './link.ts'
import { invalid } from './options.ts'
import type { ClientRecord, Consumer, ConsumerOptions, RequestControl } from './types.ts'

const DEFAULT_RECORDS = 500
const DEFAULT_IDLE_MS = 100
const EMPTY = Buffer.alloc(0)
const NO_HEADERS: readonly never[] = []

/** SEND as a PRODUCE_BATCH. Rejects records that version 1 cannot carry; the broker's own acks setting holds. */
export async function sendPlain(
  connection: ClientConnection,
  topic: string,
  records: readonly SendRecord[],
  options: RequestOptions,
): Promise<Message<'SENT'>> {
  const plain = records.map(({ partition, key, value, headers }) => {
    if (partition >= 0 || value === null || headers.length > 0) {
      throw MoonMQError.withText('UNSUPPORTED_VERSION', 'version 1 of the protocol has no explicit partition, headers or null values')
    }
    return { key: key ?? EMPTY, value }
  })
  const request = { flags: 0, codec: 0, topic, records: plain }
  const { acks, errorCode, errorMessage } = await connection.request('PRODUCE_BATCH', request, 'PRODUCE_BATCH_ACK', options)
  return {
    results: records.map((_, index) => {
      const ack = acks[index]
      return ack === undefined
        ? { partition: -1, offset: -1, error: 1 }
        : { partition: ack.partition, offset: Number(ack.offset), error: 0 }
    }),
    errors: [{ code: errorCode, name: '', message: errorMessage }],
  }
}

/**
 * A consumer over FETCH. The broker stores a position as soon as it has delivered; at the end the positions that are really done are
 * committed instead, so that what was not looked at comes again. A crash loses it: version 1 has no other way.
 */
export class FetchConsumer implements Consumer {
  readonly memberId = ''
  readonly assignment: Consumer['assignment'] = []
  readonly #link: Link
  readonly #options: ConsumerOptions
  readonly #onClose: () => void
  readonly #done = new Map<string, { readonly topic: string; readonly partition: number; offset: number }>()
  #connection: ClientConnection | null = null
  #started = false
  #closing: Promise<void> | null = null

  constructor(deps: { link: Link }, options: ConsumerOptions, onClose: () => void) {
    this.#link = deps.link
    this.#options = options
    this.#onClose = onClose
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ClientRecord> {
    if (this.#started) throw invalid('a consumer is read once')
    this.#started = true
    try {
      yield* this.#run()
    } catch (error) {
      if (!(isCode(error, 'CLOSED') && this.#link.signal.aborted)) throw error
    } finally {
      await this.close()
    }
  }

  async commit(record: ClientRecord, control: RequestControl = {}): Promise<void> {
    const { topic, partition, offset } = record
    if (this.#connection === null) throw invalid('a record of another consumer')
    await abortable(this.#commit(this.#connection, topic, partition, offset + 1), control.signal)
    this.#note(record, offset + 1, true)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    try {
      const connection = this.#connection
      if (connection?.open === true) {
        for (const { topic, partition, offset } of this.#done.values()) await this.#commit(connection, topic, partition, offset)
      }
    } finally {
      await this.#link.close()
      this.#onClose()
    }
  }

  async #commit(connection: ClientConnection, topic: string, partition: number, offset: number): Promise<void> {
    await connection.request('COMMIT', { topic, partition, offset }, 'OK', this.#link.optionsOf({ signal: this.#options.signal }))
  }

  async *#run(): AsyncGenerator<ClientRecord> {
    const { commit = 'after', endWhenIdle = false, idleMs = DEFAULT_IDLE_MS, signal } = this.#options
    // Positions live on the connection: it is not made again, or what is done would be mixed with what another one delivers.
    const connection = await this.#link.connected(this.#options.signal)
    this.#connection = connection
    for (;;) {
      const records: ClientRecord[] = []
      for (const topic of this.#options.topics) records.push(...(await this.#fetch(connection, topic)))
      if (records.length === 0) {
        if (endWhenIdle) return
        await this.#link.pause(idleMs, signal)
      }
      // Before the first of a partition is done, its own offset is where the group is.
      for (const record of records) this.#note(record, record.offset, false)
      for (const record of records) {
        yield record
        if (commit === 'after') this.#note(record, record.offset + 1, true)
      }
    }
  }

  async #fetch(connection: ClientConnection, topic: string): Promise<ClientRecord[]> {
    const { group, maxRecords = DEFAULT_RECORDS, isolation, signal } = this.#options
    const message = {
      topic,
      group,
      maxRecords,
      isolation: isolation === 'read_committed' ? ISOLATION_READ_COMMITTED : 0,
      flags: FETCH_BATCHED,
    }
    const batches = await connection.fetch(message, this.#link.optionsOf({ signal }))
    return batches.flatMap((batch) => batch.records.map(recordOf))
  }

  #note(record: ClientRecord, offset: number, done: boolean): void {
    const { topic, partition } = record
    const id = `${topic}-${partition}`
    const known = this.#done.get(id)
    if (known === undefined) this.#done.set(id, { topic, partition, offset })
    else if (done) known.offset = offset
  }
}

export function recordOf({ topic, partition, offset, timestampMs, key, value }: WireRecord): ClientRecord {
  return { topic, partition, offset: Number(offset), timestampMs: Number(timestampMs), key, value, headers: NO_HEADERS }
}
