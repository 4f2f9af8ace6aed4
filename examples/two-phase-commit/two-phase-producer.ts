import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { ByteReader } from '../../src/core/reader.ts'
import { ByteWriter } from '../../src/core/writer.ts'
import { buildBatch } from '../../src/record/builder.ts'
import type { Input } from '../../src/schema/compile.ts'
import { API_KEYS } from '../../src/schema/data.generated.ts'
import { readResponseHeader, writeRequestHeader } from '../../src/schema/headers.ts'
import { type ApiName, requestCodec, responseCodec } from '../../src/schema/messages.ts'
import type { Requests, Responses } from '../../src/schema/types.generated.ts'

/** A transaction that is ready to be committed: what the database keeps beside its own rows. */
export interface Prepared {
  readonly producerId: number
  readonly producerEpoch: number
}

/** The coordinator is loading, or away, or still ends the transaction before. */
const PASSING: ReadonlySet<number> = new Set([14, 15, 51])

/**
 * A transactional producer for two-phase commit (KIP-939) in raw frames, since no released client has it: it speaks InitProducerId 6,
 * Produce 12 and EndTxn 5. One request at a time, one record a request.
 */
export class TwoPhaseProducer {
  readonly #socket: Socket
  readonly #id: string
  #identity: Prepared = { producerId: -1, producerEpoch: -1 }
  #sequences = new Map<string, number>()
  #correlationId = 0
  #bytes: Buffer = Buffer.alloc(0)

  private constructor(socket: Socket, id: string) {
    this.#socket = socket
    this.#id = id
  }

  static async connect(address: string, transactionalId: string): Promise<TwoPhaseProducer> {
    const [host = '', port = ''] = address.split(':')
    const socket = connect(Number(port), host)
    await once(socket, 'connect')
    return new TwoPhaseProducer(socket, transactionalId)
  }

  /**
   * Takes over the transactional id and keeps the transaction that its last user left prepared, to be ended by `end`. Null: there is none.
   */
  async begin(): Promise<Prepared | null> {
    for (;;) {
      const answer = await this.#ask('InitProducerId', 6, {
        transactionalId: this.#id,
        transactionTimeoutMs: 0,
        producerId: -1,
        producerEpoch: -1,
        enable2Pc: true,
        keepPreparedTxn: true,
      })
      if (PASSING.has(answer.errorCode)) continue
      expectNone('InitProducerId', answer.errorCode)
      this.#identity = answer
      this.#sequences = new Map()
      const { ongoingTxnProducerId: producerId, ongoingTxnProducerEpoch: producerEpoch } = answer
      return producerId < 0 ? null : { producerId, producerEpoch }
    }
  }

  async send(topic: { readonly name: string; readonly id: string }, partition: number, value: string): Promise<void> {
    const place = `${topic.id}-${partition}`
    const baseSequence = this.#sequences.get(place) ?? 0
    const record = { key: null, value: Buffer.from(value), timestampMs: Date.now() }
    const records = buildBatch([record], { ...this.#identity, baseSequence, transactional: true })
    const answer = await this.#ask('Produce', 12, {
      transactionalId: this.#id,
      acks: -1,
      timeoutMs: 30_000,
      topicData: [{ name: topic.name, partitionData: [{ index: partition, records }] }],
    })
    expectNone('Produce', answer.responses[0]?.partitionResponses[0]?.errorCode ?? -1)
    this.#sequences.set(place, baseSequence + 1)
  }

  /** Everything sent is on the broker's disk and waits for the decision, for as long as it takes. */
  prepare(): Prepared {
    return this.#identity
  }

  async end(committed: boolean): Promise<void> {
    const answer = await this.#ask('EndTxn', 5, { transactionalId: this.#id, ...this.#identity, committed })
    expectNone('EndTxn', answer.errorCode)
    this.#identity = answer
    this.#sequences = new Map()
  }

  close(): void {
    this.#socket.destroy()
  }

  async #ask<N extends ApiName>(name: N, version: number, request: Input<Requests[N]>): Promise<Responses[N]> {
    const writer = new ByteWriter()
    const apiKey = API_KEYS[name]
    writeRequestHeader(writer, { apiKey, apiVersion: version, correlationId: ++this.#correlationId, clientId: 'two-phase' })
    requestCodec(name, version).encode(writer, request)
    const length = Buffer.alloc(4)
    length.writeInt32BE(writer.length)
    this.#socket.write(Buffer.concat([length, writer.toBuffer()]))
    const reader = new ByteReader(await this.#frame())
    readResponseHeader(reader, apiKey, version)
    return responseCodec(name, version).decode(reader)
  }

  async #frame(): Promise<Buffer> {
    while (this.#bytes.length < 4 || this.#bytes.length < 4 + this.#bytes.readInt32BE(0)) {
      const [part] = (await once(this.#socket, 'data')) as [Buffer]
      this.#bytes = Buffer.concat([this.#bytes, part])
    }
    const end = 4 + this.#bytes.readInt32BE(0)
    const frame = this.#bytes.subarray(4, end)
    this.#bytes = this.#bytes.subarray(end)
    return frame
  }
}

function expectNone(name: string, errorCode: number): void {
  if (errorCode !== 0) throw new Error(`${name} was answered with Kafka's error ${errorCode}`)
}
