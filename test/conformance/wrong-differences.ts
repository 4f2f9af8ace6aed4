import type { ApiName } from '../../src/schema/messages.ts'
import type { Question } from './wrong-questions.ts'

/** Answers of MoonMQ that are others than Kafka's, and why they stay. */
export interface Difference {
  readonly apis: readonly ApiName[]
  /** Absent: whatever is wrong. */
  readonly wrong?: RegExp
  /** What MoonMQ answers. */
  readonly answer: RegExp
  readonly reason: string
  /** Only some runs have it. */
  readonly sometimes?: true
}

const FAILS_INSIDE = 'Kafka fails inside and answers UNKNOWN_SERVER_ERROR'
const NO_ANSWER = 'Kafka never answers'

export const ACCEPTED: readonly Difference[] = [
  { apis: ['Produce'], wrong: /records null/, answer: /87$/, reason: `${NO_ANSWER}; a batch that is missing is no batch` },
  {
    apis: ['Produce'],
    wrong: /^timeoutMs/,
    answer: /^(ok|responses.partitionResponses.7)$/,
    reason: 'no time at all is over when the batch is not on disk at once',
    sometimes: true,
  },
  { apis: ['Fetch'], wrong: /axBytes = -/, answer: /^ok$/, reason: `${FAILS_INSIDE}; less than a batch is a batch here` },
  {
    apis: ['Fetch', 'ListOffsets'],
    wrong: /^isolationLevel/,
    answer: /^ok$/,
    reason: `${FAILS_INSIDE}; what is not read committed is read uncommitted here`,
  },
  {
    apis: ['Fetch'],
    wrong: /^sessionId = -?2147/,
    answer: /^ok$/,
    reason: `${FAILS_INSIDE}; a session that is not there is closed already`,
  },
  {
    apis: ['Metadata'],
    wrong: /name null/,
    answer: /^topics.42$/,
    reason: `${FAILS_INSIDE} from version 12 on; INVALID_REQUEST as before it`,
  },
  {
    apis: ['AddPartitionsToTxn'],
    wrong: /^transactions empty/,
    answer: /^ok$/,
    reason: `${NO_ANSWER}; nothing to add is added`,
  },
  { apis: ['AddOffsetsToTxn'], wrong: /^groupId empty/, answer: /^24$/, reason: 'the group is looked at before the transaction' },
  {
    apis: ['WriteTxnMarkers'],
    wrong: /twice the same$/,
    answer: /\(2 times\)$/,
    reason: 'what is named twice is answered twice',
  },
  {
    apis: ['ShareFetch', 'ShareAcknowledge'],
    wrong: /^(groupId empty|memberId of 250|shareSessionEpoch|shareAcquireMode)/,
    answer: /^(42|122)$/,
    reason: 'of two mistakes in one request the other one is named: the members of the request are looked at in another order',
  },
  {
    apis: ['DescribeShareGroupOffsets'],
    answer: /./,
    reason: 'a group or topic that is not there is said; Kafka leaves it out or fails inside',
  },
  {
    apis: ['OffsetDelete'],
    wrong: /^a byte follows/,
    answer: /^69$/,
    reason: 'a group whose last offset was deleted before is gone at once, in Kafka at its next look for expired offsets',
    sometimes: true,
  },
  {
    apis: ['AlterConfigs'],
    wrong: /^resources twice/,
    answer: /42 \(2 times\)$/,
    reason: `${NO_ANSWER}; IncrementalAlterConfigs answers so`,
  },
  {
    apis: ['AlterReplicaLogDirs'],
    wrong: /name of 250/,
    answer: /57$/,
    reason: 'a folder that is not there is said before the name of a topic is looked at',
  },
  {
    apis: ['IncrementalAlterConfigs'],
    wrong: /configOperation/,
    answer: /42$/,
    reason: `${FAILS_INSIDE}; an unknown operation is INVALID_REQUEST`,
  },
]

export function acceptedReason({ api, wrong }: Question, answer: string): Difference | null {
  return ACCEPTED.find((each) => each.apis.includes(api) && each.wrong?.test(wrong) !== false && each.answer.test(answer)) ?? null
}
