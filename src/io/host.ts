import { readdirSync, readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { systemCode } from './system-error.ts'

/**
 * The machine and its processes: who we are, so that a lock can name its holder, and how many descriptors we may open.
 * (Process number, start time, boot) names a process for ever; the number alone is soon another's.
 */
export interface Host {
  readonly pid: number
  /** When this process started, in a unit of the machine; only equality counts. Empty where the machine does not tell. */
  readonly processStartTime: string
  /** New at each boot of the machine. Empty where the machine does not tell. */
  readonly bootId: string
  readonly hostname: string
  /** The start time of a process that runs, null when none has this number, undefined when it cannot be told. */
  startTimeOf(pid: number): string | null | undefined
  isAlive(pid: number): boolean
  /** Descriptors that the process may have open (the soft limit); null where it cannot be told. */
  readonly descriptorLimit: number | null
  /** Descriptors that it has open now; null where it cannot be told. */
  openDescriptors(): number | null
}

/** From `/proc` on Linux; elsewhere whether a process lives is known and its start time is not. */
export class NodeHost implements Host {
  readonly pid = process.pid
  readonly processStartTime: string
  readonly bootId: string
  readonly hostname: string
  readonly descriptorLimit: number | null

  private constructor(bootId: string, descriptorLimit: number | null) {
    this.bootId = bootId
    this.descriptorLimit = descriptorLimit
    this.hostname = hostname()
    this.processStartTime = this.startTimeOf(process.pid) ?? ''
  }

  /** Reads a few small files of the kernel, which never block. */
  static open(): NodeHost {
    const limits = readKernelFile('/proc/self/limits')
    return new NodeHost(readKernelFile('/proc/sys/kernel/random/boot_id')?.trim() ?? '', limits === null ? null : descriptorLimitOf(limits))
  }

  startTimeOf(pid: number): string | null | undefined {
    const stat = readKernelFile(`/proc/${pid}/stat`)
    if (stat !== null && hasEnded(stat)) return null
    const started = stat === null ? null : startTimeInStat(stat)
    if (started !== null) return started
    return this.isAlive(pid) ? undefined : null
  }

  isAlive(pid: number): boolean {
    if (!Number.isSafeInteger(pid) || pid <= 0) return false
    try {
      process.kill(pid, 0)
      return true
    } catch (error) {
      // EPERM: it lives and is another user's.
      return systemCode(error) !== 'ESRCH'
    }
  }

  openDescriptors(): number | null {
    try {
      return readdirSync('/proc/self/fd').length
    } catch {
      return null
    }
  }
}

/** A host that is what it is told, for tests. `processes` maps the numbers of those that run to their start times. */
export class FixedHost implements Host {
  readonly pid: number
  readonly bootId: string
  readonly hostname: string
  readonly descriptorLimit: number | null
  readonly #processes: ReadonlyMap<number, string>

  constructor(options: {
    pid?: number
    bootId?: string
    hostname?: string
    descriptorLimit?: number | null
    processes?: ReadonlyMap<number, string>
  }) {
    this.pid = options.pid ?? 1
    this.bootId = options.bootId ?? 'boot-1'
    this.hostname = options.hostname ?? 'host'
    this.descriptorLimit = options.descriptorLimit ?? null
    this.#processes = options.processes ?? new Map([[this.pid, '1']])
  }

  get processStartTime(): string {
    return this.#processes.get(this.pid) ?? ''
  }

  startTimeOf(pid: number): string | null {
    return this.#processes.get(pid) ?? null
  }

  isAlive(pid: number): boolean {
    return this.#processes.has(pid)
  }

  openDescriptors(): null {
    return null
  }
}

/** Field 22 of proc(5) `stat`, in clock ticks since boot. The name in field 2 may hold spaces and brackets: counting starts behind it. */
export function startTimeInStat(stat: string): string | null {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[19] ?? null
}

/**
 * Whether a process in proc(5) `stat` has ended and only waits to be collected by its parent, which may never do that. One whose first
 * thread has ended while others still run, as in a write that a kill does not interrupt, has not.
 */
export function hasEnded(stat: string): boolean {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (fields[0] === 'Z' || fields[0] === 'X') && Number(fields[17]) <= 1
}

/** The soft limit of open files in proc(5) `limits`. */
export function descriptorLimitOf(limits: string): number | null {
  const soft = /^Max open files\s+(\S+)/m.exec(limits)?.[1]
  if (soft === undefined) return null
  const limit = soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft)
  return Number.isNaN(limit) ? null : limit
}

function readKernelFile(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}
