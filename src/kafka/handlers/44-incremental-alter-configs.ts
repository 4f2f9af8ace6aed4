/**
 * IncrementalAlterConfigs (KIP-339): sets and deletes single settings, appends to and subtracts from lists. Each resource has an outcome
 * of its own; of a resource all changes are made or none.
 */
import { MoonMQError } from '../../core/errors.ts'
import type { ConfigOperation } from '../../metadata/config-plans.ts'
import type { IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse } from '../../schema/types.generated.ts'
import { alterEach, type ResourceChange, refuseEach, withoutNull, withoutRepeats } from '../alter-configs.ts'
import { api } from '../handler.ts'

type Asked = IncrementalAlterConfigsRequest['resources'][number]

/** By Kafka's numbers. */
const OPERATIONS: readonly ConfigOperation[] = ['set', 'delete', 'append', 'subtract']
const DELETE = 1

export const incrementalAlterConfigs = api<IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse>({
  key: 44,
  name: 'IncrementalAlterConfigs',
  versions: [0, 1],
  omissions: [
    'There is one logger, root; its level holds until the broker stops. Client metrics are refused with INVALID_REQUEST.',
    'Of a broker only the defaults of topic settings and log.cleaner.* can be changed; what a restart needs is refused with INVALID_REQUEST.',
    'Internal topics keep their flush settings and stay compacted: INVALID_CONFIG.',
  ],
  async handle(call, { resources, validateOnly }) {
    return { throttleTimeMs: 0, responses: await alterEach(call, resources, { validateOnly, replace: false }, changeOf) }
  },
  refuse: (error, { resources }) => ({ throttleTimeMs: 0, responses: refuseEach(error, resources) }),
})

function changeOf({ configs }: Asked): ResourceChange {
  withoutRepeats(configs)
  const unknown = configs.find(({ configOperation }) => OPERATIONS[configOperation] === undefined)
  if (unknown !== undefined) {
    throw new MoonMQError('INVALID_REQUEST', { reason: `operation ${unknown.configOperation} on ${unknown.name} is not known` })
  }
  withoutNull(configs.filter(({ configOperation }) => configOperation !== DELETE))
  return configs.map(({ name, configOperation, value }) => ({
    name,
    operation: OPERATIONS[configOperation] as ConfigOperation,
    value: value ?? '',
  }))
}
