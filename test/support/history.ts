/**
 * The history of a workload over transactions, as its clients saw it, and what in it cannot be. The anomalies are those that Jepsen's
 * workload for Kafka looks for. A value is written once, so that it names its write.
 */

/** What a client was told of a transaction that writes: `unknown` when no answer came. */
export type TxnOutcome = 'committed' | 'aborted' | 'unknown'

export interface HistoryWrite {
  readonly partition: string
  readonly value: string
}

export interface HistoryTxn {
  readonly id: string
  readonly outcome: TxnOutcome
  readonly writes: readonly HistoryWrite[]
}

/** One poll of a consumer with read committed: what it was given of one partition, in order. */
export interface HistoryPoll {
  readonly consumer: string
  readonly partition: string
  /** Transactions whose end no client had asked for when the poll was answered. */
  readonly openTxns?: readonly string[]
  readonly records: readonly { readonly offset: number; readonly value: string }[]
  /** The consumer begins somewhere else than after its last poll. */
  readonly isSeek?: boolean
}

export interface History {
  readonly txns: readonly HistoryTxn[]
  readonly polls: readonly HistoryPoll[]
  /** Everything with read committed from the start, once all transactions are over: by partition. */
  readonly final: ReadonlyMap<string, readonly { readonly offset: number; readonly value: string }[]>
}

export const ANOMALIES = [
  'lost write',
  'duplicate',
  'aborted read',
  'precommitted read',
  'inconsistent offsets',
  'nonmonotonic poll',
  'torn transaction',
  'phantom',
] as const

export type AnomalyKind = (typeof ANOMALIES)[number]

export interface Anomaly {
  readonly kind: AnomalyKind
  readonly text: string
}

export function findAnomalies(history: History): Anomaly[] {
  return [
    ...lostAndTorn(history),
    ...duplicates(history),
    ...wrongReads(history),
    ...precommitted(history),
    ...inconsistentOffsets(history),
    ...nonmonotonic(history),
  ]
}

function seenIn({ final }: History): Set<string> {
  return new Set([...final].flatMap(([partition, records]) => records.map(({ value }) => `${partition} ${value}`)))
}

/** Every write of a committed transaction is there at the end, and of one whose end is not known all or none, and what somebody has read of it. */
function lostAndTorn(history: History): Anomaly[] {
  const seen = seenIn(history)
  const found: Anomaly[] = []
  const ended = new Set<string>()
  for (const { outcome, writes } of history.txns) {
    if (outcome !== 'unknown') for (const { partition, value } of writes) ended.add(`${partition} ${value}`)
  }
  for (const { consumer, partition, records } of history.polls) {
    for (const { offset, value } of records) {
      const name = `${partition} ${value}`
      if (seen.has(name) || ended.has(name)) continue
      found.push({ kind: 'lost write', text: `${consumer} read ${value} at ${offset} of ${partition}, where it is no more` })
    }
  }
  for (const { id, outcome, writes } of history.txns) {
    const missing = writes.filter(({ partition, value }) => !seen.has(`${partition} ${value}`))
    if (outcome === 'committed') {
      for (const { partition, value } of missing) {
        found.push({ kind: 'lost write', text: `${value} of ${id} was committed and is not in ${partition}` })
      }
    }
    if (outcome !== 'aborted' && missing.length > 0 && missing.length < writes.length) {
      found.push({ kind: 'torn transaction', text: `${missing.length} of ${writes.length} writes of ${id} are not there` })
    }
  }
  return found
}

function duplicates({ final }: History): Anomaly[] {
  const found: Anomaly[] = []
  for (const [partition, records] of final) {
    const offsets = new Map<string, number>()
    for (const { offset, value } of records) {
      const before = offsets.get(value)
      if (before !== undefined) found.push({ kind: 'duplicate', text: `${value} is in ${partition} at ${before} and at ${offset}` })
      offsets.set(value, offset)
    }
  }
  return found
}

/** Nothing of an aborted transaction is ever read, and nothing that nobody wrote. */
function wrongReads({ txns, polls, final }: History): Anomaly[] {
  const outcomes = new Map<string, HistoryTxn>()
  for (const txn of txns) for (const { partition, value } of txn.writes) outcomes.set(`${partition} ${value}`, txn)
  const found: Anomaly[] = []
  const look = (partition: string, records: readonly { offset: number; value: string }[], who: string) => {
    for (const { offset, value } of records) {
      const txn = outcomes.get(`${partition} ${value}`)
      if (txn === undefined) found.push({ kind: 'phantom', text: `${who} read ${value} at ${offset} of ${partition}, which nobody wrote` })
      else if (txn.outcome === 'aborted') {
        found.push({ kind: 'aborted read', text: `${who} read ${value} of the aborted ${txn.id} at ${offset} of ${partition}` })
      }
    }
  }
  for (const { consumer, partition, records } of polls) look(partition, records, consumer)
  for (const [partition, records] of final) look(partition, records, 'the last reader')
  return found
}

/** Nothing of a transaction is read before somebody asked for its end. */
function precommitted({ txns, polls }: History): Anomaly[] {
  const writes = new Map(txns.map((txn) => [txn.id, new Set(txn.writes.map(({ partition, value }) => `${partition} ${value}`))]))
  const found: Anomaly[] = []
  for (const { consumer, partition, records, openTxns = [] } of polls) {
    for (const id of openTxns) {
      for (const { value } of records) {
        if (writes.get(id)?.has(`${partition} ${value}`)) {
          found.push({ kind: 'precommitted read', text: `${consumer} read ${value} of ${id}, which was open` })
        }
      }
    }
  }
  return found
}

/** One offset of a partition holds one value, whoever reads it and when. */
function inconsistentOffsets({ polls, final }: History): Anomaly[] {
  const values = new Map<string, string>()
  const found: Anomaly[] = []
  const look = (partition: string, records: readonly { offset: number; value: string }[]) => {
    for (const { offset, value } of records) {
      const place = `${partition}@${offset}`
      const before = values.get(place)
      if (before !== undefined && before !== value) {
        found.push({ kind: 'inconsistent offsets', text: `${place} was ${before} and is ${value}` })
      }
      values.set(place, value)
    }
  }
  for (const { partition, records } of polls) look(partition, records)
  for (const [partition, records] of final) look(partition, records)
  return found
}

/** A consumer that does not seek goes forward, within a poll and from one to the next. */
function nonmonotonic({ polls }: History): Anomaly[] {
  const positions = new Map<string, number>()
  const found: Anomaly[] = []
  for (const { consumer, partition, records, isSeek } of polls) {
    const place = `${consumer} of ${partition}`
    if (isSeek === true) positions.delete(place)
    for (const { offset } of records) {
      const before = positions.get(place)
      if (before !== undefined && offset <= before) {
        found.push({ kind: 'nonmonotonic poll', text: `${place} went from ${before} to ${offset}` })
      }
      positions.set(place, offset)
    }
  }
  return found
}
