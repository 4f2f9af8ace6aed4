import type { NetAddress, NetConnection } from './net.ts'

/**
 * A protocol on the shared port (DESIGN D1, D2). The listener tells which door a connection belongs to by its first bytes and
 * hands it over; from then on the door owns it.
 */
export interface Door {
  /**
   * Takes the connection. `head` holds the bytes read so far, the first of its input; it is empty on a listener that serves this
   * door alone without looking. The door calls `connection.start` before it returns, and bytes that follow come to its handlers.
   * Never throws.
   */
  accept(connection: NetConnection, head: Buffer, info: AcceptInfo): void
  /**
   * Refuses a connection that a listener of this door alone has no place for, in the words of the protocol, and closes it. A door
   * without it has none: the listener closes such a connection silently. Never throws.
   */
  turnAway?(connection: NetConnection): void
  /** No new requests; those that run are answered, within a deadline of the door's own; then every connection is closed. */
  close(): Promise<void>
}

/** What the listener knows of a connection that it hands over. */
export interface AcceptInfo {
  /** Counts up over all listeners: names the connection in log lines. */
  readonly id: number
  /** Name of the listener, for the request context. */
  readonly listener: string
  /** What clients are told to connect to; null = the local address that the client reached. */
  readonly advertised: NetAddress | null
  /** Who the client is, vouched for by who hands it over; absent: who it says and proves. */
  readonly principal?: string
  /**
   * The door calls it once at login; where nobody logs in, at the first valid request. Until then the connection counts against
   * the limit per address. Calling it again, or after the end, does nothing.
   */
  loggedIn(): void
}
