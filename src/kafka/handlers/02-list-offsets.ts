/**
 * ListOffsets: the offset at an end of a partition, of a time, or of the largest timestamp (KIP-79, KIP-98, KIP-320, KIP-734, KIP-405).
 * Nothing is tiered here: the earliest local offset is the log start, and there is no tiered one.
 */
import type { PartitionOffsets } from '../../broker/ports.ts'
import { withDeadline } from '../../core/clock.ts'
import { MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import { NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP } from '../../core/types.ts'
import type { Input } from '../../schema/compile.ts'
import type { ListOffsetsRequest, ListOffsetsResponse } from '../../schema/types.generated.ts'
import { outcome, repeats } from '../cluster-view.ts'
import { api, type KafkaCall, kafkaCode } from '../handler.ts'

type Asked = ListOffsetsRequest['topics'][number]['partitions'][number]
type PartitionAnswer = Input<ListOffsetsResponse['topics'][number]['partitions'][number]>

interface Found {
  readonly offset: number
  readonly timestampMs: number
  readonly leaderEpoch: number
}

const LATEST = -1
const EARLIEST = -2
const MAX_TIMESTAMP = -3
const EARLIEST_LOCAL = -4
const LATEST_TIERED = -5
const EARLIEST_PENDING_UPLOAD = -6
/** First version of the request in which each special timestamp may stand. */
const KNOWN_SINCE: ReadonlyMap<number, number> = new Map([
  [LATEST, 1],
  [EARLIEST, 1],
  [MAX_TIMESTAMP, 7],
  [EARLIEST_LOCAL, 8],
  [LATEST_TIERED, 9],
  [EARLIEST_PENDING_UPLOAD, 11],
])
const READ_COMMITTED = 1
const EPOCHS_SINCE = 4

export const listOffsets = api<ListOffsetsRequest, ListOffsetsResponse>({
  key: 2,
  name: 'ListOffsets',
  versions: [1, 11],
  omissions: ['There is no tiered storage: the latest tiered and earliest pending upload offsets are unknown.'],
  async handle(call, request) {
    const topics = await inTurns(call.clock, [...partitionsByTopic(request)], async ([name, partitions]) => {
      const repeated = repeats(partitions.map((asked) => asked.partitionIndex))
      const once = [...new Map(partitions.map((asked) => [asked.partitionIndex, asked])).values()]
      const answer = (asked: Asked) => answerFor(call, request, name, asked, repeated.has(asked.partitionIndex))
      return { name, partitions: await inTurns(call.clock, once, answer) }
    })
    return { throttleTimeMs: 0, topics }
  },
  refuse: (error, request) => ({
    throttleTimeMs: 0,
    topics: request.topics.map(({ name, partitions }) => ({
      name,
      partitions: partitions.map(({ partitionIndex }) => failed(partitionIndex, error)),
    })),
  }),
})

/** A topic may stand in several places of a request. */
function partitionsByTopic({ topics }: ListOffsetsRequest): ReadonlyMap<string, readonly Asked[]> {
  const byTopic = new Map<string, Asked[]>()
  for (const { name, partitions } of topics) {
    const known = byTopic.get(name)
    if (known === undefined) byTopic.set(name, [...partitions])
    else for (const asked of partitions) known.push(asked)
  }
  return byTopic
}

async function answerFor(
  call: KafkaCall,
  request: ListOffsetsRequest,
  topic: string,
  asked: Asked,
  repeated: boolean,
): Promise<PartitionAnswer> {
  const result = await outcome(async () => {
    if (repeated) throw new MoonMQError('INVALID_REQUEST', { reason: `partition ${topic}-${asked.partitionIndex} is asked for twice` })
    const search = find(call, request, topic, asked)
    return request.timeoutMs > 0 ? withDeadline(call.clock, request.timeoutMs, search) : search
  })
  if (result instanceof MoonMQError) return failed(asked.partitionIndex, result)
  return {
    partitionIndex: asked.partitionIndex,
    errorCode: 0,
    timestamp: result?.timestampMs ?? NO_TIMESTAMP,
    offset: result?.offset ?? NO_OFFSET,
    leaderEpoch: call.version < EPOCHS_SINCE ? NO_LEADER_EPOCH : (result?.leaderEpoch ?? NO_LEADER_EPOCH),
  }
}

async function find(call: KafkaCall, request: ListOffsetsRequest, topic: string, asked: Asked): Promise<Found | null> {
  const { partitionIndex: partition, timestamp } = asked
  const known = timestamp >= 0 || call.version >= (KNOWN_SINCE.get(timestamp) ?? Infinity)
  if (!known) {
    throw new MoonMQError('UNSUPPORTED_VERSION', {
      api: `ListOffsets with timestamp ${timestamp}`,
      version: call.version,
      supported: 'newer',
    })
  }
  const { offsets } = call.broker
  const bounds = offsets.bounds(call.context, topic, partition)
  checkEpoch(topic, asked, bounds)
  const committed = request.isolationLevel === READ_COMMITTED
  switch (timestamp) {
    case LATEST:
      return at(committed ? bounds.lastStableOffset : bounds.highWatermark, bounds.leaderEpoch)
    case EARLIEST:
    case EARLIEST_LOCAL:
      return at(bounds.earliest, NO_LEADER_EPOCH)
    case LATEST_TIERED:
    case EARLIEST_PENDING_UPLOAD:
      return null
    case MAX_TIMESTAMP:
      return await offsets.ofMaxTimestamp(call.context, topic, partition)
    default:
      return await offsets.forTimestamp(call.context, topic, partition, timestamp, committed ? 'read_committed' : 'read_uncommitted')
  }
}

/** The client's epoch of the partition against the broker's; −1 = do not check (KIP-320). */
function checkEpoch(topic: string, asked: Asked, { leaderEpoch: current }: PartitionOffsets): void {
  const epoch = asked.currentLeaderEpoch
  if (epoch === NO_LEADER_EPOCH || epoch === current) return
  const details = { epoch, topic, partition: asked.partitionIndex, current }
  throw new MoonMQError(epoch < current ? 'LEADER_EPOCH_FENCED' : 'LEADER_EPOCH_UNKNOWN', details)
}

/** An end of the log has no time. */
function at(offset: number, leaderEpoch: number): Found {
  return { offset, timestampMs: NO_TIMESTAMP, leaderEpoch }
}

function failed(partitionIndex: number, error: MoonMQError): PartitionAnswer {
  return { partitionIndex, errorCode: kafkaCode(error), timestamp: NO_TIMESTAMP, offset: NO_OFFSET, leaderEpoch: NO_LEADER_EPOCH }
}
