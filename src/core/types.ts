/** A partition of a topic. Partition numbers start at 0 everywhere but on the version-1 native wire (DESIGN D12). */
export interface TopicPartition {
  readonly topic: string
  readonly partition: number
}

/** What every resource offers: `close()` ends it in order, `await using` calls it. */
export interface Resource extends AsyncDisposable {
  close(): Promise<void>
}

/** Which transactional records a reader sees (KIP-98). */
export type IsolationLevel = 'read_uncommitted' | 'read_committed'

/** What Kafka writes into a batch header as the sequence of a producer without identity. */
export const NO_SEQUENCE = -1

/** Kafka's "unknown" for a leader epoch, a timestamp and an offset. */
export const NO_LEADER_EPOCH = -1
export const NO_TIMESTAMP = -1
export const NO_OFFSET = -1
