import { buildBatch } from '../../src/record/builder.ts'
import { API_KEYS } from '../../src/schema/data.generated.ts'
import type { FieldData } from '../../src/schema/fields.ts'
import { within } from '../../src/schema/fields.ts'
import { type ApiName, apiData, apiInfo } from '../../src/schema/messages.ts'

/**
 * Wrong questions, made from the schemas: a good request of each API and version, in which one field at a time has a value that is bad,
 * missing or at its limit; and frames that are cut, too long or of no version that there is. They ask a broker whose state `World` says.
 */
export interface Question {
  readonly api: ApiName
  readonly version: number
  /** What is wrong: the same words for every version. */
  readonly wrong: string
  /** Null: `bytes` follow the header as they are. */
  readonly body: Fields | null
  readonly bytes?: (encoded: Buffer) => Buffer
}

type Fields = Readonly<Record<string, unknown>>

/** What a broker must have before it is asked: `topic` with 2 partitions and 3 records in the first, a commit of `group` at 1. */
export interface World {
  readonly nodeId: number
  readonly topic: string
  readonly topicId: string
  readonly group: string
}

const UNKNOWN_ID = 'AAAAAAAAAAAAAAAAAAAA9w'
/** An id that no broker has given by then. */
const STRANGE_PRODUCER = 5_000_000
const ZERO_ID = 'AAAAAAAAAAAAAAAAAAAAAA'

function batch(): Buffer {
  return buildBatch([{ key: Buffer.from('k'), value: Buffer.from('v'), timestampMs: 1_700_000_000_000 }], {})
}

type Base = (world: World, version: number, serial: number) => Fields

/** A good request of each API, or one whose answer is an error that changes nothing. Fields that a version lacks are left out of it. */
const BASES: Readonly<Partial<Record<ApiName, Base>>> = {
  Produce: ({ topic, topicId }) => ({
    transactionalId: null,
    acks: -1,
    timeoutMs: 1000,
    topicData: [{ name: topic, topicId, partitionData: [{ index: 1, records: batch() }] }],
  }),
  Fetch: ({ topic, topicId }) => ({
    replicaId: -1,
    maxWaitMs: 100,
    minBytes: 1,
    maxBytes: 1_000_000,
    isolationLevel: 0,
    sessionId: 0,
    sessionEpoch: -1,
    topics: [
      {
        topic,
        topicId,
        partitions: [
          { partition: 0, currentLeaderEpoch: -1, fetchOffset: 0, lastFetchedEpoch: -1, logStartOffset: -1, partitionMaxBytes: 1_000_000 },
        ],
      },
    ],
    forgottenTopicsData: [{ topic, topicId, partitions: [1] }],
    rackId: '',
  }),
  ListOffsets: ({ topic }) => ({
    replicaId: -1,
    isolationLevel: 0,
    topics: [{ name: topic, partitions: [{ partitionIndex: 0, currentLeaderEpoch: -1, timestamp: -1 }] }],
    timeoutMs: 1000,
  }),
  Metadata: ({ topic }) => ({
    topics: [{ topicId: ZERO_ID, name: topic }],
    allowAutoTopicCreation: false,
    includeClusterAuthorizedOperations: false,
    includeTopicAuthorizedOperations: false,
  }),
  OffsetCommit: ({ group, topic, topicId }) => ({
    groupId: group,
    generationIdOrMemberEpoch: -1,
    memberId: '',
    groupInstanceId: null,
    retentionTimeMs: -1,
    topics: [
      {
        name: topic,
        topicId,
        partitions: [{ partitionIndex: 0, committedOffset: 1, committedLeaderEpoch: -1, committedMetadata: 'note' }],
      },
    ],
  }),
  OffsetFetch: ({ group, topic, topicId }, version) =>
    version < 8
      ? { groupId: group, topics: [{ name: topic, partitionIndexes: [0] }], requireStable: false }
      : {
          groups: [{ groupId: group, memberId: null, memberEpoch: -1, topics: [{ name: topic, topicId, partitionIndexes: [0] }] }],
          requireStable: false,
        },
  FindCoordinator: ({ group }, version) => (version < 4 ? { key: group, keyType: 0 } : { keyType: 0, coordinatorKeys: [group] }),
  JoinGroup: ({ group }, _version, serial) => ({
    groupId: `${group}-${serial}`,
    sessionTimeoutMs: 10_000,
    rebalanceTimeoutMs: 10_000,
    memberId: 'nobody',
    groupInstanceId: null,
    protocolType: 'consumer',
    protocols: [{ name: 'range', metadata: Buffer.alloc(0) }],
    reason: null,
  }),
  SyncGroup: ({ group }) => ({
    groupId: group,
    generationId: 1,
    memberId: 'nobody',
    groupInstanceId: null,
    protocolType: 'consumer',
    protocolName: 'range',
    assignments: [{ memberId: 'nobody', assignment: Buffer.alloc(0) }],
  }),
  Heartbeat: ({ group }) => ({ groupId: group, generationId: 1, memberId: 'nobody', groupInstanceId: null }),
  LeaveGroup: ({ group }, version) =>
    version < 3
      ? { groupId: group, memberId: 'nobody' }
      : { groupId: group, members: [{ memberId: 'nobody', groupInstanceId: null, reason: null }] },
  DescribeGroups: ({ group }) => ({ groups: [group], includeAuthorizedOperations: false }),
  ListGroups: () => ({ statesFilter: ['Empty'], typesFilter: ['classic'] }),
  ApiVersions: () => ({ clientSoftwareName: 'moonmq', clientSoftwareVersion: '1', clusterId: null, nodeId: -1 }),
  CreateTopics: ({ topic }, _version, serial) => ({
    topics: [
      {
        name: `${topic}-${serial}`,
        numPartitions: 1,
        replicationFactor: 1,
        assignments: [],
        configs: [{ name: 'retention.ms', value: '1000' }],
      },
    ],
    timeoutMs: 5000,
    validateOnly: true,
  }),
  DeleteTopics: ({ topic }, version) =>
    version < 6 ? { topicNames: [`${topic}-none`], timeoutMs: 5000 } : { topics: [{ name: null, topicId: UNKNOWN_ID }], timeoutMs: 5000 },
  DeleteRecords: ({ topic }) => ({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, offset: 0 }] }], timeoutMs: 5000 }),
  InitProducerId: () => ({ transactionalId: null, transactionTimeoutMs: 60_000, producerId: -1, producerEpoch: -1 }),
  AddPartitionsToTxn: ({ topic }, version) => {
    const topics = [{ name: topic, partitions: [0] }]
    if (version >= 4)
      return { transactions: [{ transactionalId: 'nobody', producerId: STRANGE_PRODUCER, producerEpoch: 0, verifyOnly: false, topics }] }
    const names = { v3AndBelowTransactionalId: 'nobody', v3AndBelowProducerId: STRANGE_PRODUCER, v3AndBelowProducerEpoch: 0 }
    return { ...names, v3AndBelowTopics: topics }
  },
  AddOffsetsToTxn: ({ group }) => ({ transactionalId: 'nobody', producerId: STRANGE_PRODUCER, producerEpoch: 0, groupId: group }),
  EndTxn: () => ({ transactionalId: 'nobody', producerId: STRANGE_PRODUCER, producerEpoch: 0, committed: true }),
  WriteTxnMarkers: ({ topic }) => ({
    markers: [
      {
        producerId: STRANGE_PRODUCER,
        producerEpoch: 0,
        transactionResult: true,
        topics: [{ name: `${topic}-none`, partitionIndexes: [0] }],
        coordinatorEpoch: 0,
        transactionVersion: 0,
      },
    ],
  }),
  TxnOffsetCommit: ({ group, topic, topicId }) => ({
    transactionalId: 'nobody',
    groupId: group,
    producerId: STRANGE_PRODUCER,
    producerEpoch: 0,
    generationIdOrMemberEpoch: 1,
    memberId: 'nobody',
    groupInstanceId: null,
    topics: [
      {
        name: topic,
        topicId,
        partitions: [{ partitionIndex: 0, committedOffset: 1, committedLeaderEpoch: -1, committedMetadata: null }],
      },
    ],
  }),
  DescribeTransactions: () => ({ transactionalIds: ['nobody'] }),
  ListTransactions: () => ({
    stateFilters: ['Ongoing'],
    producerIdFilters: [STRANGE_PRODUCER],
    durationFilter: -1,
    transactionalIdPattern: null,
  }),
  ConsumerGroupHeartbeat: ({ group, topic, topicId }) => ({
    groupId: `${group}-next`,
    memberId: 'nobody',
    memberEpoch: 5,
    instanceId: null,
    rackId: null,
    rebalanceTimeoutMs: -1,
    subscribedTopicNames: [topic],
    subscribedTopicRegex: null,
    serverAssignor: null,
    topicPartitions: [{ topicId, partitions: [0] }],
  }),
  ConsumerGroupDescribe: ({ group }) => ({ groupIds: [group], includeAuthorizedOperations: false }),
  ShareGroupHeartbeat: ({ group, topic }) => ({
    groupId: `${group}-share`,
    memberId: 'nobody',
    memberEpoch: 5,
    rackId: null,
    subscribedTopicNames: [topic],
  }),
  ShareGroupDescribe: ({ group }) => ({ groupIds: [group], includeAuthorizedOperations: false }),
  ShareFetch: ({ group, topicId }) => ({
    groupId: `${group}-share`,
    memberId: UNKNOWN_ID,
    shareSessionEpoch: 5,
    maxWaitMs: 100,
    minBytes: 1,
    maxBytes: 1_000_000,
    maxRecords: 10,
    batchSize: 10,
    shareAcquireMode: 0,
    isRenewAck: false,
    topics: [{ topicId, partitions: [{ partitionIndex: 0, acknowledgementBatches: [] }] }],
    forgottenTopicsData: [],
  }),
  ShareAcknowledge: ({ group, topicId }) => ({
    groupId: `${group}-share`,
    memberId: UNKNOWN_ID,
    shareSessionEpoch: 5,
    isRenewAck: false,
    topics: [
      {
        topicId,
        partitions: [{ partitionIndex: 0, acknowledgementBatches: [{ firstOffset: 0, lastOffset: 0, acknowledgeTypes: [1] }] }],
      },
    ],
  }),
  DescribeShareGroupOffsets: ({ group, topic }) => ({
    groups: [{ groupId: `${group}-share`, topics: [{ topicName: topic, partitions: [0] }] }],
  }),
  AlterShareGroupOffsets: ({ group, topic }) => ({
    groupId: group,
    topics: [{ topicName: topic, partitions: [{ partitionIndex: 0, startOffset: 1 }] }],
  }),
  DeleteShareGroupOffsets: ({ group, topic }) => ({ groupId: group, topics: [{ topicName: topic }] }),
  OffsetForLeaderEpoch: ({ topic }) => ({
    replicaId: -1,
    topics: [{ topic, partitions: [{ partition: 0, currentLeaderEpoch: -1, leaderEpoch: 0 }] }],
  }),
  DescribeConfigs: ({ topic }) => ({
    resources: [{ resourceType: 2, resourceName: topic, configurationKeys: ['retention.ms'] }],
    includeSynonyms: false,
    includeDocumentation: false,
  }),
  AlterConfigs: ({ topic }) => ({
    resources: [{ resourceType: 2, resourceName: topic, configs: [{ name: 'retention.ms', value: '1000' }] }],
    validateOnly: true,
  }),
  AlterReplicaLogDirs: ({ topic }) => ({ dirs: [{ path: '/nowhere', topics: [{ name: topic, partitions: [0] }] }] }),
  DescribeLogDirs: ({ topic }) => ({ topics: [{ topic, partitions: [0] }] }),
  CreatePartitions: ({ topic }) => ({
    topics: [{ name: topic, count: 3, assignments: null }],
    timeoutMs: 5000,
    validateOnly: true,
  }),
  DeleteGroups: ({ group }) => ({ groupsNames: [`${group}-none`] }),
  ElectLeaders: ({ topic }) => ({ electionType: 0, topicPartitions: [{ topic, partitions: [0] }], timeoutMs: 5000 }),
  IncrementalAlterConfigs: ({ topic }) => ({
    resources: [{ resourceType: 2, resourceName: topic, configs: [{ name: 'retention.ms', configOperation: 0, value: '1000' }] }],
    validateOnly: true,
  }),
  AlterPartitionReassignments: ({ topic, nodeId }) => ({
    timeoutMs: 5000,
    allowReplicationFactorChange: true,
    topics: [{ name: topic, partitions: [{ partitionIndex: 0, replicas: [nodeId] }] }],
  }),
  ListPartitionReassignments: ({ topic }) => ({ timeoutMs: 5000, topics: [{ name: topic, partitionIndexes: [0] }] }),
  OffsetDelete: ({ group, topic }) => ({ groupId: group, topics: [{ name: topic, partitions: [{ partitionIndex: 1 }] }] }),
  DescribeQuorum: () => ({ topics: [{ topicName: '__cluster_metadata', partitions: [{ partitionIndex: 0 }] }] }),
  UpdateFeatures: (_world, version) => ({
    timeoutMs: 5000,
    featureUpdates: [{ feature: 'group.version', maxVersionLevel: 1, ...(version < 1 ? { allowDowngrade: false } : { upgradeType: 1 }) }],
    validateOnly: true,
  }),
  DescribeCluster: () => ({ includeClusterAuthorizedOperations: false, endpointType: 1, includeFencedBrokers: false }),
  DescribeProducers: ({ topic }) => ({ topics: [{ name: topic, partitionIndexes: [0] }] }),
  ListConfigResources: () => ({ resourceTypes: [2] }),
  DescribeTopicPartitions: ({ topic }) => ({
    topics: [{ name: topic }],
    responsePartitionLimit: 10,
    cursor: { topicName: topic, partitionIndex: 0 },
  }),
}

export const ASKED: readonly ApiName[] = Object.keys(BASES) as ApiName[]

/** Every question about one API, `versions` being those that the broker serves. */
export function questionsOf(api: ApiName, [low, high]: readonly [number, number], world: World): Question[] {
  const base = BASES[api]
  const fields = apiData(API_KEYS[api])?.request.fields
  if (base === undefined || fields === undefined) throw new Error(`there is no good request of ${api}`)
  const questions: Question[] = []
  let serial = 1000 * API_KEYS[api]
  for (let version = low; version <= high; version++) {
    const good = () => kept(base(world, version, ++serial), fields, version)
    questions.push({ api, version, wrong: 'nothing', body: good() })
    const variants = changesOf(good(), fields, version, '').length
    for (let index = 0; index < variants; index++) {
      const change = changesOf(good(), fields, version, '')[index]
      if (change !== undefined) questions.push({ api, version, wrong: change.wrong, body: change.fields })
    }
    questions.push(...cutFrames(api, version, good()))
  }
  for (const version of [low - 1, high + 1, 99, 32767]) {
    if (version < 0 && api === 'ApiVersions') continue
    questions.push({
      api,
      version,
      wrong: version < low ? 'the version before the first' : version === high + 1 ? 'the version after the last' : `version ${version}`,
      body: null,
    })
  }
  return questions
}

function cutFrames(api: ApiName, version: number, good: Fields): Question[] {
  const changed = (wrong: string, bytes: (encoded: Buffer) => Buffer): Question => ({ api, version, wrong, body: good, bytes })
  return [
    changed('the body is cut by a byte', (encoded) => encoded.subarray(0, encoded.length - 1)),
    changed('the body is cut in half', (encoded) => encoded.subarray(0, Math.floor(encoded.length / 2))),
    changed('a byte follows the body', (encoded) => Buffer.concat([encoded, Buffer.from([0])])),
  ]
}

interface Change {
  readonly wrong: string
  readonly fields: Fields
}

/** The request without what its version does not have. */
function kept(value: Fields, fields: readonly FieldData[], version: number): Fields {
  const out: Record<string, unknown> = {}
  for (const field of fields) {
    if (!within(field.versions, version) || value[field.name] === undefined) continue
    out[field.name] = keptField(value[field.name], field, version)
  }
  return out
}

function keptField(value: unknown, field: FieldData, version: number): unknown {
  const { fields } = field
  if (fields === undefined || value === null) return value
  if (Array.isArray(value)) return value.map((each) => kept(each as Fields, fields, version))
  return kept(value as Fields, fields, version)
}

/** Every request that differs from the good one in one field. */
function changesOf(good: Fields, fields: readonly FieldData[], version: number, path: string): Change[] {
  const changes: Change[] = []
  for (const field of fields) {
    const { name } = field
    if (!(name in good)) continue
    for (const [words, value] of badValues(good[name], field, version)) {
      changes.push({ wrong: `${path}${name} ${words}`, fields: { ...good, [name]: value } })
    }
    for (const { wrong, value } of inner(good[name], field, version, `${path}${name}`)) {
      changes.push({ wrong, fields: { ...good, [name]: value } })
    }
  }
  return changes
}

/** Changes inside of a struct, or of the first element of an array. */
function inner(value: unknown, field: FieldData, version: number, path: string): { wrong: string; value: unknown }[] {
  if (value === null) return []
  if (!Array.isArray(value)) {
    if (field.fields === undefined) return []
    return changesOf(value as Fields, field.fields, version, `${path}.`).map(({ wrong, fields }) => ({ wrong, value: fields }))
  }
  const [first, ...rest] = value as unknown[]
  if (first === undefined) return []
  if (field.fields !== undefined) {
    return changesOf(first as Fields, field.fields, version, `${path}.`).map(({ wrong, fields }) => ({ wrong, value: [fields, ...rest] }))
  }
  const element: FieldData = { name: field.name, type: field.type.slice(2) }
  return badValues(first, element, version).map(([words, bad]) => ({ wrong: `${path} with ${words}`, value: [bad, ...rest] }))
}

type Bad = readonly [words: string, value: unknown]

const LIMITS: Readonly<Record<string, number>> = { int8: 127, int16: 32_767, int32: 2_147_483_647, int64: Number.MAX_SAFE_INTEGER }

function badValues(good: unknown, field: FieldData, version: number): readonly Bad[] {
  const isNullable = field.nullable === true || (field.nullable !== undefined && within(field.nullable, version))
  const none: Bad[] = isNullable && good !== null ? [['null', null]] : []
  if (field.type.startsWith('[]')) {
    if (!Array.isArray(good)) return none
    return [...none, ['empty', []], ...(good.length > 0 ? [['twice the same', [...good, ...good]] as Bad] : [])]
  }
  const different = (values: readonly Bad[]) => [...none, ...values.filter(([, value]) => value !== good)]
  switch (field.type) {
    case 'bool':
      return [[`= ${!good}`, !good]]
    case 'string':
      return different([
        ['empty', ''],
        ['unknown', 'nope'],
        ['with a slash', 'a/b'],
        ['of 250 letters', 'x'.repeat(250)],
      ])
    case 'uuid':
      return different([
        ['zero', ZERO_ID],
        ['unknown', UNKNOWN_ID],
      ])
    case 'bytes':
    case 'records':
      return [...none, ['empty', Buffer.alloc(0)], ['garbage', Buffer.alloc(70, 7)]]
    default: {
      const most = LIMITS[field.type]
      if (most === undefined) return none
      // A time of 7 ms is a matter of the machine.
      const small = field.name === 'timeoutMs' ? [-2, -1, 0] : [-2, -1, 0, 7]
      return different([...small, most, -most - 1].filter(Number.isSafeInteger).map((value) => [`= ${value}`, value]))
    }
  }
}

/** The codes of an answer with where they stand, sorted; `ok` when there is none but 0. */
export function codesOf(answer: unknown): string {
  const counts = new Map<string, number>()
  collect(answer, '', counts)
  const lines = [...counts].map(([code, count]) => (count === 1 ? code : `${code} (${count} times)`))
  return lines.length === 0 ? 'ok' : lines.sort().join(', ')
}

function collect(value: unknown, path: string, counts: Map<string, number>): void {
  if (Array.isArray(value)) {
    for (const each of value) collect(each, path, counts)
  } else if (typeof value === 'object' && value !== null && !Buffer.isBuffer(value)) {
    for (const [name, inner] of Object.entries(value)) {
      if (/errorCode$/i.test(name) && typeof inner === 'number') {
        if (inner !== 0) counts.set(`${path}${inner}`, (counts.get(`${path}${inner}`) ?? 0) + 1)
      } else collect(inner, `${path}${name}.`, counts)
    }
  }
}

/** Answers by API and what is wrong, versions that answer alike together: `{ "0-8": "topics.partitions.3" }`. */
export type Answers = Record<string, Record<string, Record<string, string>>>

export function foldAnswers(all: readonly { readonly question: Question; readonly answer: string }[]): Answers {
  const folded: Record<string, Record<string, { from: number; to: number; answer: string }[]>> = {}
  for (const { question, answer } of all) {
    const { api, version, wrong } = question
    folded[api] ??= {}
    const byWrong = folded[api]
    byWrong[wrong] ??= []
    const runs = byWrong[wrong]
    const last = runs.at(-1)
    if (last !== undefined && last.answer === answer && last.to === version - 1) last.to = version
    else runs.push({ from: version, to: version, answer })
  }
  const answers: Answers = {}
  for (const [api, byWrong] of Object.entries(folded)) {
    const told: Record<string, Record<string, string>> = {}
    for (const [wrong, runs] of Object.entries(byWrong)) {
      told[wrong] = Object.fromEntries(runs.map(({ from, to, answer }) => [from === to ? String(from) : `${from}-${to}`, answer]))
    }
    answers[api] = told
  }
  return answers
}

/** The answer of one question as it was kept, or undefined. */
export function keptAnswer(answers: Answers, { api, version, wrong }: Question): string | undefined {
  for (const [range, answer] of Object.entries(answers[api]?.[wrong] ?? {})) {
    const [from = -1, to = from] = range.split(/(?<=\d)-/).map(Number)
    if (version >= from && version <= to) return answer
  }
  return undefined
}

/** Versions of an API that Kafka 4.4 answers. */
export function versionsOf(api: ApiName): readonly [number, number] {
  const versions = apiInfo(API_KEYS[api])?.versions ?? [0, 0]
  // Offered from 0 and answered from 3; the highest of InitProducerId is not stable.
  if (api === 'Produce') return [3, versions[1]]
  return api === 'InitProducerId' ? [versions[0], 5] : versions
}
