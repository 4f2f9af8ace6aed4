import type { Random } from '../core/random.ts'
import { ChunkedBytes } from './chunked-bytes.ts'
import { systemError } from './system-error.ts'

/** What a device writes whole or not at all. */
const SECTOR_BYTES = 512
/** Memory that a file or directory counts for besides its content. */
const NODE_BYTES = 512
/** Positions beyond this are refused: one stray number must not fill memory with bookkeeping. */
const MAX_FILE_BYTES = 2 ** 40

/**
 * What a power cut leaves of what was not synced. Each is drawn at random (`any`) unless told.
 * `writes`: of the writes and truncations of each file, all, none, or any subset.
 * `names`: of names created, renamed and removed, all, none, or any subset that respects the order of one file's own changes.
 * `tear`: at most one write of each file is cut at a sector boundary (`prefix`) or keeps any of its sectors (`sectors`); nothing is
 * torn by default when `writes` is `all` or `none`.
 */
export interface PowerCutOptions {
  readonly writes?: 'any' | 'all' | 'none'
  readonly names?: 'any' | 'all' | 'none'
  readonly tear?: Tear
}

type Tear = 'any' | 'prefix' | 'sectors' | 'none'

/** A write (`bytes`) or a truncation (`bytes` is null, `position` the new size) that no sync has covered yet. */
interface UnsyncedChange {
  readonly order: number
  readonly position: number
  readonly bytes: Buffer | null
}

export class FileNode {
  readonly kind = 'file'
  readonly content: ChunkedBytes
  /** What is on the platter; null on a device that tracks nothing. */
  readonly synced: ChunkedBytes | null
  unsynced: UnsyncedChange[] = []
  modifiedMs = 0
  /** Names that lead here, and handles that hold it: its memory is given back when both are gone. */
  names = 0
  handles = 0
  freed = false

  constructor(content: ChunkedBytes, synced: ChunkedBytes | null) {
    this.content = content
    this.synced = synced
  }
}

export class DirectoryNode {
  readonly kind = 'directory'
  readonly names = new Map<string, DiskNode>()
  readonly syncedNames = new Map<string, DiskNode>()
  modifiedMs = 0
}

export type DiskNode = FileNode | DirectoryNode

interface NameChange {
  readonly directory: DirectoryNode
  readonly name: string
  readonly node: DiskNode | null
}

/** One create, rename or remove: it reaches the platter whole or not at all. `subject` is the file or directory it is about. */
interface UnsyncedNames {
  readonly order: number
  readonly subject: DiskNode
  readonly changes: readonly NameChange[]
}

/**
 * The device under a `MemoryDisk`: what it holds, and beside it what a power cut would leave.
 *
 * ext4 writes names in the order they were made and makes a new file's name durable with the file's first fsync. POSIX promises
 * neither, and other file systems do neither, so this device is stricter: a name is durable only after a sync of its directory,
 * and unsynced names survive in any combination. A rename is atomic, also across directories, as every journaling system has it;
 * it is durable once either directory is synced.
 */
export class MemoryDevice {
  readonly root: DirectoryNode
  readonly tracks: boolean
  readonly capacityBytes: number
  #usedBytes = 0
  #order = 0
  #unsyncedNames: UnsyncedNames[] = []

  constructor(options: { capacityBytes: number; tracks: boolean }, root = new DirectoryNode()) {
    this.capacityBytes = options.capacityBytes
    this.tracks = options.tracks
    this.root = root
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  /** Everything changed so far has an order below this. */
  get order(): number {
    return this.#order
  }

  newFile(path: string): FileNode {
    this.#take(NODE_BYTES, 'open', path)
    return new FileNode(new ChunkedBytes(), this.tracks ? new ChunkedBytes() : null)
  }

  newDirectory(path: string): DirectoryNode {
    this.#take(NODE_BYTES, 'mkdir', path)
    return new DirectoryNode()
  }

  write(file: FileNode, buffers: readonly Buffer[], position: number, path: string): void {
    let size = 0
    for (const buffer of buffers) size += buffer.length
    if (position < 0 || position + size > MAX_FILE_BYTES) throw systemError('EFBIG', 'write', path)
    this.#take(file.content.growthOf(position, size), 'write', path)
    let at = position
    for (const buffer of buffers) {
      file.content.write(buffer, at)
      at += buffer.length
    }
    if (this.tracks && size > 0) file.unsynced.push({ order: this.#order++, position, bytes: Buffer.concat(buffers, size) })
  }

  truncate(file: FileNode, sizeBytes: number, path: string): void {
    if (sizeBytes < 0 || sizeBytes > MAX_FILE_BYTES) throw systemError('EINVAL', 'ftruncate', path)
    const before = file.content.allocatedBytes
    file.content.truncate(sizeBytes)
    this.#usedBytes += file.content.allocatedBytes - before
    if (this.tracks) file.unsynced.push({ order: this.#order++, position: sizeBytes, bytes: null })
  }

  /** Puts on the platter what was changed below `order`; with `lose`, forgets that it ever should be there. */
  sync(file: FileNode, order: number, lose = false): void {
    if (file.synced === null) return
    const covered = file.unsynced.filter((change) => change.order < order)
    file.unsynced = file.unsynced.slice(covered.length)
    if (!lose) for (const change of covered) apply(file.synced, change)
  }

  /** Applies one create, rename or remove. */
  changeNames(subject: DiskNode, changes: readonly NameChange[]): void {
    const touched = new Set<DiskNode>([subject])
    for (const { directory, name, node } of changes) {
      const old = directory.names.get(name)
      if (old !== undefined) touched.add(old)
      if (old?.kind === 'file') old.names--
      if (node?.kind === 'file') node.names++
      if (node === null) directory.names.delete(name)
      else directory.names.set(name, node)
    }
    for (const node of touched) if (node.kind === 'file') this.freeUnused(node)
    if (this.tracks) this.#unsyncedNames.push({ order: this.#order++, subject, changes })
  }

  /** Gives back the memory of a file that neither a name nor a handle leads to any more. */
  freeUnused(file: FileNode): void {
    if (file.names > 0 || file.handles > 0 || file.freed) return
    file.freed = true
    this.#usedBytes -= NODE_BYTES + file.content.allocatedBytes
  }

  freeDirectory(): void {
    this.#usedBytes -= NODE_BYTES
  }

  /** Puts the names of `directory` changed below `order` on the platter, and what happened before to the same files. */
  syncNames(directory: DirectoryNode, order: number): void {
    const covered = new Set<UnsyncedNames>()
    const subjects = new Set<DiskNode>()
    for (let i = this.#unsyncedNames.length - 1; i >= 0; i--) {
      const unsynced = this.#unsyncedNames[i]
      if (unsynced === undefined || unsynced.order >= order) continue
      if (!subjects.has(unsynced.subject) && !unsynced.changes.some((change) => change.directory === directory)) continue
      covered.add(unsynced)
      subjects.add(unsynced.subject)
    }
    for (const unsynced of this.#unsyncedNames) if (covered.has(unsynced)) applyNames(unsynced.changes)
    this.#unsyncedNames = this.#unsyncedNames.filter((unsynced) => !covered.has(unsynced))
  }

  /** A new device with what a power cut leaves of this one. This one must not be used any more. */
  afterPowerCut(random: Random, options: PowerCutOptions): MemoryDevice {
    const keep = chooser(options.names ?? 'any', random)
    const dropped = new Set<DiskNode>()
    for (const unsynced of this.#unsyncedNames) {
      if (!dropped.has(unsynced.subject) && keep()) applyNames(unsynced.changes)
      else dropped.add(unsynced.subject)
    }
    const device = new MemoryDevice({ capacityBytes: this.capacityBytes, tracks: true })
    device.#copySynced(this.root, device.root, random, options)
    return device
  }

  #copySynced(from: DirectoryNode, to: DirectoryNode, random: Random, options: PowerCutOptions): void {
    to.modifiedMs = from.modifiedMs
    // By name, so that a seed draws the same whatever order the map has.
    for (const [name, node] of [...from.syncedNames].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const copy = node.kind === 'directory' ? new DirectoryNode() : surviving(node, random, options)
      this.#usedBytes += NODE_BYTES
      if (node.kind === 'directory') this.#copySynced(node, copy as DirectoryNode, random, options)
      else this.#usedBytes += (copy as FileNode).content.allocatedBytes
      to.names.set(name, copy)
      to.syncedNames.set(name, copy)
    }
  }

  #take(bytes: number, syscall: string, path: string): void {
    if (bytes > 0 && this.#usedBytes + bytes > this.capacityBytes) throw systemError('ENOSPC', syscall, path)
    this.#usedBytes += bytes
  }
}

function apply(content: ChunkedBytes, change: UnsyncedChange): void {
  if (change.bytes === null) content.truncate(change.position)
  else content.write(change.bytes, change.position)
}

function applyNames(changes: readonly NameChange[]): void {
  for (const { directory, name, node } of changes) {
    if (node === null) directory.syncedNames.delete(name)
    else directory.syncedNames.set(name, node)
  }
}

/** `any` is all, none or a coin each time, so that the extremes are as common as the mixtures. */
function chooser(survival: 'any' | 'all' | 'none', random: Random): () => boolean {
  if (survival === 'all') return () => true
  if (survival === 'none') return () => false
  const style = random.below(4)
  if (style === 0) return () => true
  if (style === 1) return () => false
  return () => random.below(2) === 0
}

function surviving(file: FileNode, random: Random, options: PowerCutOptions): FileNode {
  const platter = file.synced?.clone() ?? new ChunkedBytes()
  const keep = chooser(options.writes ?? 'any', random)
  const tear = options.tear ?? (options.writes === undefined || options.writes === 'any' ? 'any' : 'none')
  const torn = tear === 'none' || file.unsynced.length === 0 || random.below(2) === 0 ? -1 : random.below(file.unsynced.length)
  for (const [index, change] of file.unsynced.entries()) {
    if (index === torn && change.bytes !== null) tearWrite(platter, change.bytes, change.position, random, tear)
    else if (keep()) apply(platter, change)
    else if (change.bytes !== null && options.writes !== 'none' && random.below(8) === 0) {
      // The file's size reached the platter, its bytes did not: they read as zeros.
      platter.truncate(Math.max(platter.sizeBytes, change.position + change.bytes.length))
    }
  }
  const copy = new FileNode(platter, platter.clone())
  copy.modifiedMs = file.modifiedMs
  copy.names = 1
  return copy
}

function tearWrite(platter: ChunkedBytes, bytes: Buffer, position: number, random: Random, tear: Tear): void {
  const anySector = tear === 'sectors' || (tear === 'any' && random.below(2) === 0)
  const cut = random.below(bytes.length + 1)
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(bytes.length, at + SECTOR_BYTES - ((position + at) % SECTOR_BYTES))
    if (anySector ? random.below(2) === 0 : end <= cut) platter.write(bytes.subarray(at, end), position + at)
    at = end
  }
}
