import { MoonMQError } from '../core/errors.ts'

/** The compressed bytes cannot be what an encoder wrote. */
export function malformed(codec: string, reason: string, cause?: unknown): MoonMQError {
  return new MoonMQError('CORRUPT_BATCH', { reason: `${codec}: ${reason}` }, cause)
}

/** The batch would grow beyond the bound; told as early as the format allows. */
export function tooLarge(limit: number): MoonMQError {
  return new MoonMQError('INFLATED_TOO_LARGE', { limit })
}
