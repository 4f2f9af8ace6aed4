import { assert } from '../core/assert.ts'
import { MoonMQError } from '../core/errors.ts'
import type { DiskFile } from '../io/disk.ts'
import type { CachedFile } from './handles.ts'

/**
 * Entries of one size in a file that only grows. New ones gather in memory and are written behind the log's bytes: an index that
 * runs ahead of its log points at nothing, one that lags is only slower. Look-ups read single entries from the page cache, so a
 * log of any age costs no memory here. The kinds of index put meaning into the bytes.
 */
export class IndexFile {
  readonly file: CachedFile
  readonly entryBytes: number
  /** Entries that are in the file; null while nobody has looked. */
  #found: number | null
  #pending: Buffer = EMPTY
  #pendingCount = 0
  /** Nothing is written while the file is being emptied for this one. */
  isHeld = false
  readonly #scratch: Buffer

  constructor(file: CachedFile, options: { entryBytes: number; entries: number | null }) {
    this.file = file
    this.entryBytes = options.entryBytes
    this.#found = options.entries
    this.#scratch = Buffer.alloc(options.entryBytes)
  }

  /** Asks the file for its size when nobody did so far. Throws when it is missing or ends within an entry. */
  get #inFile(): number {
    this.#found ??= this.#count()
    return this.#found
  }

  /** Entries in the file, null when nobody counted them. */
  get written(): number | null {
    return this.#found
  }

  /** It has no entry, in the file or in memory. */
  get isUnused(): boolean {
    return this.#found === 0 && this.#pendingCount === 0
  }

  get entries(): number {
    return this.#inFile + this.#pendingCount
  }

  get pendingBytes(): number {
    return this.#pendingCount * this.entryBytes
  }

  /** Room for one more entry: the buffer and where in it the caller puts the bytes. */
  grow(): { readonly bytes: Buffer; readonly at: number } {
    const at = this.#pendingCount * this.entryBytes
    if (at + this.entryBytes > this.#pending.length) {
      const larger = Buffer.alloc(Math.max(16 * this.entryBytes, this.#pending.length * 2))
      this.#pending.copy(larger)
      this.#pending = larger
    }
    this.#pendingCount++
    return { bytes: this.#pending, at }
  }

  /** Writes what is pending into the page cache, or the first entries of it for which `isDue` holds. */
  flush(isDue: ((bytes: Buffer, at: number) => boolean) | null = null): void {
    if (this.#pendingCount === 0 || this.isHeld) return
    let count = this.#pendingCount
    if (isDue !== null) while (count > 0 && !isDue(this.#pending, (count - 1) * this.entryBytes)) count--
    if (count === 0) return
    const handle = this.file.acquire()
    try {
      const bytes = this.#pending.subarray(0, count * this.entryBytes)
      let at = 0
      while (at < bytes.length) {
        const part = bytes.subarray(at, at + FLUSH_BYTES)
        handle.writeNow([part], this.#inFile * this.entryBytes + at)
        at += part.length
      }
    } finally {
      this.file.release()
    }
    this.#found = this.#inFile + count
    this.#pendingCount -= count
    this.#pending = this.#pendingCount === 0 ? EMPTY : this.#pending.subarray(count * this.entryBytes)
  }

  /** Writes what is pending; the file is there afterwards. What a power cut takes of it is built again. */
  leave(): void {
    this.file.acquire()
    this.file.release()
    this.flush()
  }

  /** Forgets every entry of a file that is not there. */
  forget(): void {
    this.#pendingCount = 0
    this.#found = 0
  }

  /** Forgets every entry, whatever the file holds. */
  async reset(): Promise<void> {
    this.#pendingCount = 0
    await this.emptyFile()
    this.#found = 0
  }

  /** Empties the file and leaves alone what gathers in memory for it. */
  async emptyFile(): Promise<void> {
    const handle = this.file.acquire()
    try {
      await handle.truncate(0)
    } finally {
      this.file.release()
    }
  }

  async sync(): Promise<void> {
    if (this.isHeld) {
      await this.emptyFile()
      this.isHeld = false
    }
    this.flush()
    const handle = this.file.acquire()
    try {
      await handle.datasync()
    } finally {
      this.file.release()
    }
  }

  /**
   * Number of the last entry for which `isAtOrBefore` holds, or −1. Entries are in order, so it holds for a first part of them. The
   * reader's file is opened once for the whole search.
   */
  lastWhere(isAtOrBefore: (bytes: Buffer, at: number) => boolean): number {
    if (this.entries === 0) return -1
    const handle = this.#inFile > 0 ? this.file.acquire() : null
    try {
      let low = 0
      let high = this.entries - 1
      while (low <= high) {
        const middle = (low + high) >>> 1
        if (this.#test(handle, middle, isAtOrBefore)) low = middle + 1
        else high = middle - 1
      }
      return high
    } finally {
      if (handle !== null) this.file.release()
    }
  }

  /** Hands entry `number` to `use`. */
  read<T>(number: number, use: (bytes: Buffer, at: number) => T): T {
    assert(number >= 0 && number < this.entries, 'the entry exists')
    if (number >= this.#inFile) return use(this.#pending, (number - this.#inFile) * this.entryBytes)
    const handle = this.file.acquire()
    try {
      return this.#test(handle, number, use)
    } finally {
      this.file.release()
    }
  }

  #count(): number {
    const { sizeBytes } = this.file.acquire()
    this.file.release()
    if (sizeBytes % this.entryBytes === 0) return sizeBytes / this.entryBytes
    throw new MoonMQError('CORRUPT_RECORDS', {
      file: this.file.path,
      position: sizeBytes,
      reason: `an index of ${this.entryBytes}-byte entries does not end here`,
    })
  }

  #test<T>(handle: DiskFile | null, number: number, use: (bytes: Buffer, at: number) => T): T {
    if (number >= this.#inFile || handle === null) return use(this.#pending, (number - this.#inFile) * this.entryBytes)
    const got = handle.readNow(this.#scratch, number * this.entryBytes)
    // A file shorter than it was found reads as zeros: the look-up lands nowhere, which its reader notices.
    if (got < this.entryBytes) this.#scratch.fill(0, got)
    return use(this.#scratch, 0)
  }
}

const EMPTY = Buffer.alloc(0)
const FLUSH_BYTES = 256 * 1024
