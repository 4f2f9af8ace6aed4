import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { type DiskFile, WRITE_NOW_MAX_BYTES } from './disk.ts'
import type { DiskOperation, FaultEffect } from './disk-faults.ts'
import type { FileNode, MemoryDevice } from './memory-device.ts'
import { systemError } from './system-error.ts'

/** What was done to files: operations that ended well, and their bytes. */
export interface DiskCounters {
  readonly opens: number
  readonly reads: number
  readonly readBytes: number
  readonly writes: number
  readonly writtenBytes: number
  readonly syncs: number
}

/** What a handle needs of the disk that opened it. */
export interface MemoryFileHost {
  /** Waits until the operation ends. */
  arrive(operation: DiskOperation, path: string): Promise<void>
  /** The fault that hits this operation, or null; throws when the fault is an error or the disk is off. */
  effect(operation: DiskOperation, path: string): FaultEffect | null
  count(path: string, what: keyof DiskCounters, amount: number): void
  closed(file: MemoryFile): void
}

interface MemoryFileDeps {
  readonly host: MemoryFileHost
  readonly device: MemoryDevice
  readonly clock: Clock
}

/** A handle of a file in memory. What it wrote is in the device; the handle owns nothing but its own count of bytes. */
export class MemoryFile implements DiskFile {
  readonly path: string
  readonly #disk: MemoryFileHost
  readonly #device: MemoryDevice
  readonly #node: FileNode
  readonly #writable: boolean
  readonly #clock: Clock
  #sizeBytes: number
  #closed = false

  constructor(deps: MemoryFileDeps, path: string, node: FileNode, writable: boolean) {
    this.#disk = deps.host
    this.#device = deps.device
    this.path = path
    this.#node = node
    this.#writable = writable
    this.#clock = deps.clock
    this.#sizeBytes = node.content.sizeBytes
    node.handles++
  }

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  readNow(target: Buffer, position: number): number {
    this.#expectOpen('read')
    return this.#read(target, position)
  }

  async read(target: Buffer, position: number): Promise<number> {
    this.#expectOpen('read')
    await this.#disk.arrive('read', this.path)
    return this.#read(target, position)
  }

  #read(target: Buffer, position: number): number {
    const effect = this.#disk.effect('read', this.path)
    const count = this.#node.content.read(target, position)
    if (effect?.kind === 'bitFlip' && count > 0) flipBit(target, effect.bit % (count * 8))
    this.#disk.count(this.path, 'reads', 1)
    this.#disk.count(this.path, 'readBytes', count)
    return count
  }

  writeNow(buffers: readonly Buffer[], position: number): void {
    this.#expectOpen('write')
    assert(totalBytes(buffers) <= WRITE_NOW_MAX_BYTES, 'writeNow is for small writes')
    this.#write(buffers, position)
  }

  async write(buffers: readonly Buffer[], position: number): Promise<void> {
    this.#expectOpen('write')
    await this.#disk.arrive('write', this.path)
    this.#write(buffers, position)
  }

  #write(buffers: readonly Buffer[], position: number): void {
    if (!this.#writable) throw systemError('EBADF', 'write', this.path, 'the file was opened for reading')
    const effect = this.#disk.effect('write', this.path)
    const size = totalBytes(buffers)
    if (effect?.kind === 'shortWrite') {
      this.#store([Buffer.concat(buffers).subarray(0, effect.keepBytes)], position)
      throw systemError(effect.code ?? 'ENOSPC', 'write', this.path)
    }
    if (effect?.kind === 'bitFlip' && size > 0) {
      const copy = Buffer.concat(buffers)
      flipBit(copy, effect.bit % (size * 8))
      this.#store([copy], position)
    } else if (effect?.kind !== 'lostWrite') this.#store(buffers, position)
    this.#sizeBytes = Math.max(this.#sizeBytes, position + size)
  }

  #store(buffers: readonly Buffer[], position: number): void {
    this.#device.write(this.#node, buffers, position, this.path)
    const size = totalBytes(buffers)
    this.#sizeBytes = Math.max(this.#sizeBytes, position + size)
    this.#node.modifiedMs = Math.floor(this.#clock.nowMs())
    this.#disk.count(this.path, 'writes', 1)
    this.#disk.count(this.path, 'writtenBytes', size)
  }

  async datasync(): Promise<void> {
    this.#expectOpen('fdatasync')
    const { order } = this.#device
    await this.#disk.arrive('datasync', this.path)
    const effect = this.#disk.effect('datasync', this.path)
    this.#device.sync(this.#node, order, effect?.kind === 'failedSync')
    if (effect !== null) throw systemError('EIO', 'fdatasync', this.path)
    this.#disk.count(this.path, 'syncs', 1)
  }

  async truncate(sizeBytes: number): Promise<void> {
    this.#expectOpen('ftruncate')
    await this.#disk.arrive('truncate', this.path)
    if (!this.#writable) throw systemError('EINVAL', 'ftruncate', this.path, 'the file was opened for reading')
    const effect = this.#disk.effect('truncate', this.path)
    assert(effect === null, 'this fault fits reads, writes and syncs of files only')
    this.#device.truncate(this.#node, sizeBytes, this.path)
    this.#sizeBytes = sizeBytes
    this.#node.modifiedMs = Math.floor(this.#clock.nowMs())
  }

  async close(): Promise<void> {
    this.#expectOpen('close')
    this.#closed = true
    this.#disk.closed(this)
    try {
      await this.#disk.arrive('close', this.path)
      const effect = this.#disk.effect('close', this.path)
      assert(effect === null, 'this fault fits reads, writes and syncs of files only')
    } finally {
      this.#release()
    }
  }

  /** The process that held the handle is gone. */
  drop(): void {
    if (this.#closed) return
    this.#closed = true
    this.#release()
  }

  #release(): void {
    this.#node.handles--
    this.#device.freeUnused(this.#node)
  }

  #expectOpen(syscall: string): void {
    if (this.#closed) throw systemError('EBADF', syscall, this.path)
  }
}

function totalBytes(buffers: readonly Buffer[]): number {
  let size = 0
  for (const buffer of buffers) size += buffer.length
  return size
}

function flipBit(bytes: Buffer, bit: number): void {
  const at = bit >>> 3
  bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7))
}
