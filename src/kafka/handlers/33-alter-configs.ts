/**
 * AlterConfigs (KIP-133): all settings of a resource at once; what is not named goes back to its default. Replaced by
 * IncrementalAlterConfigs and still sent by older clients. Each resource has an outcome of its own.
 */
import type { AlterConfigsRequest, AlterConfigsResponse } from '../../schema/types.generated.ts'
import { alterEach, type ResourceChange, refuseEach, withoutNull, withoutRepeats } from '../alter-configs.ts'
import { api } from '../handler.ts'

type Asked = AlterConfigsRequest['resources'][number]

export const alterConfigs = api<AlterConfigsRequest, AlterConfigsResponse>({
  key: 33,
  name: 'AlterConfigs',
  versions: [0, 2],
  omissions: ['Topics, brokers and groups only, as in IncrementalAlterConfigs.'],
  async handle(call, { resources, validateOnly }) {
    return { throttleTimeMs: 0, responses: await alterEach(call, resources, { validateOnly, replace: true }, changeOf) }
  },
  refuse: (error, { resources }) => ({ throttleTimeMs: 0, responses: refuseEach(error, resources) }),
})

function changeOf({ configs }: Asked): ResourceChange {
  withoutRepeats(configs)
  withoutNull(configs)
  return configs.map(({ name, value }) => ({ name, operation: 'set', value: value ?? '' }))
}
