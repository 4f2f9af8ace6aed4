import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { assert } from '../core/assert.ts'
import { type Disk, type DiskEntry, type DiskFile, type DiskSpace, type DiskStat, type SyncUrgency, WRITE_NOW_MAX_BYTES } from './disk.ts'
import { SyncSlots } from './sync-slots.ts'
import { systemCode, systemError } from './system-error.ts'

export interface NodeDiskOptions {
  /** Threads that the process runs file operations on (libuv's `UV_THREADPOOL_SIZE`; 4 unless it was set). */
  readonly poolSize: number
}

const READ_WRITE = fs.constants.O_RDWR | fs.constants.O_CREAT
/** The thread pool is one for the process, so its budget of syncs is too, however many disks there are. */
const syncSlots = new SyncSlots()
/** What a gathering write takes at once on every system (POSIX IOV_MAX). */
const MAX_WRITE_PARTS = 1024

/**
 * The machine's disk. Small writes go into the page cache on the calling thread; what may block for long (large writes, reads of
 * cold bytes, syncs) runs in the thread pool. A sync can hold a thread for as long as the device likes, so at most
 * `poolSize − 2` of them (never fewer than one) run at once in the whole process, and reads always find a thread.
 */
export class NodeDisk implements Disk {
  readonly #maxSyncs: number

  constructor(options: NodeDiskOptions) {
    assert(Number.isInteger(options.poolSize) && options.poolSize > 0, 'the thread pool has at least one thread')
    this.#maxSyncs = Math.max(1, options.poolSize - 2)
  }

  async open(path: string, access: 'read' | 'write' | 'create'): Promise<DiskFile> {
    const fd = await new Promise<number>((resolve, reject) => {
      fs.open(path, flags(access), 0o644, (error, fd) => (error ? reject(error) : resolve(fd)))
    })
    return this.#wrap(path, fd)
  }

  openNow(path: string, access: 'read' | 'write'): DiskFile {
    return this.#wrap(path, fs.openSync(path, flags(access), 0o644))
  }

  /** Asking an open descriptor for its size reads memory of the kernel only, so it happens at once. */
  #wrap(path: string, fd: number): DiskFile {
    try {
      const stat = fs.fstatSync(fd)
      if (stat.isDirectory()) throw systemError('EISDIR', 'open', path)
      // A pipe in the place of a file has no positions, and would hold whoever reads it for ever.
      if (stat.isFIFO()) throw systemError('ESPIPE', 'open', path)
      return new NodeDiskFile(path, fd, stat.size, this.#maxSyncs)
    } catch (error) {
      fs.closeSync(fd)
      throw error
    }
  }

  async stat(path: string): Promise<DiskStat | null> {
    try {
      return diskStat(await fs.promises.stat(path))
    } catch (error) {
      if (systemCode(error) === 'ENOENT' || systemCode(error) === 'ENOTDIR') return null
      throw error
    }
  }

  statNow(path: string): DiskStat | null {
    try {
      const stat = fs.statSync(path, { throwIfNoEntry: false })
      return stat === undefined ? null : diskStat(stat)
    } catch (error) {
      if (systemCode(error) === 'ENOTDIR') return null
      throw error
    }
  }

  async list(path: string): Promise<DiskEntry[]> {
    const entries: DiskEntry[] = []
    for (const entry of await fs.promises.readdir(path, { withFileTypes: true })) {
      // A link counts as what it leads to; one that leads nowhere as a file, so that somebody sees it.
      const isDirectory = entry.isSymbolicLink() ? await this.#leadsToDirectory(`${path}/${entry.name}`) : entry.isDirectory()
      entries.push({ name: entry.name, kind: isDirectory ? 'directory' : 'file' })
    }
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  async #leadsToDirectory(link: string): Promise<boolean> {
    try {
      return (await this.stat(link))?.kind === 'directory'
    } catch (error) {
      // Links that lead to each other: one of them must not keep everything else in the folder from being seen.
      if (systemCode(error) === 'ELOOP') return false
      throw error
    }
  }

  async makeDirectory(path: string): Promise<void> {
    // Not by `recursive`: where even the parent that is there refuses (as /proc does) Node 20 tries for ever.
    try {
      await fs.promises.mkdir(path)
    } catch (error) {
      const code = systemCode(error)
      if (code === 'ENOENT' && dirname(path) !== path) {
        if ((await this.stat(dirname(path))) !== null) throw error
        await this.makeDirectory(dirname(path))
        await this.makeDirectory(path)
      } else if ((await this.stat(path))?.kind !== 'directory') throw error
    }
  }

  rename(from: string, to: string): Promise<void> {
    return fs.promises.rename(from, to)
  }

  async removeFile(path: string): Promise<void> {
    try {
      await fs.promises.unlink(path)
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
    }
  }

  removeTree(path: string): Promise<void> {
    return fs.promises.rm(path, { recursive: true, force: true })
  }

  async space(path: string): Promise<DiskSpace> {
    const stat = await fs.promises.statfs(path)
    // What is set aside for root is no space of ours, though root could take it.
    return { freeBytes: stat.bavail * stat.bsize, totalBytes: stat.blocks * stat.bsize }
  }

  async syncDirectory(path: string): Promise<void> {
    const handle = await fs.promises.open(path, fs.constants.O_RDONLY)
    try {
      await syncSlots.run(this.#maxSyncs, () => handle.sync())
    } finally {
      await handle.close()
    }
  }
}

function diskStat(stat: fs.Stats): DiskStat {
  return { kind: stat.isDirectory() ? 'directory' : 'file', sizeBytes: stat.size, modifiedMs: Math.floor(stat.mtimeMs) }
}

/** Opening a pipe waits for its other end unless told otherwise; to a file it makes no difference. Windows has no such flag. */
const NO_WAIT = fs.constants.O_NONBLOCK ?? 0

function flags(access: 'read' | 'write' | 'create'): number {
  if (access === 'read') return fs.constants.O_RDONLY | NO_WAIT
  return access === 'write' ? READ_WRITE : READ_WRITE | fs.constants.O_EXCL
}

/** Owns its descriptor. `close` waits for operations in the pool: a descriptor given back early could be another file's already. */
class NodeDiskFile implements DiskFile {
  readonly path: string
  readonly #fd: number
  readonly #maxSyncs: number
  #sizeBytes: number
  #running = 0
  #closing: Promise<void> | null = null
  #idle: (() => void) | null = null

  constructor(path: string, fd: number, sizeBytes: number, maxSyncs: number) {
    this.path = path
    this.#fd = fd
    this.#sizeBytes = sizeBytes
    this.#maxSyncs = maxSyncs
  }

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  readNow(target: Buffer, position: number): number {
    this.#expectOpen('read')
    try {
      let done = 0
      while (done < target.length) {
        const count = fs.readSync(this.#fd, target, done, target.length - done, position + done)
        if (count === 0) break
        done += count
      }
      return done
    } catch (error) {
      throw withPath(error, this.path)
    }
  }

  read(target: Buffer, position: number): Promise<number> {
    return this.#pooled('read', async () => {
      let done = 0
      while (done < target.length) {
        const count = await readOnce(this.#fd, target, done, position + done)
        if (count === 0) break
        done += count
      }
      return done
    })
  }

  writeNow(buffers: readonly Buffer[], position: number): void {
    this.#expectOpen('write')
    let left = buffers
    let at = position
    let size = totalBytes(left)
    assert(size <= WRITE_NOW_MAX_BYTES, 'writeNow is for small writes')
    try {
      while (size > 0) {
        const count = writeOnceNow(this.#fd, left, at)
        at += count
        this.#grewTo(at)
        size -= count
        if (size > 0) left = afterShortWrite(left, count, this.path)
      }
    } catch (error) {
      throw withPath(error, this.path)
    }
  }

  write(buffers: readonly Buffer[], position: number): Promise<void> {
    return this.#pooled('write', async () => {
      let left = buffers
      let at = position
      let size = totalBytes(left)
      while (size > 0) {
        const count = await writeOnce(this.#fd, left, at)
        at += count
        this.#grewTo(at)
        size -= count
        if (size > 0) left = afterShortWrite(left, count, this.path)
      }
    })
  }

  /** Waits for a sync slot; what is written while it waits is covered too. */
  datasync(urgency: SyncUrgency = 'usual'): Promise<void> {
    return this.#pooled('fdatasync', () => syncSlots.run(this.#maxSyncs, () => datasync(this.#fd), urgency))
  }

  truncate(sizeBytes: number): Promise<void> {
    return this.#pooled('ftruncate', async () => {
      await truncate(this.#fd, sizeBytes)
      this.#sizeBytes = sizeBytes
    })
  }

  close(): Promise<void> {
    if (this.#closing !== null) return Promise.reject(systemError('EBADF', 'close', this.path))
    this.#closing = this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.#running > 0) {
      await new Promise<void>((resolve) => {
        this.#idle = resolve
      })
    }
    await new Promise<void>((resolve, reject) => fs.close(this.#fd, (error) => (error ? reject(error) : resolve())))
  }

  async #pooled<T>(syscall: string, work: () => Promise<T>): Promise<T> {
    this.#expectOpen(syscall)
    this.#running++
    try {
      return await work()
    } catch (error) {
      throw withPath(error, this.path)
    } finally {
      this.#running--
      if (this.#running === 0) this.#idle?.()
    }
  }

  #expectOpen(syscall: string): void {
    if (this.#closing !== null) throw systemError('EBADF', syscall, this.path)
  }

  #grewTo(end: number): void {
    if (end > this.#sizeBytes) this.#sizeBytes = end
  }
}

/** The system names no file in errors of a descriptor. */
function withPath(error: unknown, path: string): unknown {
  if (error instanceof Error && !('path' in error)) Object.assign(error, { path })
  return error
}

function totalBytes(buffers: readonly Buffer[]): number {
  let size = 0
  for (const buffer of buffers) size += buffer.length
  return size
}

function afterShortWrite(buffers: readonly Buffer[], written: number, path: string): Buffer[] {
  if (written === 0) throw systemError('EIO', 'write', path, 'the system took no bytes and gave no reason')
  const left: Buffer[] = []
  let skip = written
  for (const buffer of buffers) {
    if (skip >= buffer.length) skip -= buffer.length
    else {
      left.push(skip === 0 ? buffer : buffer.subarray(skip))
      skip = 0
    }
  }
  return left
}

function writeOnceNow(fd: number, buffers: readonly Buffer[], position: number): number {
  const first = buffers[0]
  if (buffers.length === 1 && first !== undefined) return fs.writeSync(fd, first, 0, first.length, position)
  return fs.writevSync(fd, buffers.length > MAX_WRITE_PARTS ? firstParts(buffers) : (buffers as Buffer[]), position)
}

function writeOnce(fd: number, buffers: readonly Buffer[], position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, count: number) => (error ? reject(error) : resolve(count))
    const first = buffers[0]
    if (buffers.length === 1 && first !== undefined) fs.write(fd, first, 0, first.length, position, done)
    else fs.writev(fd, buffers.length > MAX_WRITE_PARTS ? firstParts(buffers) : (buffers as Buffer[]), position, done)
  })
}

/** As many parts as one call takes; never only empty ones, which would look like a device that takes nothing. */
function firstParts(buffers: readonly Buffer[]): Buffer[] {
  return buffers.filter((buffer) => buffer.length > 0).slice(0, MAX_WRITE_PARTS)
}

function readOnce(fd: number, target: Buffer, offset: number, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, target, offset, target.length - offset, position, (error, count) => (error ? reject(error) : resolve(count)))
  })
}

function datasync(fd: number): Promise<void> {
  return new Promise((resolve, reject) => fs.fdatasync(fd, (error) => (error ? reject(error) : resolve())))
}

function truncate(fd: number, sizeBytes: number): Promise<void> {
  return new Promise((resolve, reject) => fs.ftruncate(fd, sizeBytes, (error) => (error ? reject(error) : resolve())))
}
