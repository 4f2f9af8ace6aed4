import { crc32c } from '../core/crc32c.ts'
import { isCode, MoonMQError } from '../core/errors.ts'
import { readInt64, writeInt64 } from '../core/int64.ts'
import type { Logger } from '../core/logger.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { systemCode } from '../io/system-error.ts'
import type { TxnSeal } from './txn-seals.ts'
import type { AbortedTransaction } from './types.ts'

/**
 * Kafka's `<20-digit base offset>.txnindex`: one entry for each aborted transaction whose marker lies in the segment.
 * int16 version 0, int64 producer id, int64 first offset, int64 last offset (of the marker), int64 last stable offset.
 * Entries are in the order of their markers. The file exists once there is an entry, and can be rebuilt from the batches of the log. It
 * has no checksum, and one that is missing looks like one without entries: what it must hold is saved with the recovery points.
 */
export const TXN_INDEX_ENTRY_BYTES = 34
const VERSION = 0
const READ_BYTES = 1024 * TXN_INDEX_ENTRY_BYTES
/** Entries that one index may hold: 64 MiB of file, far beyond what a segment can give rise to. */
const MAX_ENTRIES = 2_000_000

export interface AbortedTxnEntry {
  readonly producerId: number
  readonly firstOffset: number
  readonly lastOffset: number
  readonly lastStableOffset: number
}

export function encodeTxnIndexEntry(entry: AbortedTxnEntry): Buffer {
  const bytes = Buffer.allocUnsafe(TXN_INDEX_ENTRY_BYTES)
  bytes.writeInt16BE(VERSION, 0)
  writeInt64(bytes, entry.producerId, 2)
  writeInt64(bytes, entry.firstOffset, 10)
  writeInt64(bytes, entry.lastOffset, 18)
  writeInt64(bytes, entry.lastStableOffset, 26)
  return bytes
}

/**
 * Decodes and checks the bytes of an index. `position` is where they stand in the file, `previous` the entry before them.
 * Throws CORRUPT_RECORDS naming the byte of the first entry that cannot be true.
 */
export function decodeTxnIndex(
  bytes: Buffer,
  place: { file: string; position: number; baseOffset: number },
  previous: AbortedTxnEntry | undefined,
): AbortedTxnEntry[] {
  const entries: AbortedTxnEntry[] = []
  let last = previous
  for (let at = 0; at < bytes.length; at += TXN_INDEX_ENTRY_BYTES) {
    const position = place.position + at
    const bad = (reason: string) => new MoonMQError('CORRUPT_RECORDS', { file: place.file, position, reason })
    if (bytes.length - at < TXN_INDEX_ENTRY_BYTES) throw bad(`${bytes.length - at} bytes left, an entry has ${TXN_INDEX_ENTRY_BYTES}`)
    const version = bytes.readInt16BE(at)
    if (version !== VERSION) throw bad(`version ${version} of a transaction index entry is not known`)
    const entry = {
      producerId: readInt64(bytes, at + 2),
      firstOffset: readInt64(bytes, at + 10),
      lastOffset: readInt64(bytes, at + 18),
      lastStableOffset: readInt64(bytes, at + 26),
    }
    const reason = implausible(entry, place.baseOffset, last)
    if (reason !== null) throw bad(reason)
    entries.push(entry)
    last = entry
  }
  return entries
}

function implausible(entry: AbortedTxnEntry, baseOffset: number, previous: AbortedTxnEntry | undefined): string | null {
  const { producerId, firstOffset, lastOffset, lastStableOffset } = entry
  for (const value of [producerId, firstOffset, lastOffset, lastStableOffset]) {
    if (!Number.isSafeInteger(value) || value < 0) return `${value} cannot be a producer id or an offset`
  }
  if (lastOffset < baseOffset) return `the marker at ${lastOffset} lies before the segment's base offset ${baseOffset}`
  if (firstOffset >= lastOffset) return `the transaction starts at ${firstOffset} and ends at ${lastOffset}`
  if (lastStableOffset > lastOffset + 1) return `the last stable offset ${lastStableOffset} lies beyond the marker at ${lastOffset}`
  if (previous !== undefined && lastOffset <= previous.lastOffset)
    return `the marker at ${lastOffset} follows one at ${previous.lastOffset}`
  return null
}

/**
 * The transaction index of one segment, kept in memory once loaded. `append` writes at once; `sync` makes it durable, and must be
 * called before a recovery point may pass the segment, since recovery rebuilds the index only from there on. A file that does not hold
 * what the seal says is damaged, be it missing.
 */
export class TxnIndex {
  #path: string
  readonly #disk: Disk
  readonly #baseOffset: number
  #entries: AbortedTxnEntry[] | null = null
  /** Of the entries in memory. */
  #checksum = 0
  /** One of these the file must fit when it is read; null: nothing was saved of it. */
  #seals: readonly TxnSeal[] | null
  #file: DiskFile | null = null
  #dirty = false
  /** Entries that are in the file: all of them, but before the first write to a partition, when its folder is not there yet. */
  #written = 0
  /** The file is being taken away: entries are written by the sync that follows. */
  #isReplaced = false

  constructor(deps: { disk: Disk }, options: { path: string; baseOffset: number; seals?: readonly TxnSeal[] | null }) {
    this.#disk = deps.disk
    this.#path = options.path
    this.#baseOffset = options.baseOffset
    this.#seals = options.seals ?? null
  }

  get path(): string {
    return this.#path
  }

  /** The file has another name. */
  moved(path: string): void {
    this.#path = path
  }

  /** It has entries that are not durable. */
  get isDirty(): boolean {
    return this.#dirty
  }

  /** What is to be saved of it: more than one only while nobody looked which of them is in the file. Null: nobody knows. */
  get seals(): readonly TxnSeal[] | null {
    if (this.#entries === null) return this.#seals
    return [{ baseOffset: this.#baseOffset, entries: this.#entries.length, checksum: this.#checksum }]
  }

  /** As far as is known without a look at the file, it holds nothing. */
  get isSealedEmpty(): boolean {
    return this.seals?.every((seal) => seal.entries === 0) === true
  }

  /** Reads the file unless that was done; a missing one is empty. Throws CORRUPT_RECORDS: then it must be built again. */
  load(): readonly AbortedTxnEntry[] {
    if (this.#entries !== null) return this.#entries
    const entries: AbortedTxnEntry[] = []
    let checksum = 0
    const file = this.#openExisting()
    if (file !== null) {
      try {
        checksum = this.#readAll(file, entries)
      } finally {
        // Nothing was written through this handle, so nothing is lost when closing it fails.
        file.close().catch(() => {})
      }
    }
    this.#expectSealed(entries.length, checksum)
    this.#take(entries, checksum)
    this.#written = entries.length
    return entries
  }

  #take(entries: AbortedTxnEntry[], checksum: number): void {
    this.#entries = entries
    this.#checksum = checksum
  }

  #expectSealed(entries: number, checksum: number): void {
    if (this.#seals === null || this.#seals.some((seal) => seal.entries === entries && seal.checksum === checksum)) return
    const sealed = this.#seals.map((seal) => seal.entries).join(' or ')
    const reason = `it holds ${entries} aborted transactions and not the ${sealed} that were saved of it`
    throw new MoonMQError('CORRUPT_RECORDS', { file: this.path, position: 0, reason })
  }

  /** Adds a transaction. True when this made the file, whose name the directory must then make durable. */
  append(entry: AbortedTxnEntry): boolean {
    const entries = this.load() as AbortedTxnEntry[]
    const previous = entries[entries.length - 1]
    const reason = implausible(entry, this.#baseOffset, previous)
    if (reason !== null) throw new MoonMQError('CORRUPT_RECORDS', { file: this.path, position: this.sizeBytes, reason })
    const bytes = encodeTxnIndexEntry(entry)
    entries.push(entry)
    try {
      this.#write(entries)
    } catch (error) {
      // The first batches of a partition make its folder once they are written, and the index follows with its sync.
      if (systemCode(error) !== 'ENOENT') {
        entries.pop()
        throw error
      }
    }
    this.#checksum = crc32c(bytes, 0, bytes.length, this.#checksum)
    this.#dirty = true
    return entries.length === 1
  }

  #write(entries: readonly AbortedTxnEntry[]): void {
    if (this.#isReplaced) return
    this.#file ??= this.#disk.openNow(this.path, 'write')
    for (; this.#written < entries.length; this.#written++) {
      this.#file.writeNow([encodeTxnIndexEntry(entries[this.#written] as AbortedTxnEntry)], this.#written * TXN_INDEX_ENTRY_BYTES)
    }
  }

  get sizeBytes(): number {
    return this.load().length * TXN_INDEX_ENTRY_BYTES
  }

  /**
   * Adds to `into` the aborted transactions with a record in [from, to). True when no later segment can hold another one; false
   * when the search goes on in the next segment's index.
   */
  collect(from: number, to: number, into: AbortedTransaction[]): boolean {
    const entries = this.load()
    for (let index = this.#firstEndingAtOrAfter(from); index < entries.length; index++) {
      const entry = entries[index] as AbortedTxnEntry
      if (entry.firstOffset < to) into.push({ producerId: entry.producerId, firstOffset: entry.firstOffset })
      if (entry.lastStableOffset >= to) return true
    }
    return false
  }

  /** Throws the index away, to be built again or for good. */
  reset(): Promise<void> {
    return this.#replace([])
  }

  /** Puts these entries in the place of whatever there is, for readers at once; durable but for the name of the file when it resolves. */
  async rebuild(entries: readonly AbortedTxnEntry[]): Promise<void> {
    await this.#replace(entries)
    await this.sync()
  }

  async #replace(entries: readonly AbortedTxnEntry[]): Promise<void> {
    const file = this.#file
    this.#file = null
    this.#take(
      [...entries],
      entries.reduce((checksum, entry) => crc32c(encodeTxnIndexEntry(entry), 0, TXN_INDEX_ENTRY_BYTES, checksum), 0),
    )
    this.#written = 0
    this.#dirty = entries.length > 0
    this.#isReplaced = true
    try {
      await file?.close()
      // Most logs have none, and recovery asks for every log.
      if (this.#disk.statNow(this.path) !== null) await this.#disk.removeFile(this.path)
    } finally {
      this.#isReplaced = false
    }
  }

  async sync(): Promise<void> {
    if (!this.#dirty) return
    this.#write(this.load())
    this.#dirty = false
    await this.#file?.datasync()
  }

  /** Closes the file and forgets the entries; the next use reads it again, and finds what was closed or says that it does not. */
  async close(): Promise<void> {
    const file = this.#file
    this.#file = null
    this.#seals = this.seals
    this.#entries = null
    this.#dirty = false
    await file?.close()
  }

  #firstEndingAtOrAfter(offset: number): number {
    const entries = this.load()
    let low = 0
    let high = entries.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((entries[middle] as AbortedTxnEntry).lastOffset < offset) low = middle + 1
      else high = middle
    }
    return low
  }

  #openExisting(): DiskFile | null {
    try {
      return this.#disk.openNow(this.path, 'read')
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return null
      throw error
    }
  }

  /** Returns the checksum of what it read. */
  #readAll(file: DiskFile, entries: AbortedTxnEntry[]): number {
    if (file.sizeBytes > MAX_ENTRIES * TXN_INDEX_ENTRY_BYTES) {
      throw new MoonMQError('CORRUPT_RECORDS', { file: this.path, position: 0, reason: `${file.sizeBytes} bytes are no transaction index` })
    }
    let checksum = 0
    const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, file.sizeBytes))
    for (let position = 0; position < file.sizeBytes; ) {
      const size = file.readNow(chunk, position)
      if (size === 0) break
      const place = { file: this.path, position, baseOffset: this.#baseOffset }
      for (const entry of decodeTxnIndex(chunk.subarray(0, size), place, entries[entries.length - 1])) entries.push(entry)
      checksum = crc32c(chunk, 0, size, checksum)
      position += size
    }
    return checksum
  }
}

/** For the active segment, before it takes more: an index that does not fit is best built again by the recovery of the log. */
export function isTxnIndexWhole(index: TxnIndex, log: Logger): boolean {
  try {
    index.load()
    return true
  } catch (error) {
    if (!isCode(error, 'CORRUPT_RECORDS')) throw error
    log.warn('storage.txn_index_damaged', `${index.path} is damaged; it is built again`, { reason: error.message })
    return false
  }
}
