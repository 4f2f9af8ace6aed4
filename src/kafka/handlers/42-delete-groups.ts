/** DeleteGroups: groups without members, with their offsets (KIP-229). Answered when it is durable. */
import type { DeleteGroupsRequest, DeleteGroupsResponse } from '../../schema/types.generated.ts'
import { errorFields } from '../cluster-view.ts'
import { api } from '../handler.ts'

export const deleteGroups = api<DeleteGroupsRequest, DeleteGroupsResponse>({
  key: 42,
  name: 'DeleteGroups',
  versions: [0, 3],
  omissions: [],
  async handle(call, request) {
    const groups = [...new Set(request.groupsNames)]
    const outcomes = await call.broker.groups.delete(call.context, groups)
    return { throttleTimeMs: 0, results: groups.map((groupId, at) => ({ groupId, ...errorFields(outcomes[at] ?? null) })) }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    results: request.groupsNames.map((groupId) => ({ groupId, ...errorFields(error) })),
  }),
})
