import type { Failpoint } from '../core/failpoint.ts'
import type { Uuid } from '../core/uuid.ts'
import { directoryOf } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import { encodePartitionMetadata, PARTITION_METADATA_FILE } from './files.ts'

/** Syncs of one directory: at most one runs, and whoever asks meanwhile shares the next. So a thousand new names cost two syncs. */
export class DirectorySyncs {
  readonly #disk: Disk
  readonly #path: string
  #running: Promise<void> | null = null
  #next: Promise<void> | null = null

  /** Called when names became durable. */
  readonly #onSynced: () => void

  constructor(disk: Disk, path: string, onSynced: () => void = () => {}) {
    this.#disk = disk
    this.#path = path
    this.#onSynced = onSynced
  }

  /** Resolves when every name that was there at the call is durable. */
  sync(): Promise<void> {
    if (this.#running === null) return this.#start()
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    )
    return this.#next
  }

  #start(): Promise<void> {
    this.#next = null
    const running = this.#disk
      .syncDirectory(this.#path)
      .finally(() => {
        if (this.#running === running) this.#running = null
      })
      .then(this.#onSynced)
    this.#running = running
    return running
  }
}

/**
 * The folder of one partition, made by the first write to it: ten thousand topics that nobody writes to cost no file. Order: folder
 * and topic id before the first byte of the log; they become durable with the first sync of that byte and so before it counts.
 */
export class LogFolder {
  readonly path: string
  readonly #disk: Disk
  readonly #failpoint: Failpoint
  readonly #parent: DirectorySyncs
  readonly #topicId: Uuid
  #isThere: boolean
  #isDurable: boolean

  constructor(
    deps: { disk: Disk; folders: DirectorySyncs; failpoint: Failpoint },
    options: { path: string; topicId: Uuid; isThere: boolean },
  ) {
    this.#disk = deps.disk
    this.#failpoint = deps.failpoint
    this.#parent = deps.folders
    this.path = options.path
    this.#topicId = options.topicId
    this.#isThere = options.isThere
    this.#isDurable = options.isThere
  }

  get isThere(): boolean {
    return this.#isThere
  }

  /** Makes it; null when it is there. */
  make(): Promise<void> | null {
    return this.#isThere ? null : this.#make()
  }

  /** Makes all names in it durable, and with the first of them its own and the topic that it belongs to. */
  async sync(): Promise<void> {
    if (!this.#isDurable) {
      await Promise.all([syncTopicId(this.#disk, this.path), this.#parent.sync(), this.#disk.syncDirectory(this.path)])
      this.#isDurable = true
    } else await this.#disk.syncDirectory(this.path)
  }

  async #make(): Promise<void> {
    await this.#disk.makeDirectory(this.path)
    try {
      this.#failpoint('log.folder.made')
      // Where a thousand are made at once, new names wait for each other inside the system: not on the event loop.
      const file = await this.#disk.open(`${this.path}/${PARTITION_METADATA_FILE}`, 'write')
      try {
        file.writeNow([encodePartitionMetadata(this.#topicId)], 0)
      } finally {
        await file.close()
      }
    } catch (error) {
      // A full disk for example. A folder that says of no topic what it is for would count as damage later.
      await this.#disk.removeTree(this.path).catch(() => {})
      throw error
    }
    this.#isThere = true
  }
}

/** Makes durable what says which topic a folder is for. */
export async function syncTopicId(disk: Disk, path: string): Promise<void> {
  const file = disk.openNow(`${path}/${PARTITION_METADATA_FILE}`, 'write')
  try {
    await file.datasync()
  } finally {
    await file.close()
  }
}

/** Makes the folder of a partition, or says again whose it is; durable, its name too, when it resolves. */
export async function makeLogFolder(deps: { disk: Disk; failpoint: Failpoint }, path: string, topicId: Uuid): Promise<void> {
  const folder = new LogFolder({ ...deps, folders: new DirectorySyncs(deps.disk, directoryOf(path)) }, { path, topicId, isThere: false })
  await folder.make()
  await folder.sync()
}
