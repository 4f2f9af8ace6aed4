import { MoonMQError } from '../core/errors.ts'

/** As the work ends, or ABORTED when the signal fires first: the work goes on then, and its failure is nobody's. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new MoonMQError('ABORTED'))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

/** Of whichever fires first. */
export function eitherSignal(left: AbortSignal | undefined, right: AbortSignal | undefined): AbortSignal | undefined {
  if (left === undefined || right === undefined) return left ?? right
  return AbortSignal.any([left, right])
}

/** Waits for the end, which `giveUp` hastens when the signal fires. */
export async function hastened(ending: Promise<void>, signal: AbortSignal | undefined, giveUp: () => void): Promise<void> {
  if (signal === undefined) return await ending
  if (signal.aborted) giveUp()
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    await ending
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

/** One listener for all who wait on a signal, however many they are. */
export class AbortListeners {
  readonly #acts = new Map<AbortSignal, { readonly acts: Set<() => void>; readonly onAbort: () => void }>()

  /** Returns what takes it back. */
  add(signal: AbortSignal, act: () => void): () => void {
    let known = this.#acts.get(signal)
    if (known === undefined) {
      const acts = new Set<() => void>()
      const onAbort = () => {
        this.#acts.delete(signal)
        for (const each of acts) each()
      }
      known = { acts, onAbort }
      this.#acts.set(signal, known)
      signal.addEventListener('abort', onAbort, { once: true })
    }
    const { acts, onAbort } = known
    acts.add(act)
    return () => {
      acts.delete(act)
      if (acts.size > 0 || !this.#acts.delete(signal)) return
      signal.removeEventListener('abort', onAbort)
    }
  }
}
