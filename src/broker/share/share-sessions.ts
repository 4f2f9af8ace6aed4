import { MoonMQError } from '../../core/errors.ts'
import type { Uuid } from '../../core/uuid.ts'

export interface SessionPartition {
  readonly topicId: Uuid
  readonly partition: number
}

/** What one member reads over one connection: the partitions that it named and has not forgotten. */
export interface ShareSession {
  readonly group: string
  readonly memberId: string
  /** In the order in which they come first, the one that gave records last at the end. */
  readonly partitions: Map<string, SessionPartition>
  /** Where it was given records: what it may hold. */
  readonly held: Map<string, SessionPartition>
  /** What the next request must say. */
  epoch: number
  /** Stops looking at the connection. */
  readonly unbind: () => void
}

export interface SessionOptions {
  /** `group.share.max.share.sessions`. */
  readonly maxSessions: number
}

export const INITIAL_EPOCH = 0
export const FINAL_EPOCH = -1
const MAX_EPOCH = 2 ** 31 - 1

export function partitionName({ topicId, partition }: SessionPartition): string {
  return `${topicId}-${partition}`
}

/** The share sessions of all connections (KIP-932): a session ends with its connection, and then what its member holds is given back. */
export class ShareSessions {
  readonly #options: SessionOptions
  readonly #onEnded: (session: ShareSession) => void
  readonly #sessions = new Map<string, ShareSession>()

  /** `onEnded`: the connection is gone. */
  constructor(options: SessionOptions, onEnded: (session: ShareSession) => void) {
    this.#options = options
    this.#onEnded = onEnded
  }

  get count(): number {
    return this.#sessions.size
  }

  /** Begins anew: what the member read before is forgotten, but not that it still holds it. Throws SHARE_SESSION_LIMIT. */
  open(group: string, memberId: string, signal: AbortSignal): ShareSession {
    const key = keyOf(group, memberId)
    const former = this.#sessions.get(key)
    if (former === undefined && this.#sessions.size >= this.#options.maxSessions) {
      throw new MoonMQError('SHARE_SESSION_LIMIT', { limit: this.#options.maxSessions })
    }
    former?.unbind()
    const onAbort = () => {
      if (this.#sessions.get(key) !== session) return
      this.#sessions.delete(key)
      this.#onEnded(session)
    }
    const session: ShareSession = {
      group,
      memberId,
      partitions: new Map(),
      held: former?.held ?? new Map(),
      epoch: INITIAL_EPOCH + 1,
      unbind: () => signal.removeEventListener('abort', onAbort),
    }
    signal.addEventListener('abort', onAbort, { once: true })
    this.#sessions.set(key, session)
    return session
  }

  /** The session that a request goes on with. Throws SHARE_SESSION_MISSING, SHARE_SESSION_EPOCH_INVALID. */
  next(group: string, memberId: string, epoch: number): ShareSession {
    const session = this.#find(group, memberId)
    if (session.epoch !== epoch)
      throw new MoonMQError('SHARE_SESSION_EPOCH_INVALID', { group, member: memberId, epoch, expected: session.epoch })
    session.epoch = epoch === MAX_EPOCH ? INITIAL_EPOCH + 1 : epoch + 1
    return session
  }

  /** Ends it; the caller gives back what its member holds. Throws SHARE_SESSION_MISSING. */
  end(group: string, memberId: string): ShareSession {
    const session = this.#find(group, memberId)
    session.unbind()
    this.#sessions.delete(keyOf(group, memberId))
    return session
  }

  #find(group: string, memberId: string): ShareSession {
    const session = this.#sessions.get(keyOf(group, memberId))
    if (session === undefined) throw new MoonMQError('SHARE_SESSION_MISSING', { group, member: memberId })
    return session
  }

  close(): void {
    for (const session of this.#sessions.values()) session.unbind()
    this.#sessions.clear()
  }
}

function keyOf(group: string, memberId: string): string {
  return `${memberId.length} ${memberId}${group}`
}
