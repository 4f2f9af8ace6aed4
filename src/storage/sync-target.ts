import type { JournalItem } from './journal.ts'

/** A file with bytes that are to become durable. What it belongs to learns from `synced` how far that got. */
export interface SyncTarget {
  /** Offset below which everything is in the file, or will be before its sync. */
  readonly takenOffset: number
  /** It is about to be closed: neither its file nor the journal may say anything of it any more. */
  readonly isStopped: boolean
  /** Bytes that the journal would have to hold in place of a sync; infinite when they are too many. */
  readonly journalBytes: number
  /** What was written since the last sync, or since this was called last. */
  takeForJournal(): JournalItem
  /** Makes what is in the file now durable, its size and its names included. */
  sync(): Promise<void>
  /** The same for what the journal has: that goes on taking what was written since it took something last. */
  syncBehind(): Promise<void>
  /** Everything below `offset` is durable in the file. Called in the order of the syncs of this file. */
  synced(offset: number): void
  /** Everything below `offset` is durable, in the file or in the journal. */
  journaled(offset: number): void
  /** The sync failed: nothing may be said of bytes written since the last good one. No further sync of this target follows. */
  failed(error: unknown): void
}

/** A small file that is replaced as a whole; the journal may stand in for it. */
export interface SmallFile {
  /** As it is to be now. */
  takeForJournal(): JournalItem
  /** Writes the file, durably, and says up to which change. */
  store(): Promise<number>
}
