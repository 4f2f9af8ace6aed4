import type { CachedFile } from './handles.ts'
import { IndexFile } from './index-file.ts'

export const OFFSET_INDEX_ENTRY_BYTES = 8

export interface OffsetEntry {
  /** Last offset of a batch. */
  readonly lastOffset: number
  /** Where that batch begins in the log file. */
  readonly position: number
}

/**
 * `.index`, as Kafka writes it: for some batches their last offset, relative to the segment's base in 32 bits, and their position
 * in 32 bits. It has no checksum, so a look-up is a guess that the reader checks against the batch it lands on (DESIGN D4).
 */
export class OffsetIndex {
  readonly store: IndexFile
  readonly #baseOffset: number

  constructor(file: CachedFile, baseOffset: number, entries: number | null) {
    this.store = new IndexFile(file, { entryBytes: OFFSET_INDEX_ENTRY_BYTES, entries })
    this.#baseOffset = baseOffset
  }

  get entries(): number {
    return this.store.entries
  }

  append(lastOffset: number, position: number): void {
    const { bytes, at } = this.store.grow()
    bytes.writeUInt32BE(lastOffset - this.#baseOffset, at)
    bytes.writeUInt32BE(position, at + 4)
  }

  /** Writes the entries of batches that end below `offset`. */
  flushBelow(offset: number): void {
    const relative = offset - this.#baseOffset
    this.store.flush((bytes, at) => bytes.readUInt32BE(at) < relative)
  }

  /** The last entry whose batch ends at or before `offset`, or null: then the reader starts at the beginning of the segment. */
  lookup(offset: number): OffsetEntry | null {
    const relative = offset - this.#baseOffset
    const number = this.store.lastWhere((bytes, at) => bytes.readUInt32BE(at) <= relative)
    return number < 0 ? null : this.entry(number)
  }

  last(): OffsetEntry | null {
    return this.entries === 0 ? null : this.entry(this.entries - 1)
  }

  entry(number: number): OffsetEntry {
    return this.store.read(number, (bytes, at) => ({
      lastOffset: this.#baseOffset + bytes.readUInt32BE(at),
      position: bytes.readUInt32BE(at + 4),
    }))
  }
}
