import type { Failpoint, FailpointName, PlannedFailure } from '../core/failpoint.ts'
import type { Disk, DiskEntry, DiskFile, DiskSpace, DiskStat } from './disk.ts'
import { systemError } from './system-error.ts'

/** Counts the moments and lets what is planned happen: the process dies as with kill -9, or the step ends with an error. */
export function failpointFor(planned: readonly PlannedFailure[], die: () => void = dieNow): Failpoint {
  const seen = new Map<FailpointName, number>()
  return (name) => {
    const nth = (seen.get(name) ?? 0) + 1
    seen.set(name, nth)
    const due = planned.find((each) => each.name === name && each.nth === nth)
    if (due === undefined) return
    if (due.errorCode !== null) throw systemError(due.errorCode, name, undefined, 'this moment was chosen to fail')
    die()
  }
}

/** The system delivers the signal before the call returns. */
function dieNow(): void {
  process.kill(process.pid, 'SIGKILL')
}

/** A disk that tells of every step that renames or removes: whoever takes such a step, now or later, can be killed in it. */
export class FailpointDisk implements Disk {
  readonly #disk: Disk
  readonly #failpoint: Failpoint

  constructor(disk: Disk, failpoint: Failpoint) {
    this.#disk = disk
    this.#failpoint = failpoint
  }

  open(path: string, access: 'read' | 'write' | 'create'): Promise<DiskFile> {
    return this.#disk.open(path, access)
  }

  openNow(path: string, access: 'read' | 'write'): DiskFile {
    return this.#disk.openNow(path, access)
  }

  stat(path: string): Promise<DiskStat | null> {
    return this.#disk.stat(path)
  }

  statNow(path: string): DiskStat | null {
    return this.#disk.statNow(path)
  }

  list(path: string): Promise<DiskEntry[]> {
    return this.#disk.list(path)
  }

  makeDirectory(path: string): Promise<void> {
    return this.#disk.makeDirectory(path)
  }

  async rename(from: string, to: string): Promise<void> {
    const isFile = (await this.#disk.stat(from))?.kind === 'file'
    if (isFile) this.#failpoint('file.written')
    await this.#disk.rename(from, to)
    this.#failpoint(isFile ? 'file.renamed' : 'folder.renamed')
  }

  async removeFile(path: string): Promise<void> {
    const isThere = (await this.#disk.stat(path)) !== null
    await this.#disk.removeFile(path)
    if (isThere) this.#failpoint('file.removed')
  }

  removeTree(path: string): Promise<void> {
    return this.#disk.removeTree(path)
  }

  space(path: string): Promise<DiskSpace> {
    return this.#disk.space(path)
  }

  syncDirectory(path: string): Promise<void> {
    return this.#disk.syncDirectory(path)
  }
}
