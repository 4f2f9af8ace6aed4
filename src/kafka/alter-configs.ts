import { MoonMQError } from '../core/errors.ts'
import { inTurns } from '../core/in-turns.ts'
import type { ConfigChange } from '../metadata/config-plans.ts'
import { errorFields, outcome, ownBroker, repeats } from './cluster-view.ts'
import type { KafkaCall } from './handler.ts'

/** What AlterConfigs and IncrementalAlterConfigs have in common. */

const TOPIC = 2
const BROKER = 4
const LOGGER = 8
const TELEMETRY = 16
const GROUP = 32

interface AskedResource {
  readonly resourceType: number
  readonly resourceName: string
}

export type ResourceChange = readonly ConfigChange[]

interface Mode {
  readonly validateOnly: boolean
  readonly replace: boolean
}

/** Resources one after another, each with its own outcome; one that is named twice is refused, each time. */
export async function alterEach<R extends AskedResource>(
  call: KafkaCall,
  resources: readonly R[],
  mode: Mode,
  changeOf: (resource: R) => ResourceChange,
) {
  const repeated = repeats(resources.map(keyOf))
  const answer = async (asked: R) => {
    const result = await outcome(async () => {
      if (repeated.has(keyOf(asked))) throw new MoonMQError('INVALID_REQUEST', { reason: 'a resource is named more than once' })
      await alter(call, asked, mode, changeOf(asked))
    })
    return answerOf(asked, result ?? null)
  }
  return inTurns(call.clock, resources, answer, 1)
}

export function refuseEach(error: MoonMQError, resources: readonly AskedResource[]) {
  return resources.map((asked) => answerOf(asked, error))
}

function keyOf({ resourceType, resourceName }: AskedResource): string {
  return `${resourceType} ${resourceName}`
}

function answerOf({ resourceType, resourceName }: AskedResource, error: MoonMQError | null) {
  return { ...errorFields(error), resourceType, resourceName }
}

async function alter(call: KafkaCall, asked: AskedResource, mode: Mode, changes: readonly ConfigChange[]): Promise<void> {
  const { topics, cluster } = call.broker
  const { resourceType, resourceName: name } = asked
  const refused = (reason: string) => new MoonMQError('INVALID_REQUEST', { reason })
  if (resourceType === TOPIC) {
    if (name === '') throw refused('topics have no common settings of their own: change the defaults of the broker instead')
    await topics.alterConfig(call.context, { name, changes, ...mode })
    return
  }
  if (resourceType === GROUP) {
    await topics.alterGroupConfig(call.context, { name, changes, ...mode })
    return
  }
  if (resourceType === TELEMETRY) {
    await topics.alterTelemetryConfig(call.context, { name, changes, ...mode })
    return
  }
  if (resourceType === LOGGER) {
    if (!ownBroker(call, name)) throw refused(`broker "${name}" is not this one, ${cluster.nodeId}`)
    if (mode.replace) throw refused('AlterConfigs is not for loggers: IncrementalAlterConfigs is')
    setLevels(call, mode, changes)
    return
  }
  if (resourceType !== BROKER) {
    throw refused(`settings of resource type ${resourceType} are not known`)
  }
  if (name !== '' && !ownBroker(call, name)) throw refused(`broker "${name}" is not this one, ${cluster.nodeId}`)
  await topics.alterBrokerConfig(call.context, { name, changes, ...mode })
}

/** All or none: every level is checked before the first is set. */
function setLevels(call: KafkaCall, { validateOnly }: Mode, changes: readonly ConfigChange[]): void {
  const { admin } = call.broker
  const wrong = changes.find(({ operation }) => operation !== 'set')
  if (wrong !== undefined)
    throw new MoonMQError('INVALID_REQUEST', { reason: `the level of a logger can be set, and nothing else done to it` })
  for (const { name, value } of changes) admin.setLogLevel(call.context, name, value, { validateOnly: true })
  if (!validateOnly) for (const { name, value } of changes) admin.setLogLevel(call.context, name, value)
}

/** Throws INVALID_REQUEST when a setting is named twice: which of them is meant cannot be told. */
export function withoutRepeats(configs: readonly { readonly name: string }[]): void {
  const [repeated] = repeats(configs.map(({ name }) => name))
  if (repeated !== undefined) throw new MoonMQError('INVALID_REQUEST', { reason: `setting ${repeated} is given twice` })
}

/** Throws INVALID_REQUEST for null, which is no value (Kafka says the same); the default comes back by leaving out or deleting. */
export function withoutNull(configs: readonly { readonly name: string; readonly value: string | null }[]): void {
  const names = configs.filter(({ value }) => value === null).map(({ name }) => name)
  if (names.length > 0) throw new MoonMQError('INVALID_REQUEST', { reason: `null is no value: ${names.join(', ')}` })
}
