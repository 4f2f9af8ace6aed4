import { asMoonMQError, type ErrorCode, isCode, MoonMQError } from '../core/errors.ts'
import { decodePayload } from '../wire/frame.ts'
import type { Message } from '../wire/messages.ts'
import type { OpName } from '../wire/opcodes.ts'
import type { ClientConnection } from './connection.ts'
import type { Link } from './link.ts'

export interface MemberOptions {
  readonly group: string
  /** Empty: the broker chooses. */
  readonly memberId: string
  readonly topics: readonly string[]
  readonly rebalanceTimeoutMs: number
  readonly signal: AbortSignal
}

export type Assigned = Message<'MEMBER_STATE'>['assignment']
export type MemberState = Message<'MEMBER_STATE'>

/** The broker has forgotten the member, or its connection and with it the membership are gone. */
const LOST: ReadonlySet<ErrorCode> = new Set([
  'GROUP_MEMBER_UNKNOWN',
  'ILLEGAL_GENERATION',
  'CONNECTION_CLOSED',
  'CONNECT_FAILED',
  'NOT_LEADER',
  'SHUTTING_DOWN',
  'COORDINATOR_LOADING',
  'REQUEST_TIMED_OUT',
])

/**
 * A client's place in a group. It lives on one connection: what is asked on another one would come from a stranger. Every request
 * but `join` rejects with GROUP_MEMBER_UNKNOWN once the place is lost.
 */
export class GroupMember {
  readonly #link: Link
  readonly #options: MemberOptions
  readonly #onChange: () => void
  #connection: ClientConnection | null = null
  #memberId: string
  #hasJoined = false

  constructor(link: Link, options: MemberOptions, onChange: () => void) {
    this.#link = link
    this.#options = options
    this.#onChange = onChange
    this.#memberId = options.memberId
  }

  /** Empty before the first join, unless it was chosen. */
  get memberId(): string {
    return this.#memberId
  }

  /** Where it is a member; null once the place is lost. */
  get connection(): ClientConnection | null {
    return this.#connection
  }

  get isMember(): boolean {
    return this.#connection?.open === true
  }

  /** Joins, or joins again; tried again while the broker restarts. */
  join(): Promise<MemberState> {
    return this.#link.retrying(async () => {
      const connection = await this.#link.connected(this.#options.signal)
      const state = await this.#joinOn(connection)
      connection.onPush = (name, payload) => this.#pushed(name, payload)
      this.#connection = connection
      this.#memberId = state.memberId
      this.#hasJoined = true
      void connection.gone.then(() => {
        if (this.#connection === connection) this.#onChange()
      })
      return state
    }, this.#options.signal)
  }

  async #joinOn(connection: ClientConnection): Promise<MemberState> {
    const { group, topics, rebalanceTimeoutMs, signal } = this.#options
    const ask = (memberId: string) => {
      const request = { group, memberId, topics: [...topics], rebalanceTimeoutMs }
      return connection.request('MEMBER_JOIN', request, 'MEMBER_STATE', this.#link.optionsOf({ signal }))
    }
    try {
      return await ask(this.#memberId)
    } catch (error) {
      if (!isCode(error, 'GROUP_CONFLICT') || !this.#hasJoined) throw error
      // The broker does not know yet that the former connection is gone, and with it the member of this id.
      return await ask('')
    }
  }

  #pushed(name: OpName, payload: Buffer): void {
    if (name === 'GROUP_CHANGED' && decodePayload('GROUP_CHANGED', payload).group === this.#options.group) this.#onChange()
  }

  /** Says what is held, and hears what may be. */
  sync(held: Assigned): Promise<MemberState> {
    return this.#request('MEMBER_SYNC', { group: this.#options.group, held }, 'MEMBER_STATE')
  }

  /** Before the first join as somebody outside of the group. */
  async store(offsets: Message<'STORE_POSITIONS'>['offsets']): Promise<void> {
    const message = { group: this.#options.group, offsets }
    if (!this.#hasJoined) await this.#link.request('STORE_POSITIONS', message, 'OK')
    else await this.#request('STORE_POSITIONS', message, 'OK')
  }

  async positions(topics: readonly string[]): Promise<Message<'POSITIONS'>['topics']> {
    return (await this.#request('GET_POSITIONS', { group: this.#options.group, topics: [...topics] }, 'POSITIONS')).topics
  }

  /** Its partitions go to others at once instead of when the connection is closed. */
  async leave(): Promise<void> {
    if (this.isMember) await this.#request('LEAVE_GROUP', { group: this.#options.group, memberId: this.#memberId }, 'OK')
  }

  async #request<N extends OpName, R extends OpName>(name: N, message: Message<N>, expects: R): Promise<Message<R>> {
    const connection = this.#connection
    if (connection === null) throw this.#lost()
    try {
      return await connection.request(name, message, expects, this.#link.optionsOf({}))
    } catch (cause) {
      const error = asMoonMQError(cause)
      if (!LOST.has(error.code)) throw error
      if (this.#connection === connection) {
        this.#connection = null
        connection.onPush = null
        // Whoever does not answer may still count this connection's member as alive.
        if (error.code === 'REQUEST_TIMED_OUT') connection.destroy(error)
      }
      throw this.#lost(error)
    }
  }

  #lost(cause?: MoonMQError): MoonMQError {
    return new MoonMQError('GROUP_MEMBER_UNKNOWN', { group: this.#options.group, member: this.#memberId }, cause)
  }
}
