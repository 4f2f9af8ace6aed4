/**
 * Work that is too long for a turn of the event loop. `io/offload` runs it in the thread pool; a simulation runs it inline.
 * Inflating stops at `maxBytes` and never takes memory beyond it: INFLATED_TOO_LARGE. Damaged input is CORRUPT_BATCH.
 */
export interface Offload {
  /** Inflates gzip bytes (RFC 1952), one member or several. */
  gunzip(bytes: Buffer, maxBytes: number): Promise<Buffer>
  gzip(bytes: Buffer): Promise<Buffer>
  /** Zstandard (RFC 8878) where the runtime brings it (Node from 22.15 on), else null. */
  readonly zstd: ZstdOffload | null
}

export interface ZstdOffload {
  decompress(bytes: Buffer, maxBytes: number): Promise<Buffer>
  compress(bytes: Buffer): Promise<Buffer>
}
