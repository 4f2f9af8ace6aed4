/** ListGroups: the groups that this broker coordinates, by state from version 4 (KIP-518) and by type from 5 (KIP-848). */
import { MoonMQError } from '../../core/errors.ts'
import type { ListGroupsRequest, ListGroupsResponse } from '../../schema/types.generated.ts'
import { api, kafkaCode } from '../handler.ts'

/** Groups of native members are shown as classic ones: no client of Kafka's knows their type, and the tools show who reads what. */
const NATIVE = 'native'
const CLASSIC = 'classic'

export const listGroups = api<ListGroupsRequest, ListGroupsResponse>({
  key: 16,
  name: 'ListGroups',
  versions: [0, 5],
  omissions: [],
  async handle(call, request) {
    const filter = { states: request.statesFilter, kinds: kindsOf(request.typesFilter) }
    const { groups, loading } = await call.broker.groups.list(call.context, filter)
    return {
      throttleTimeMs: 0,
      // Half a list would look like a whole one.
      errorCode: loading ? kafkaCode(new MoonMQError('COORDINATOR_LOADING', { group: 'some groups' })) : 0,
      groups: groups.map(({ group, protocolType, state, kind }) => ({
        groupId: group,
        protocolType,
        groupState: state,
        groupType: kind === NATIVE ? CLASSIC : kind,
      })),
    }
  },
  refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error), groups: [] }),
})

function kindsOf(types: readonly string[]): readonly string[] {
  const asked = types.filter((type) => type.toLowerCase() !== NATIVE)
  if (types.length > 0 && asked.length === 0) return types.map(() => '')
  return asked.some((type) => type.toLowerCase() === CLASSIC) ? [...asked, NATIVE] : asked
}
