/**
 * The disk as MoonMQ sees it (DESIGN D6). `NodeDisk` is the machine's; `MemoryDisk` keeps what was synced apart from what was
 * only written, and can forget the rest. Both pass `test/contract/disk.ts`. Paths are absolute, with `/` between names.
 * A failing operation rejects or throws with the error of the system: its `code` is ENOSPC, EDQUOT, EIO, ENOENT, EMFILE, ….
 */
export interface Disk {
  /** `write` creates the file when missing. `create` fails with EEXIST when it exists. */
  open(path: string, access: 'read' | 'write' | 'create'): Promise<DiskFile>
  /** The same at once, on the path of a request that must not wait; `read` and `write` only. */
  openNow(path: string, access: 'read' | 'write'): DiskFile
  stat(path: string): Promise<DiskStat | null>
  /** The same at once: it reads memory of the kernel. */
  statNow(path: string): DiskStat | null
  /** Names in a directory, sorted by name. ENOENT when it is missing. */
  list(path: string): Promise<DiskEntry[]>
  /** With its parents. Nothing happens when it exists. */
  makeDirectory(path: string): Promise<void>
  /** Replaces the target when it is a file. */
  rename(from: string, to: string): Promise<void>
  /** Nothing happens when it is missing. */
  removeFile(path: string): Promise<void>
  /** With all that is in it; nothing happens when it is missing. */
  removeTree(path: string): Promise<void>
  /** Bytes that can still be written on the volume of the directory, and all that it has; infinite where there is no limit. */
  space(path: string): Promise<DiskSpace>
  /** Makes names created, renamed or removed in the directory durable. */
  syncDirectory(path: string): Promise<void>
}

export interface DiskStat {
  readonly kind: 'file' | 'directory'
  readonly sizeBytes: number
  readonly modifiedMs: number
}

export interface DiskSpace {
  readonly freeBytes: number
  readonly totalBytes: number
}

export interface DiskEntry {
  readonly name: string
  readonly kind: 'file' | 'directory'
}

/** Writes up to this size go to the page cache at once; larger ones through the thread pool. */
export const WRITE_NOW_MAX_BYTES = 256 * 1024

export type SyncUrgency = 'usual' | 'urgent'

/**
 * An open file. Positions are explicit; nothing seeks. `writeNow` is synchronous and for at most `WRITE_NOW_MAX_BYTES`.
 * A short write is completed or ends in an error. After `close` every call fails.
 */
export interface DiskFile {
  readonly path: string
  /** Bytes in the file: as found at open, moved by writes and truncation through this handle. */
  readonly sizeBytes: number
  /** Reads at once, for bytes that are probably in the page cache. Returns how many were there. */
  readNow(target: Buffer, position: number): number
  read(target: Buffer, position: number): Promise<number>
  writeNow(buffers: readonly Buffer[], position: number): void
  write(buffers: readonly Buffer[], position: number): Promise<void>
  /**
   * Makes all bytes written so far durable, the file's size with them. At most pool size − 2 run at once on the machine; one that is
   * urgent begins before all that wait.
   */
  datasync(urgency?: SyncUrgency): Promise<void>
  truncate(sizeBytes: number): Promise<void>
  close(): Promise<void>
}
