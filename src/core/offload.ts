/** Work that is too long for a turn of the event loop. `io/offload` runs it in the thread pool; a simulation runs it inline. */
export interface Offload {
  /** Inflates gzip bytes, at most to `maxBytes`. */
  gunzip(bytes: Buffer, maxBytes: number): Promise<Buffer>
}
