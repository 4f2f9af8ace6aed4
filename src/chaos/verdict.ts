import type { Acked } from '../client/types.ts'

/** A record as the program sent it, in the order of sending. */
export interface Sent {
  /** What makes it known again: no two have the same. */
  readonly id: string
  readonly value: string
  /** Null: the program was told that it failed, or nothing. */
  readonly acked: Acked | null
}

/** A record as it was read back. `id` is null when the record does not say who it is. */
export interface Found {
  readonly id: string | null
  readonly value: string
  readonly partition: number
  readonly offset: number
}

export interface PartitionVerdict {
  readonly partition: number
  /** Acknowledged for this partition. */
  acked: number
  read: number
  /** Acknowledged and not there. */
  lost: number
  /** There more than once: how many more. */
  duplicated: number
  /** Behind one that was sent later. */
  reordered: number
  /** There with another value. */
  corrupted: number
  /** There though the program does not know. */
  unacked: number
  /** There, but not at the offset of its acknowledgement. */
  misplaced: number
}

export interface Verdict {
  readonly partitions: readonly PartitionVerdict[]
  readonly totals: Omit<PartitionVerdict, 'partition'>
  /** Whether every acknowledgement was the truth: the record is there, where it said, as often as it likes. */
  readonly holds: boolean
}

/** Compares what was acknowledged with what was read back, each partition in the order of its offsets. */
export function judge(sent: readonly Sent[], found: readonly Found[]): Verdict {
  const partitions = new Map<number, PartitionVerdict>()
  const of = (partition: number): PartitionVerdict => {
    let verdict = partitions.get(partition)
    if (verdict === undefined) {
      verdict = { partition, acked: 0, read: 0, lost: 0, duplicated: 0, reordered: 0, corrupted: 0, unacked: 0, misplaced: 0 }
      partitions.set(partition, verdict)
    }
    return verdict
  }
  const order = new Map(sent.map(({ id }, index) => [id, index]))
  const copies = new Map<string, Found[]>()
  const last = new Map<number, number>()
  for (const record of [...found].sort((a, b) => a.partition - b.partition || a.offset - b.offset)) {
    const verdict = of(record.partition)
    verdict.read++
    const index = record.id === null ? undefined : order.get(record.id)
    if (record.id === null || index === undefined) {
      verdict.corrupted++
      continue
    }
    if (record.value !== sent[index]?.value) verdict.corrupted++
    const before = copies.get(record.id)
    if (before !== undefined) {
      before.push(record)
      verdict.duplicated++
      continue
    }
    copies.set(record.id, [record])
    if (sent[index]?.acked === null) verdict.unacked++
    const latest = last.get(record.partition) ?? -1
    if (index < latest) verdict.reordered++
    last.set(record.partition, Math.max(latest, index))
  }
  for (const { id, acked } of sent) {
    if (acked === null) continue
    const verdict = of(acked.partition)
    verdict.acked++
    const places = copies.get(id)
    if (places === undefined) verdict.lost++
    else if (acked.offset >= 0 && !places.some(({ partition, offset }) => partition === acked.partition && offset === acked.offset)) {
      verdict.misplaced++
    }
  }
  const list = [...partitions.values()].sort((a, b) => a.partition - b.partition)
  const totals = list.reduce(
    (sum, each) => ({
      acked: sum.acked + each.acked,
      read: sum.read + each.read,
      lost: sum.lost + each.lost,
      duplicated: sum.duplicated + each.duplicated,
      reordered: sum.reordered + each.reordered,
      corrupted: sum.corrupted + each.corrupted,
      unacked: sum.unacked + each.unacked,
      misplaced: sum.misplaced + each.misplaced,
    }),
    { acked: 0, read: 0, lost: 0, duplicated: 0, reordered: 0, corrupted: 0, unacked: 0, misplaced: 0 },
  )
  return { partitions: list, totals, holds: totals.lost === 0 && totals.misplaced === 0 }
}
