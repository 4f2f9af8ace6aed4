/** FindCoordinator: which broker coordinates a group, a transactional id or a share partition, one key up to version 3, several from 4 (KIP-699). */
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { Input } from '../../schema/compile.ts'
import type { FindCoordinatorRequest, FindCoordinatorResponse } from '../../schema/types.generated.ts'
import { brokersFor, errorFields, outcome } from '../cluster-view.ts'
import { api, type KafkaCall } from '../handler.ts'

type Coordinator = Omit<Input<FindCoordinatorResponse['coordinators'][number]>, 'key'>

const GROUP = 0
const TRANSACTION = 1
/** A share partition: group, topic id and partition, with colons between them. */
const SHARE = 2
const SHARE_KEY = /^.+:[A-Za-z0-9_-]{22}:\d{1,10}$/s
const KEYS_SINCE = 4

export const findCoordinator = api<FindCoordinatorRequest, FindCoordinatorResponse>({
  key: 10,
  name: 'FindCoordinator',
  versions: [0, 6],
  omissions: [],
  async handle(call, request) {
    if (call.version < KEYS_SINCE) return { throttleTimeMs: 0, ...(await coordinatorOf(call, request.keyType, request.key)) }
    const answer = async (key: string) => ({ key, ...(await coordinatorOf(call, request.keyType, key)) })
    return { throttleTimeMs: 0, coordinators: await inTurns(call.clock, request.coordinatorKeys, answer) }
  },
  refuse: (error, request, call) =>
    call.version < KEYS_SINCE
      ? { throttleTimeMs: 0, ...none(error) }
      : { throttleTimeMs: 0, coordinators: request.coordinatorKeys.map((key) => ({ key, ...none(error) })) },
})

async function coordinatorOf(call: KafkaCall, keyType: number, key: string): Promise<Coordinator> {
  const found = await outcome(async () => {
    if (keyType === SHARE && !SHARE_KEY.test(key)) {
      throw new MoonMQError('INVALID_REQUEST', { reason: 'the key of a share coordinator is GROUP:TOPIC_ID:PARTITION' })
    }
    if (keyType !== GROUP && keyType !== TRANSACTION && keyType !== SHARE) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `coordinators of key type ${keyType} are not in this version of MoonMQ` })
    }
    const { groups, transactions } = call.broker
    const nodeId = await (keyType === TRANSACTION ? transactions : groups).coordinator(key)
    const broker = brokersFor(call).find((each) => each.nodeId === nodeId)
    if (broker === undefined) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group: key })
    return broker
  })
  if (found instanceof MoonMQError) return none(found)
  return { nodeId: found.nodeId, host: found.host, port: found.port, ...errorFields(null) }
}

function none(error: MoonMQError): Coordinator {
  return { nodeId: -1, host: '', port: -1, ...errorFields(error) }
}
