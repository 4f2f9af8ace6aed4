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
