import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { type Random, SeededRandom } from '../core/random.ts'
import { AT_ONCE, type Completions } from './completions.ts'
import type { Disk, DiskEntry, DiskFile, DiskSpace, DiskStat } from './disk.ts'
import { DiskFaults, type DiskOperation, type Fault, type FaultEffect } from './disk-faults.ts'
import { type DirectoryNode, type DiskNode, MemoryDevice, type PowerCutOptions } from './memory-device.ts'
import { type DiskCounters, MemoryFile, type MemoryFileHost } from './memory-file.ts'
import { systemError } from './system-error.ts'

export interface MemoryDiskDeps {
  /** For the modification times that `stat` gives. */
  readonly clock: Clock
  /** When asynchronous operations end; at once by default. */
  readonly completions?: Completions
}

export interface MemoryDiskOptions {
  /** Memory that files may take before writes fail with ENOSPC; unbounded unless given. */
  readonly capacityBytes?: number
  /**
   * Keep what was synced apart from what was only written, so that `powerCut` can forget the rest, and count bytes by path. Takes
   * a second copy of everything; a broker that merely runs in memory turns it off. True unless given.
   */
  readonly tracksDurability?: boolean
}

type MutableCounters = { -readonly [Key in keyof DiskCounters]: number }

/**
 * A disk in memory: the product's disk for a broker that keeps nothing, and the disk of tests, which can cut its power, kill the
 * process above it and plant faults. A sync covers what was written before it was asked for and not a byte more, and takes effect
 * when it ends. `powerCut` and `processKilled` give a new disk with what is left; the old one fails everything from then on, so
 * code of the dead process that still runs cannot touch the survivor.
 */
export class MemoryDisk implements Disk {
  readonly #device: MemoryDevice
  readonly #clock: Clock
  readonly #completions: Completions
  readonly #faults = new DiskFaults()
  readonly #counters = new Map<string, MutableCounters>()
  readonly #open = new Set<MemoryFile>()
  readonly #host: MemoryFileHost = {
    arrive: (operation, path) => this.#arrive(operation, path),
    effect: (operation, path) => this.#effect(operation, path),
    count: (path, what, amount) => this.#count(path, what, amount),
    closed: (file) => this.#open.delete(file),
  }
  #off = false

  constructor(deps: MemoryDiskDeps, options: MemoryDiskOptions = {}, device?: MemoryDevice) {
    const { capacityBytes = Number.POSITIVE_INFINITY, tracksDurability = true } = options
    this.#device = device ?? new MemoryDevice({ capacityBytes, tracks: tracksDurability })
    this.#clock = deps.clock
    this.#completions = deps.completions ?? AT_ONCE
  }

  /** Memory that files and directories take. */
  get usedBytes(): number {
    return this.#device.usedBytes
  }

  async open(path: string, access: 'read' | 'write' | 'create'): Promise<DiskFile> {
    await this.#arrive('open', path)
    return this.#openFile(path, access)
  }

  openNow(path: string, access: 'read' | 'write'): DiskFile {
    return this.#openFile(path, access)
  }

  #openFile(path: string, access: 'read' | 'write' | 'create'): DiskFile {
    this.#enter('open', path)
    const { directory, name } = this.#parent('open', path)
    let node = directory.names.get(name)
    if (node === undefined) {
      if (access === 'read') throw systemError('ENOENT', 'open', path)
      node = this.#device.newFile(path)
      this.#device.changeNames(node, [{ directory, name, node }])
      this.#touch(directory)
      this.#touch(node)
    } else if (access === 'create') throw systemError('EEXIST', 'open', path)
    if (node.kind === 'directory') throw systemError('EISDIR', 'open', path)
    this.#count(path, 'opens', 1)
    const file = new MemoryFile({ host: this.#host, device: this.#device, clock: this.#clock }, path, node, access !== 'read')
    this.#open.add(file)
    return file
  }

  async stat(path: string): Promise<DiskStat | null> {
    await this.#arrive('stat', path)
    return this.statNow(path)
  }

  statNow(path: string): DiskStat | null {
    this.#enter('stat', path)
    const node = this.#find(path)
    if (node === null) return null
    return { kind: node.kind, sizeBytes: node.kind === 'file' ? node.content.sizeBytes : 0, modifiedMs: node.modifiedMs }
  }

  async list(path: string): Promise<DiskEntry[]> {
    await this.#arrive('list', path)
    this.#enter('list', path)
    const entries: DiskEntry[] = []
    for (const [name, node] of this.#directory('scandir', path).names) entries.push({ name, kind: node.kind })
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#arrive('makeDirectory', path)
    this.#enter('makeDirectory', path)
    let directory = this.#device.root
    for (const name of names('mkdir', path)) {
      let node = directory.names.get(name)
      if (node === undefined) {
        node = this.#device.newDirectory(path)
        this.#device.changeNames(node, [{ directory, name, node }])
        this.#touch(directory)
        this.#touch(node)
      }
      if (node.kind === 'file') throw systemError(path.endsWith(`/${name}`) ? 'EEXIST' : 'ENOTDIR', 'mkdir', path)
      directory = node
    }
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#arrive('rename', `${from} ${to}`)
    this.#enter('rename', from, to)
    const source = this.#parent('rename', from)
    const target = this.#parent('rename', to)
    const node = source.directory.names.get(source.name)
    const old = target.directory.names.get(target.name)
    if (node === undefined) throw systemError('ENOENT', 'rename', from)
    if (node === old) return
    if (to.startsWith(`${from}/`)) throw systemError('EINVAL', 'rename', from)
    if (old !== undefined) {
      if (node.kind === 'directory' && old.kind === 'file') throw systemError('ENOTDIR', 'rename', to)
      if (node.kind === 'file' && old.kind === 'directory') throw systemError('EISDIR', 'rename', to)
      if (old.kind === 'directory' && old.names.size > 0) throw systemError('ENOTEMPTY', 'rename', to)
      if (old.kind === 'directory') this.#device.freeDirectory()
    }
    this.#device.changeNames(node, [
      { directory: target.directory, name: target.name, node },
      { directory: source.directory, name: source.name, node: null },
    ])
    this.#touch(source.directory)
    this.#touch(target.directory)
  }

  async removeFile(path: string): Promise<void> {
    await this.#arrive('removeFile', path)
    this.#enter('removeFile', path)
    const { directory, name, node } = this.#findEntry(path)
    if (node === null || directory === null) return
    if (node.kind === 'directory') throw systemError('EISDIR', 'unlink', path)
    this.#device.changeNames(node, [{ directory, name, node: null }])
    this.#touch(directory)
  }

  async removeTree(path: string): Promise<void> {
    await this.#arrive('removeTree', path)
    this.#enter('removeTree', path)
    const { directory, name, node } = this.#findEntry(path)
    if (directory !== null && node !== null) this.#removeNode(directory, name, node)
  }

  #removeNode(directory: DirectoryNode, name: string, node: DiskNode): void {
    if (node.kind === 'directory') {
      for (const [childName, child] of [...node.names]) this.#removeNode(node, childName, child)
      this.#device.freeDirectory()
    }
    this.#device.changeNames(node, [{ directory, name, node: null }])
    this.#touch(directory)
  }

  async space(path: string): Promise<DiskSpace> {
    await this.#arrive('stat', path)
    this.#directory('statfs', path)
    const { capacityBytes, usedBytes } = this.#device
    return { freeBytes: Math.max(0, capacityBytes - usedBytes), totalBytes: capacityBytes }
  }

  async syncDirectory(path: string): Promise<void> {
    this.#expectOn('syncDirectory', path)
    const { order } = this.#device
    const directory = this.#directory('fsync', path)
    await this.#arrive('syncDirectory', path)
    this.#enter('syncDirectory', path)
    this.#device.syncNames(directory, order)
  }

  /** Plants a fault. Returns how to take it away. */
  fail(fault: Fault): () => void {
    return this.#faults.add(fault)
  }

  clearFaults(): void {
    this.#faults.clear()
  }

  /** Flips bits of a byte at rest, as a decaying medium does: written and synced bytes alike. */
  corrupt(path: string, position: number, mask = 1): void {
    const file = this.#find(path)
    assert(file?.kind === 'file', 'only a file can be corrupted')
    for (const content of [file.content, file.synced]) {
      const byte = Buffer.alloc(1)
      if (content === null || content.read(byte, position) === 0) continue
      byte[0] = (byte[0] ?? 0) ^ mask
      content.write(byte, position)
    }
  }

  /** The file's bytes as a reader sees them now; outside counters, faults and completions. */
  peek(path: string): Buffer | null {
    const file = this.#find(path)
    return file?.kind === 'file' ? file.content.toBuffer() : null
  }

  /** Sums over the files whose path contains `part` or matches it; all files when absent. Zero when durability is not tracked. */
  counters(part: string | RegExp = ''): DiskCounters {
    const sum = noCounters()
    for (const [path, counters] of this.#counters) {
      if (typeof part === 'string' ? !path.includes(part) : path.search(part) < 0) continue
      for (const key of Object.keys(sum) as (keyof DiskCounters)[]) sum[key] += counters[key]
    }
    return sum
  }

  resetCounters(): void {
    this.#counters.clear()
  }

  /** The power goes: a new disk with what was synced and whatever else chance left. This one fails everything from now on. */
  powerCut(random: Random, options: PowerCutOptions = {}, deps: MemoryDiskDeps = this.#deps()): MemoryDisk {
    assert(this.#device.tracks, 'a disk that tracks no durability cannot tell what a power cut leaves')
    this.#turnOff()
    return new MemoryDisk(deps, {}, this.#device.afterPowerCut(random, options))
  }

  /** Another disk with what a reader sees of this one, all of it durable. This one goes on; a power cut takes nothing of what it holds now. */
  copy(deps: MemoryDiskDeps = this.#deps()): MemoryDisk {
    return new MemoryDisk(deps, {}, this.#device.afterPowerCut(new SeededRandom(0), { writes: 'all', names: 'all' }))
  }

  /** The process dies, the machine lives on: all that was written is there, what was not synced still is not. */
  processKilled(deps: MemoryDiskDeps = this.#deps()): MemoryDisk {
    this.#turnOff()
    return new MemoryDisk(deps, {}, this.#device)
  }

  #deps(): MemoryDiskDeps {
    return { clock: this.#clock, completions: this.#completions }
  }

  #turnOff(): void {
    this.#expectOn('powerCut', '/')
    this.#off = true
    for (const file of this.#open) file.drop()
  }

  /** Waits until the operation ends. */
  async #arrive(operation: DiskOperation, path: string): Promise<void> {
    this.#expectOn(operation, path)
    await this.#completions.arrive(this.#completions === AT_ONCE ? operation : `${operation} ${path}`)
  }

  /** What is planted for this operation of a file; errors are thrown here. */
  #effect(operation: DiskOperation, path: string, otherPath?: string): FaultEffect | null {
    this.#expectOn(operation, path)
    const effect = this.#faults.hit(operation, path, otherPath)
    if (effect?.kind === 'error') throw systemError(effect.code, operation, path)
    return effect
  }

  #count(path: string, what: keyof DiskCounters, amount: number): void {
    if (!this.#device.tracks) return
    let counters = this.#counters.get(path)
    if (counters === undefined) {
      counters = noCounters()
      this.#counters.set(path, counters)
    }
    counters[what] += amount
  }

  /** Operations on names know no effect but an error. */
  #enter(operation: DiskOperation, path: string, otherPath?: string): void {
    const effect = this.#effect(operation, path, otherPath)
    assert(effect === null, 'this fault fits reads, writes and syncs of files only')
  }

  #expectOn(operation: string, path: string): void {
    if (this.#off) throw systemError('EIO', operation, path, 'the power was cut')
  }

  #find(path: string): DiskNode | null {
    let node: DiskNode = this.#device.root
    for (const name of names('stat', path)) {
      const next: DiskNode | undefined = node.kind === 'directory' ? node.names.get(name) : undefined
      if (next === undefined) return null
      node = next
    }
    return node
  }

  #findEntry(path: string): { directory: DirectoryNode | null; name: string; node: DiskNode | null } {
    const parts = names('unlink', path)
    const name = parts.pop() ?? ''
    const directory = this.#find(`/${parts.join('/')}`)
    if (directory?.kind !== 'directory') return { directory: null, name, node: null }
    return { directory, name, node: directory.names.get(name) ?? null }
  }

  #directory(syscall: string, path: string): DirectoryNode {
    const node = this.#find(path)
    if (node === null) throw systemError('ENOENT', syscall, path)
    if (node.kind === 'file') throw systemError('ENOTDIR', syscall, path)
    return node
  }

  #parent(syscall: string, path: string): { directory: DirectoryNode; name: string } {
    const parts = names(syscall, path)
    const name = parts.pop()
    if (name === undefined) throw systemError('EISDIR', syscall, path)
    return { directory: this.#directory(syscall, `/${parts.join('/')}`), name }
  }

  #touch(node: DiskNode): void {
    node.modifiedMs = Math.floor(this.#clock.nowMs())
  }
}

function names(syscall: string, path: string): string[] {
  if (!path.startsWith('/')) throw systemError('EINVAL', syscall, path, 'paths are absolute')
  const parts = path.split('/').filter((name) => name !== '')
  if (parts.includes('.') || parts.includes('..')) throw systemError('EINVAL', syscall, path, 'paths have no dots')
  return parts
}

function noCounters(): MutableCounters {
  return { opens: 0, reads: 0, readBytes: 0, writes: 0, writtenBytes: 0, syncs: 0 }
}
