import type { Uuid } from '../../../core/uuid.ts'
import { type Assignment, assignmentOf, NO_ASSIGNMENT, NO_HOLDING, sameAssignment, sameHolding } from './assignment.ts'
import type { ConsumerMember } from './consumer-member.ts'
import type { Progress } from './reconcile.ts'

/**
 * The members of a consumer group, who holds which partition, and what each is to have. It notes what has to be stored: nothing here
 * changes without being noted.
 */
export class ConsumerMembers {
  readonly #members = new Map<string, ConsumerMember>()
  readonly #byInstance = new Map<string, ConsumerMember>()
  readonly #targets = new Map<string, Assignment>()
  /** By topic and partition: the member that has it, or has not given it back. */
  readonly #owners = new Map<Uuid, Map<number, string>>()
  readonly changed = new Set<string>()
  readonly changedTargets = new Set<string>()
  readonly changedProgress = new Set<string>()

  get size(): number {
    return this.#members.size
  }

  all(): IterableIterator<ConsumerMember> {
    return this.#members.values()
  }

  get(memberId: string): ConsumerMember | undefined {
    return this.#members.get(memberId)
  }

  ofInstance(instanceId: string): ConsumerMember | undefined {
    return this.#byInstance.get(instanceId)
  }

  target(memberId: string): Assignment {
    return this.#targets.get(memberId) ?? NO_ASSIGNMENT
  }

  storedTarget(memberId: string): Assignment | undefined {
    return this.#targets.get(memberId)
  }

  /** Nobody has the partition, or `member` itself has. */
  isFree(member: ConsumerMember, topic: Uuid, partition: number): boolean {
    const owner = this.#owners.get(topic)?.get(partition)
    return owner === undefined || owner === member.memberId
  }

  add(member: ConsumerMember): void {
    this.#members.set(member.memberId, member)
    if (member.instanceId !== null) this.#byInstance.set(member.instanceId, member)
    this.#own(member)
    this.changed.add(member.memberId)
    this.changedProgress.add(member.memberId)
  }

  /** Its instance id was told after it was added, or is another one now: the one before is free. */
  nameInstance(member: ConsumerMember, instanceId: string): void {
    this.#unname(member)
    member.instanceId = instanceId
    this.#byInstance.set(instanceId, member)
  }

  remove(member: ConsumerMember): void {
    const { memberId } = member
    this.#members.delete(memberId)
    this.#unname(member)
    this.#disown(member)
    if (this.#targets.delete(memberId)) this.changedTargets.add(memberId)
    this.changed.add(memberId)
    this.changedProgress.add(memberId)
  }

  #unname(member: ConsumerMember): void {
    if (member.instanceId !== null && this.#byInstance.get(member.instanceId) === member) this.#byInstance.delete(member.instanceId)
  }

  /** A new process of a static member: it has what the former one had, and is to have what that one was to have. */
  replace(former: ConsumerMember, successor: ConsumerMember): void {
    const target = this.#targets.get(former.memberId)
    this.remove(former)
    this.add(successor)
    if (target !== undefined) this.aim(successor.memberId, target)
  }

  aim(memberId: string, target: Assignment): void {
    const known = this.#targets.get(memberId)
    if (known !== undefined && sameAssignment(known, target)) return
    this.#targets.set(memberId, target)
    this.changedTargets.add(memberId)
  }

  /** The member has come as far as `to`. False: it is where it was. */
  advance(member: ConsumerMember, to: Progress): boolean {
    const { epoch, state, assigned, revoking } = member
    if (epoch === to.epoch && state === to.state && sameHolding(assigned, to.assigned) && sameHolding(revoking, to.revoking)) return false
    this.#disown(member)
    member.enter(to.epoch)
    member.state = to.state
    member.assigned = to.assigned
    member.revoking = to.revoking
    this.#own(member)
    this.changedProgress.add(member.memberId)
    return true
  }

  /** It lets go of what was revoked: a static member that leaves for a while. */
  park(member: ConsumerMember, epoch: number): void {
    this.#disown(member)
    member.epoch = epoch
    member.revoking = NO_HOLDING
    this.#own(member)
    this.changedProgress.add(member.memberId)
  }

  restoreTarget(memberId: string, topicPartitions: Parameters<typeof assignmentOf>[0]): void {
    this.#targets.set(memberId, assignmentOf(topicPartitions))
  }

  noteStored(): void {
    this.changed.clear()
    this.changedTargets.clear()
    this.changedProgress.clear()
  }

  #own(member: ConsumerMember): void {
    for (const holding of [member.assigned, member.revoking]) {
      for (const [topic, partitions] of holding) {
        const owners = this.#owners.get(topic) ?? new Map<number, string>()
        this.#owners.set(topic, owners)
        for (const partition of partitions.keys()) owners.set(partition, member.memberId)
      }
    }
  }

  #disown(member: ConsumerMember): void {
    for (const holding of [member.assigned, member.revoking]) {
      for (const [topic, partitions] of holding) {
        const owners = this.#owners.get(topic)
        for (const partition of partitions.keys()) if (owners?.get(partition) === member.memberId) owners.delete(partition)
        if (owners?.size === 0) this.#owners.delete(topic)
      }
    }
  }
}
