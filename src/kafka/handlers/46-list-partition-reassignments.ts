/** ListPartitionReassignments (KIP-455): with one broker no partition is ever on its way to another. */
import type { ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api } from '../handler.ts'

export const listPartitionReassignments = api<ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse>({
  key: 46,
  name: 'ListPartitionReassignments',
  versions: [0, 0],
  omissions: ['There is one broker: the list is empty.'],
  handle: () => ({ throttleTimeMs: 0, ...errorFields(null), topics: [] }),
  refuse: (error) => ({ throttleTimeMs: 0, ...errorFields(error), topics: [] }),
})
