import { MoonMQError } from '../core/errors.ts'
import { MAX_FETCH_RECORDS } from '../wire/limits.ts'
import type { Message } from '../wire/messages.ts'
import { FETCH_BATCHED, ISOLATION_READ_COMMITTED } from '../wire/opcodes.ts'
import { checkNames, checkText, wrong } from './arguments.ts'
import type { ClientConnection } from './connection.ts'
import type { Link } from './link.ts'
import type { ClientRecord, GroupAssignment, NackResult, RequestControl, Session, SessionFetchOptions } from './types.ts'
import { recordOf } from './version-1.ts'

/**
 * The requests of one consumer, as they are, on one connection: what was delivered, the positions and the membership are
 * the connection's, so it is never made again. Once it is gone the session is over.
 */
export class WireSession implements Session {
  readonly #link: Link
  readonly #onClose: () => void
  #connection: ClientConnection | null = null
  #closing: Promise<void> | null = null

  constructor(link: Link, onClose: () => void) {
    this.#link = link
    this.#onClose = onClose
  }

  get open(): boolean {
    return this.#closing === null && (this.#connection === null || this.#connection.open)
  }

  async fetch(topic: string, group: string, maxRecords: number, options: SessionFetchOptions = {}): Promise<readonly ClientRecord[]> {
    const { signal, isolation: level, maxBytes = 0 } = options
    const isolation = level === 'read_committed' ? ISOLATION_READ_COMMITTED : 0
    const connection = await this.#only(signal)
    const wanted = { topic, group, isolation, maxRecords: Math.min(maxRecords, MAX_FETCH_RECORDS) }
    if (connection.server.extended) {
      const { records } = await connection.request('PULL', { ...wanted, maxBytes }, 'PULLED', this.#link.optionsOf({ signal }))
      return records
    }
    const message = { ...wanted, flags: FETCH_BATCHED }
    const batches = await connection.fetch(message, this.#link.optionsOf({ signal }))
    return batches.flatMap(({ records }) => records.map(recordOf))
  }

  async commit(topic: string, partition: number, offset: number, control: RequestControl = {}): Promise<void> {
    await this.#request('COMMIT', { topic, partition, offset }, 'OK', control)
  }

  async nack(topic: string, partition: number, offset: number, reason: string, control: RequestControl = {}): Promise<NackResult> {
    const answer = await this.#request('NACK', { topic, partition, offset, reason }, 'NACK_ACK', control)
    return { deadLettered: answer.deadLettered !== 0, attempts: answer.attempts, deadLetterTopic: answer.dlqTopic }
  }

  async join(group: string, topics: readonly string[], control: RequestControl = {}): Promise<GroupAssignment> {
    checkText('group', group, 'give the name of the group as a text')
    checkNames('topics', topics)
    if (topics.length === 0) throw wrong('topics', topics, 'a member needs a topic')
    return this.#request('JOIN_GROUP', { group, memberId: '', topics: [...topics] }, 'GROUP_ASSIGNMENT', control)
  }

  async heartbeat(group: string, memberId: string, control: RequestControl = {}): Promise<void> {
    await this.#request('GROUP_HEARTBEAT', { group, memberId }, 'OK', control)
  }

  async leave(group: string, memberId: string, control: RequestControl = {}): Promise<void> {
    await this.#request('LEAVE_GROUP', { group, memberId }, 'OK', control)
  }

  close(): Promise<void> {
    this.#closing ??= this.#link.close().finally(this.#onClose)
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #only(signal: AbortSignal | undefined): Promise<ClientConnection> {
    this.#connection ??= await this.#link.connected(signal)
    if (!this.open) throw new MoonMQError('CONNECTION_CLOSED', { reason: 'the session is over' })
    return this.#connection
  }

  async #request<N extends 'COMMIT' | 'NACK' | 'JOIN_GROUP' | 'GROUP_HEARTBEAT' | 'LEAVE_GROUP', R extends Answer>(
    name: N,
    message: Message<N>,
    expects: R,
    { signal }: RequestControl,
  ): Promise<Message<R>> {
    const connection = await this.#only(signal)
    return connection.request(name, message, expects, this.#link.optionsOf({ signal }))
  }
}

type Answer = 'OK' | 'NACK_ACK' | 'GROUP_ASSIGNMENT'
