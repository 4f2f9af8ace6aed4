/** The operations of a disk that a fault can hit. `openNow`, `readNow` and `writeNow` count as `open`, `read` and `write`. */
export type DiskOperation =
  | 'open'
  | 'stat'
  | 'list'
  | 'makeDirectory'
  | 'rename'
  | 'removeFile'
  | 'removeTree'
  | 'syncDirectory'
  | 'read'
  | 'write'
  | 'datasync'
  | 'truncate'
  | 'close'

/**
 * What goes wrong.
 * `error`: nothing happens and the system's error `code` is thrown.
 * `shortWrite`: the first `keepBytes` are written, then `code` (ENOSPC) is thrown.
 * `lostWrite`: success is reported and nothing is written.
 * `bitFlip`: bit `bit` of the bytes written is stored wrong, or of the bytes read is returned wrong this time.
 * `failedSync`: a datasync fails with EIO, and what it should have made durable never will be, whatever a later sync reports,
 * though reads go on showing it until the power is cut. Linux does exactly this.
 */
export type FaultEffect =
  | { readonly kind: 'error'; readonly code: string }
  | { readonly kind: 'shortWrite'; readonly keepBytes: number; readonly code?: string }
  | { readonly kind: 'lostWrite' }
  | { readonly kind: 'bitFlip'; readonly bit: number }
  | { readonly kind: 'failedSync' }

export interface Fault {
  readonly operation: DiskOperation
  /** Which files or directories: a part of the path, or a pattern. All when absent. A rename matches by either name. */
  readonly path?: string | RegExp
  /** The first matching operation that it hits, counted from 1 (the default). */
  readonly nth?: number
  /** How many in a row it hits from there: 1 unless given. */
  readonly times?: number
  readonly effect: FaultEffect
  /** Called each time that it hits. */
  readonly onHit?: () => void
}

interface Armed {
  readonly fault: Fault
  seen: number
}

/** The faults that a test has planted, in the order planted; the first that is due wins. */
export class DiskFaults {
  readonly #armed = new Set<Armed>()

  /** Returns how to take the fault away. */
  add(fault: Fault): () => void {
    const armed = { fault, seen: 0 }
    this.#armed.add(armed)
    return () => {
      this.#armed.delete(armed)
    }
  }

  clear(): void {
    this.#armed.clear()
  }

  /** Counts the operation against every fault; the effect of the one that hits it, or null. */
  hit(operation: DiskOperation, path: string, otherPath?: string): FaultEffect | null {
    if (this.#armed.size === 0) return null
    let effect: FaultEffect | null = null
    for (const armed of this.#armed) {
      const { fault } = armed
      if (fault.operation !== operation || !(matches(fault.path, path) || (otherPath !== undefined && matches(fault.path, otherPath))))
        continue
      armed.seen++
      const first = fault.nth ?? 1
      if (armed.seen < first || armed.seen >= first + (fault.times ?? 1)) continue
      effect ??= fault.effect
      fault.onHit?.()
    }
    return effect
  }
}

function matches(pattern: string | RegExp | undefined, path: string): boolean {
  if (pattern === undefined) return true
  return typeof pattern === 'string' ? path.includes(pattern) : path.search(pattern) >= 0
}
