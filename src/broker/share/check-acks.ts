import { MoonMQError } from '../../core/errors.ts'
import type { AckBatch } from './share-types.ts'

function invalid(reason: string): MoonMQError {
  return new MoonMQError('INVALID_REQUEST', { reason })
}

/** Throws INVALID_REQUEST unless the batches ascend, are apart, and have one type for all records or one for each. */
export function checkAcks(batches: readonly AckBatch[], options: { readonly isRenewal: boolean; readonly renewIsAllowed: boolean }): void {
  let next = 0
  for (const { first, last, types } of batches) {
    if (last < first) throw invalid(`an acknowledgement of the offsets ${first} to ${last}`)
    if (first < next) throw invalid(`acknowledgements must ascend and not overlap: ${first} comes after ${next - 1}`)
    if (types.length === 0) throw invalid('an acknowledgement without a type')
    if (types.length > 1 && types.length !== last - first + 1) {
      throw invalid(`${types.length} types for ${last - first + 1} records`)
    }
    if (types.includes('renew')) {
      if (!options.isRenewal) throw invalid('locks are renewed only by a request that says so')
      if (!options.renewIsAllowed) throw invalid('share.renew.acknowledge.enable is false for this group')
    }
    next = last + 1
  }
}
