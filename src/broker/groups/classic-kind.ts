import { storedGroup } from '../offsets/offset-records.ts'
import { ClassicGroup } from './classic-group.ts'
import type { ClassicOptions } from './classic-types.ts'
import type { GroupKindRules } from './machine.ts'

/** One record holds a classic group, its members included. */
export function classicKind(options: ClassicOptions): GroupKindRules {
  return {
    kind: 'classic',
    mark: 'GroupMetadataKey',
    restore(group, records, nowMs) {
      for (const { record } of records) {
        if (record.name !== 'GroupMetadataKey' || record.value === null) continue
        const { snapshot, stateChangedAtMs } = storedGroup(record.value)
        return { machine: ClassicGroup.restore(group, snapshot, options, nowMs), stateChangedAtMs }
      }
      return { machine: new ClassicGroup(group, options), stateChangedAtMs: 0 }
    },
  }
}
