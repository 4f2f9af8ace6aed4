import type { MoonMQError } from '../../core/errors.ts'
import type { JoinedGroup } from '../ports.ts'

/** Kafka's words for the life of a classic group. */
export type ClassicState = 'Empty' | 'PreparingRebalance' | 'CompletingRebalance' | 'Stable' | 'Dead'

export interface ClassicOptions {
  /** Members and ids given out together (`group.max.size`). */
  readonly maxMembers: number
  /** How long the first rebalance of an empty group waits for more members (`group.initial.rebalance.delay.ms`). */
  readonly initialRebalanceDelayMs: number
}

export interface GroupProtocol {
  readonly name: string
  readonly metadata: Buffer
}

/** A join as the machine sees it: validated, and with the id that a new member would get. */
export interface MemberJoin {
  readonly memberId: string
  readonly newMemberId: string
  readonly instanceId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly protocolType: string
  readonly protocols: readonly GroupProtocol[]
  readonly sessionTimeoutMs: number
  readonly rebalanceTimeoutMs: number
  readonly requireKnownMemberId: boolean
  readonly supportsSkippingAssignment: boolean
  /** Why the client says it joins, for the log. */
  readonly reason: string | null
}

export interface MemberSync {
  readonly memberId: string
  readonly instanceId: string | null
  readonly generation: number
  readonly protocolType: string | null
  readonly protocol: string | null
  readonly assignments: ReadonlyMap<string, Buffer>
}

/** What is stored of a member, in GroupMetadataValue. */
export interface MemberSnapshot {
  readonly memberId: string
  readonly instanceId: string | null
  readonly clientId: string
  readonly clientHost: string
  readonly rebalanceTimeoutMs: number
  readonly sessionTimeoutMs: number
  readonly subscription: Buffer
  /** Empty until the leader has handed the assignments in. */
  readonly assignment: Buffer
}

/** What is stored of a group, in GroupMetadataValue. */
export interface GroupSnapshot {
  readonly protocolType: string
  readonly generation: number
  readonly protocol: string | null
  readonly leader: string | null
  readonly members: readonly MemberSnapshot[]
}

/** The reply to a join that was refused. */
export function joinRefused(error: MoonMQError, memberId: string): JoinedGroup {
  return { error, generation: -1, protocolType: null, protocol: null, leader: '', skipAssignment: false, memberId, members: [] }
}

/** A client's own words, short enough for a line of the log. */
export function inItsWords(reason: string | null): string {
  return reason === null || reason === '' ? '' : ` (it says: ${reason.slice(0, 200)})`
}
