import type { Uuid } from '../../../core/uuid.ts'
import { type Assignment, type Holding, holdsSome, NO_HOLDING, type TopicPartitions } from './assignment.ts'

/** Where a member stands on its way to its target; Kafka's numbers in `MEMBER_STATES`. */
export type MemberState =
  /** It has what it is to have. */
  | 'stable'
  /** It has yet to give partitions back, and stays in its epoch until it did. */
  | 'unrevoked'
  /** It is in the new epoch, and some of its partitions are still with others. */
  | 'unreleased'

/** Kafka's numbers are the places. */
export const MEMBER_STATES: readonly MemberState[] = ['stable', 'unrevoked', 'unreleased']

/** How far a member has come. */
export interface Progress {
  readonly epoch: number
  readonly state: MemberState
  readonly assigned: Holding
  /** Taken away, and not given back yet. */
  readonly revoking: Holding
}

export interface Target {
  readonly epoch: number
  readonly assignment: Assignment
}

/**
 * The next step of a member towards its target (KIP-848): what it must not have any longer is taken first; only when the member shows by
 * `owned` that it let go of it does it enter the epoch of the target, and is given what nobody else holds. So no partition has two owners
 * at any moment. `owned` null: the member did not say. `readsOthers`: it subscribes to other things than at its last step, so that it may
 * have to give back more than its epoch's target says. The same object: there is nothing to do.
 */
export function reconcile(
  progress: Progress,
  target: Target,
  isFree: (topic: Uuid, partition: number) => boolean,
  owned: readonly TopicPartitions[] | null,
  readsOthers: boolean,
): Progress {
  const stillHolds = (holding: Holding) => holding.size > 0 && (owned === null || holdsSome(holding, owned))
  if (progress.state === 'stable' && progress.epoch === target.epoch && !readsOthers) return progress
  const isRevoking = progress.state === 'unrevoked' && stillHolds(progress.revoking)
  if (isRevoking && !readsOthers) return progress

  const { kept, taken } = divided(progress.assigned, target.assignment)
  if (isRevoking) return taken.size === 0 ? progress : { ...progress, assigned: kept, revoking: joined(progress.revoking, taken) }
  if (stillHolds(taken)) return { epoch: progress.epoch, state: 'unrevoked', assigned: kept, revoking: taken }
  const { assigned, isWhole } = granted(kept, target, isFree)
  return { epoch: target.epoch, state: isWhole ? 'stable' : 'unreleased', assigned, revoking: NO_HOLDING }
}

/** What stays of an assignment, and what goes. */
function divided(assigned: Holding, target: Assignment): { kept: Holding; taken: Holding } {
  const kept = new Map<Uuid, Map<number, number>>()
  const taken = new Map<Uuid, Map<number, number>>()
  for (const [topic, partitions] of assigned) {
    const wanted = target.get(topic)
    for (const [partition, epoch] of partitions) {
      const into = wanted?.has(partition) === true ? kept : taken
      const of = into.get(topic)
      if (of === undefined) into.set(topic, new Map([[partition, epoch]]))
      else of.set(partition, epoch)
    }
  }
  return { kept, taken }
}

/** Of two that have no partition in common. */
function joined(left: Holding, right: Holding): Holding {
  const all = new Map(left)
  for (const [topic, partitions] of right) all.set(topic, new Map([...(all.get(topic) ?? []), ...partitions]))
  return all
}

function granted(
  kept: Holding,
  target: Target,
  isFree: (topic: Uuid, partition: number) => boolean,
): { assigned: Holding; isWhole: boolean } {
  const assigned = new Map<Uuid, Map<number, number>>()
  let isWhole = true
  for (const [topic, partitions] of target.assignment) {
    const had = kept.get(topic)
    const of = new Map<number, number>()
    for (const partition of partitions) {
      const since = had?.get(partition)
      if (since !== undefined) of.set(partition, since)
      else if (isFree(topic, partition)) of.set(partition, target.epoch)
      else isWhole = false
    }
    if (of.size > 0) assigned.set(topic, of)
  }
  return { assigned, isWhole }
}
