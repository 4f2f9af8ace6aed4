import { readInt64, writeInt64 } from '../core/int64.ts'
import type { CachedFile } from './handles.ts'
import { IndexFile } from './index-file.ts'

export const TIME_INDEX_ENTRY_BYTES = 12

export interface TimeEntry {
  /** Largest timestamp of the segment up to and with the batch of this entry. */
  readonly timestampMs: number
  /** Last offset of the batch that brought it. */
  readonly lastOffset: number
}

/**
 * `.timeindex`, as Kafka writes it: the largest timestamp so far in 64 bits and, relative to the segment's base, the last offset
 * of the batch that has it in 32 bits. Both only rise. The last entry of a closed segment tells its largest timestamp.
 */
export class TimeIndex {
  readonly store: IndexFile
  readonly #baseOffset: number
  /** Of the last entry, so that an append needs no look at it; null while it has not been read. */
  #lastTimestampMs: number | null

  constructor(file: CachedFile, baseOffset: number, entries: number | null) {
    this.store = new IndexFile(file, { entryBytes: TIME_INDEX_ENTRY_BYTES, entries })
    this.#baseOffset = baseOffset
    this.#lastTimestampMs = entries === 0 ? -1 : null
  }

  get entries(): number {
    return this.store.entries
  }

  /** Adds an entry unless the timestamp is not above the last one's. */
  maybeAppend(timestampMs: number, lastOffset: number): void {
    this.#lastTimestampMs ??= this.last()?.timestampMs ?? -1
    if (timestampMs <= this.#lastTimestampMs) return
    const { bytes, at } = this.store.grow()
    writeInt64(bytes, timestampMs, at)
    bytes.writeUInt32BE(lastOffset - this.#baseOffset, at + 8)
    this.#lastTimestampMs = timestampMs
  }

  /** Writes the entries of batches that end below `offset`. */
  flushBelow(offset: number): void {
    const relative = offset - this.#baseOffset
    this.store.flush((bytes, at) => bytes.readUInt32BE(at + 8) < relative)
  }

  /** The last entry with a timestamp at or below this one: every batch up to it holds nothing later. */
  lookup(timestampMs: number): TimeEntry | null {
    const number = this.store.lastWhere((bytes, at) => readInt64(bytes, at) <= timestampMs)
    return number < 0 ? null : this.entry(number)
  }

  last(): TimeEntry | null {
    return this.entries === 0 ? null : this.entry(this.entries - 1)
  }

  entry(number: number): TimeEntry {
    return this.store.read(number, (bytes, at) => ({
      timestampMs: readInt64(bytes, at),
      lastOffset: this.#baseOffset + bytes.readUInt32BE(at + 8),
    }))
  }

  /** Forgets every entry of a file that is not there. */
  forget(): void {
    this.store.forget()
    this.#lastTimestampMs = -1
  }

  /** Forgets every entry. */
  async reset(): Promise<void> {
    await this.store.reset()
    this.#lastTimestampMs = -1
  }
}
