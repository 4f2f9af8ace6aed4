import { MoonMQError } from '../core/errors.ts'
import { readSmallFile, writeFileAtomically } from '../io/atomic-file.ts'
import type { Disk } from '../io/disk.ts'
import type { Host } from '../io/host.ts'
import { systemCode } from '../io/system-error.ts'

/** What a lock must know of the machine and its processes. */
export type LockHost = Pick<Host, 'pid' | 'processStartTime' | 'bootId' | 'hostname' | 'startTimeOf'>

/** The holder as the lock file names it. */
export interface LockHolder {
  readonly pid: number
  readonly processStartTime: string
  readonly bootId: string
  readonly hostname: string
  /** The boot whose start has opened every log. While it is an earlier one, unsynced writes of before a power cut may be left. */
  readonly recoveredBootId: string
}

export const LOCK_NAME = 'moonmq.lock'
const TAKEOVER_NAME = 'moonmq.lock-takeover'
const MAX_BYTES = 4096
const FORMAT = 'moonmq-lock 1'

/**
 * Keeps a second broker off a data folder. The lock is a file that names its holder; it is stale when the machine was booted since,
 * or when no process with that number and start time runs. The host name is for people only: a container gets a new one at each
 * start. Two machines or containers that share a folder cannot see each other's processes, so the lock does not protect it there.
 */
export class DataFolderLock {
  readonly #disk: Disk
  readonly #path: string
  readonly #host: LockHost
  #text: string
  #held = true

  private constructor(deps: { disk: Disk; host: LockHost }, path: string, text: string) {
    this.#disk = deps.disk
    this.#host = deps.host
    this.#path = path
    this.#text = text
  }

  /**
   * Throws DATA_FOLDER_LOCKED naming the holder. The folder must exist. `recoveredBootId` is that of the lock that was left, when
   * the logs are not known to be whole: so a start that dies before it has opened them all does not make the next one forget it.
   */
  static async acquire(
    deps: { disk: Disk; host: LockHost },
    folder: string,
    recoveredBootId: string = deps.host.bootId,
  ): Promise<DataFolderLock> {
    const { disk, host } = deps
    const path = `${folder}/${LOCK_NAME}`
    const text = encodeLock(host, recoveredBootId)
    if (!(await createFile(disk, path, text))) await takeOver(disk, host, folder, text)
    await disk.syncDirectory(folder)
    const lock = new DataFolderLock(deps, path, text)
    const holder = await readSmallFile(disk, path, MAX_BYTES)
    if (holder?.toString('utf8') !== text) {
      lock.#held = false
      throw lockedBy(folder, holder)
    }
    return lock
  }

  /** Every log was opened since the machine was booted, so nothing of before is in doubt any more. Durable when it resolves. */
  async confirmRecovered(): Promise<void> {
    const text = encodeLock(this.#host)
    await writeFileAtomically(this.#disk, this.#path, [Buffer.from(text, 'utf8')])
    this.#text = text
  }

  /** Gives the folder free. The last thing a broker does. */
  async release(): Promise<void> {
    if (!this.#held) return
    this.#held = false
    const holder = await readSmallFile(this.#disk, this.#path, MAX_BYTES)
    // Someone who took the lock over, by hand or by mistake, keeps it.
    if (holder?.toString('utf8') === this.#text) await this.#disk.removeFile(this.#path)
  }

  close(): Promise<void> {
    return this.release()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release()
  }
}

/** The process that holds a data folder, or null: for tools that must not touch a folder in use. Damaged counts as not held. */
export async function dataFolderHolder(deps: { disk: Disk; host: LockHost }, folder: string): Promise<LockHolder | null> {
  const bytes = await readSmallFile(deps.disk, `${folder}/${LOCK_NAME}`, MAX_BYTES)
  const holder = bytes === null ? null : decodeLock(bytes)
  return holder !== null && !isStale(deps.host, holder) ? holder : null
}

export function encodeLock(host: LockHost, recoveredBootId: string = host.bootId): string {
  const { pid, processStartTime, bootId, hostname } = host
  return `${FORMAT}\npid=${pid}\nstarted=${processStartTime}\nboot=${bootId}\nhost=${hostname}\nrecovered=${recoveredBootId}\n`
}

/** Null when the bytes are not a lock: a file that a crash left empty for example. */
export function decodeLock(bytes: Buffer): LockHolder | null {
  const lines = bytes.toString('utf8').split('\n')
  const field = (index: number, name: string) => {
    const line = lines[index]
    return line?.startsWith(`${name}=`) ? line.slice(name.length + 1) : null
  }
  const pid = Number(field(1, 'pid') ?? Number.NaN)
  const processStartTime = field(2, 'started')
  const bootId = field(3, 'boot')
  const hostname = field(4, 'host')
  const recoveredBootId = field(5, 'recovered')
  if (lines[0] !== FORMAT || lines.length !== 7 || lines[6] !== '') return null
  if (!Number.isSafeInteger(pid) || pid <= 0 || processStartTime === null || bootId === null || hostname === null) return null
  return recoveredBootId === null ? null : { pid, processStartTime, bootId, hostname, recoveredBootId }
}

function isStale(host: LockHost, holder: LockHolder): boolean {
  if (holder.bootId !== host.bootId) return true
  const started = host.startTimeOf(holder.pid)
  return started === null || (started !== undefined && started !== holder.processStartTime)
}

async function createFile(disk: Disk, path: string, text: string): Promise<boolean> {
  let file: Awaited<ReturnType<Disk['open']>>
  try {
    file = await disk.open(path, 'create')
  } catch (error) {
    if (systemCode(error) === 'EEXIST') return false
    throw error
  }
  try {
    await file.write([Buffer.from(text, 'utf8')], 0)
    await file.datasync()
  } finally {
    await file.close()
  }
  return true
}

/**
 * Puts our name in the place of a holder that is gone. Two brokers may see the same stale lock, so only the one that creates the
 * takeover file may replace it, and looks at the lock again once it has.
 */
async function takeOver(disk: Disk, host: LockHost, folder: string, text: string): Promise<void> {
  const path = `${folder}/${LOCK_NAME}`
  const takeover = `${folder}/${TAKEOVER_NAME}`
  await refuseLiving(disk, host, folder)
  if (!(await createFile(disk, takeover, text))) {
    const other = decodeLock((await readSmallFile(disk, takeover, MAX_BYTES)) ?? Buffer.alloc(0))
    if (other !== null && !isStale(host, other)) throw new MoonMQError('DATA_FOLDER_LOCKED', { path: folder, pid: other.pid })
    await disk.removeFile(takeover)
    if (!(await createFile(disk, takeover, text))) throw new MoonMQError('DATA_FOLDER_LOCKED', { path: folder, pid: '?' })
  }
  try {
    await refuseLiving(disk, host, folder)
    await writeFileAtomically(disk, path, [Buffer.from(text, 'utf8')])
  } finally {
    await disk.removeFile(takeover)
  }
}

async function refuseLiving(disk: Disk, host: LockHost, folder: string): Promise<void> {
  const bytes = await readSmallFile(disk, `${folder}/${LOCK_NAME}`, MAX_BYTES)
  const holder = bytes === null ? null : decodeLock(bytes)
  if (holder !== null && !isStale(host, holder)) throw lockedBy(folder, bytes)
}

function lockedBy(folder: string, bytes: Buffer | null): MoonMQError {
  const holder = bytes === null ? null : decodeLock(bytes)
  const pid = holder === null ? '?' : holder.hostname === '' ? holder.pid : `${holder.pid} on ${holder.hostname}`
  return new MoonMQError('DATA_FOLDER_LOCKED', { path: folder, pid })
}
