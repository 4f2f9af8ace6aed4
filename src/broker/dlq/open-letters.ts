import { MIB } from '../../core/limits.ts'
import { type DeadLetterDeps, DeadLetters } from './dead-letters.ts'
import { type NackDeps, Nacks } from './nacks.ts'
import { type RedriveDeps, Redrives } from './redrives.ts'

export interface LetterOptions {
  /** Default `.dlq`. */
  readonly dlqSuffix?: string
  /** Default 3. */
  readonly maxDeliveries?: number
  /** Dead letters that go back in one transaction. Default 8 MiB. */
  readonly redriveSliceBytes?: number
}

/** Everything that moves records which their groups could not process. */
export function openLetters(deps: DeadLetterDeps & Omit<NackDeps, 'letters'> & RedriveDeps, options: LetterOptions) {
  const letters = new DeadLetters(deps, { suffix: options.dlqSuffix ?? '.dlq' })
  const nacks = new Nacks({ ...deps, letters }, { maxDeliveries: options.maxDeliveries ?? 3 })
  const redrives = new Redrives(deps, { sliceBytes: options.redriveSliceBytes ?? 8 * MIB })
  return { letters, nacks, redrives }
}
