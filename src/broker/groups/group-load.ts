import type { Clock } from '../../core/clock.ts'
import type { RecordHeader } from '../../record/record.ts'
import type { DeliveryAttempts } from '../dlq/attempts.ts'
import { decodeOffsetsRecord } from '../offsets/offset-records.ts'
import { OffsetStore } from '../offsets/offset-store.ts'
import type { PendingOffsets } from '../offsets/pending-offsets.ts'
import { GroupEntry } from './group-entry.ts'
import type { GroupKindRules, GroupMachine, ReadRecord, RestoredMachine } from './machine.ts'

/** What the log holds of one group: its offsets, and the latest record of each key. */
interface Folded {
  readonly offsets: OffsetStore
  readonly records: Map<string, ReadRecord>
}

export interface LoadDeps {
  readonly clock: Clock
  readonly kinds: readonly GroupKindRules[]
  /** A group that has offsets and nothing else. */
  readonly bare: (group: string) => GroupMachine
  /** Gets the offsets of transactions whose end was not read. */
  readonly pending: PendingOffsets
  /** Gets what the commits tell of deliveries that failed. */
  readonly attempts: DeliveryAttempts
}

/** The fold of one partition of `__consumer_offsets`. */
export class GroupFold {
  readonly #deps: LoadDeps
  readonly #folded = new Map<string, Folded>()

  constructor(deps: LoadDeps) {
    this.#deps = deps
  }

  /** Waits until the machines of what was read can be made, and makes them. Throws INVALID_RECORD. */
  async finish(): Promise<GroupEntry[]> {
    for (const { records } of this.#folded.values()) {
      const all = [...records.values()]
      await this.#kindOf(all)?.ready?.(all)
    }
    return this.#entries()
  }

  /** `producerId` is of the transaction that the record waits for the end of, or null. */
  add(key: Buffer, value: Buffer | null, timestampMs: number, producerId: number | null, headers: readonly RecordHeader[]): void {
    const decoded = decodeOffsetsRecord(key, value)
    if (decoded === null) return
    const { offsets, records } = this.#of(decoded.group)
    const { pending, attempts } = this.#deps
    if (decoded.kind === 'offset') {
      const { group, topic, partition, value: offset } = decoded
      if (producerId !== null) {
        if (offset !== null) pending.add(producerId, group, { topic, partition, value: offset })
        return
      }
      pending.overtake(group, topic, partition)
      attempts.restore(group, topic, partition, offset === null ? null : headers)
    }
    if (decoded.kind === 'group') {
      const name = key.toString('latin1')
      if (decoded.record.value === null) records.delete(name)
      else records.set(name, { record: decoded.record, timestampMs })
    } else if (decoded.value === null) offsets.delete(decoded.topic, decoded.partition)
    else offsets.set(decoded.topic, decoded.partition, decoded.value)
  }

  ended(producerId: number, committed: boolean): void {
    for (const [group, ended] of this.#deps.pending.end(producerId, committed)) {
      if (!committed) continue
      const { offsets } = this.#of(group)
      for (const { topic, partition, value } of ended) {
        offsets.set(topic, partition, value)
        this.#deps.attempts.prune(group, topic, partition, value.offset)
      }
    }
  }

  #of(group: string): Folded {
    let found = this.#folded.get(group)
    if (found === undefined) {
      found = { offsets: new OffsetStore(), records: new Map() }
      this.#folded.set(group, found)
    }
    return found
  }

  /** Records of a kind that is not known here leave the group without one. */
  #kindOf(records: readonly ReadRecord[]): GroupKindRules | undefined {
    return this.#deps.kinds.find(({ mark }) => records.some(({ record }) => record.name === mark))
  }

  /** Every group of which something is left. */
  #entries(): GroupEntry[] {
    const entries: GroupEntry[] = []
    for (const [group, { offsets, records }] of this.#folded) {
      if (records.size === 0 && offsets.size === 0 && !this.#deps.pending.has(group)) continue
      const { machine, stateChangedAtMs } = this.#restored(group, [...records.values()])
      const entry = new GroupEntry(machine, offsets, stateChangedAtMs)
      for (const key of records.keys()) entry.keys.add(key)
      entries.push(entry)
    }
    return entries
  }

  #restored(group: string, records: readonly ReadRecord[]): RestoredMachine {
    const { clock, bare } = this.#deps
    const kind = this.#kindOf(records)
    if (kind === undefined) return { machine: bare(group), stateChangedAtMs: clock.nowMs() }
    return kind.restore(group, records, clock.monotonicMs())
  }
}
