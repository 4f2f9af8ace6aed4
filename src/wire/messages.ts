import {
  bytes,
  type Field,
  i32,
  i64,
  id16,
  list,
  onlyIf,
  optional,
  partition,
  partition0,
  struct,
  text,
  textMap,
  u8,
  u16,
  u32,
  u64,
} from './fields.ts'
import { MAX, MAX_COUNT } from './limits.ts'
import { LIST_OFFSETS_TIME, type OpName, PRODUCE_BATCH_IDEMPOTENT } from './opcodes.ts'
import { keyValue, pulledRecord, readRecordField, record, recordList, sendRecord, sequencedRecord } from './records.ts'

const topic = text(MAX.topic)
const group = text(MAX.group)
const member = text(MAX.member)
const any = text(MAX.string)
const codec = u8
const empty = struct({})
const isIdempotent = (fields: Readonly<Record<string, unknown>>) => (Number(fields['flags']) & PRODUCE_BATCH_IDEMPOTENT) !== 0
const asksTime = (fields: Readonly<Record<string, unknown>>) => fields['mode'] === LIST_OFFSETS_TIME
const hasError = (fields: Readonly<Record<string, unknown>>) => fields['code'] !== 0
const partitions = list(partition, { max: MAX_COUNT.partitions })
const assignment = list(struct({ topic, partitions: list(partition, { max: MAX_COUNT.extendedPartitions }) }), { max: MAX_COUNT.topics })
const partitions0 = list(partition0, { max: MAX_COUNT.extendedPartitions })
const assignment0 = list(struct({ topic, partitions: partitions0 }), { max: MAX_COUNT.topics })
const ack = struct({ partition, offset: u64 })
const topicOffset = struct({ topic, partition, offset: u64 })

/** The payload of every opcode. Fields are read in this order; bytes after the last one are ignored. */
export const MESSAGES = {
  // Connection
  HELLO: struct({ version: u32 }),
  WELCOME: struct({ version: u32 }),
  IDENTIFY_CLIENT: struct({ name: text(MAX.clientName), version: text(MAX.clientVersion), features: optional(u32) }),
  IDENTIFY_ACK: struct({ name: any, version: any, features: optional(u32), maxFrameBytes: optional(u32) }),
  AUTH: struct({ username: text(MAX.username), password: bytes(MAX.password) }),
  AUTH_OK: struct({ message: optional(any) }),
  AUTH_SCRAM: struct({ mechanism: text(MAX.mechanism), message: text(MAX.saslMessage) }),
  AUTH_CHALLENGE: struct({ message: text(MAX.saslMessage) }),
  AUTH_SCRAM_FINAL: struct({ message: text(MAX.saslMessage) }),
  HEARTBEAT_REQ: empty,
  HEARTBEAT_RESP: empty,
  GOODBYE: empty,
  OK: empty,
  ERROR: struct({ code: u16, message: any, name: optional(any) }),

  // Producing
  PRODUCE: struct({ codec, topic, key: bytes(MAX.string), value: bytes(MAX.string) }),
  PRODUCE_ACK: ack,
  PRODUCE_BATCH: struct({
    flags: u8,
    codec,
    topic,
    pid: onlyIf('IDEMPOTENT', isIdempotent, u64),
    baseSeq: onlyIf('IDEMPOTENT', isIdempotent, u32),
    epoch: onlyIf('IDEMPOTENT', isIdempotent, u16),
    records: list(keyValue, { min: 1, max: MAX_COUNT.batchRecords }),
  }),
  PRODUCE_BATCH_ACK: struct({ acks: list(ack, { max: MAX_COUNT.batchRecords }), errorCode: u16, errorMessage: any }),
  INIT_PRODUCER_ID: struct({ producerName: optional(text(MAX.producerName)) }),
  PRODUCER_ID: struct({ pid: u64, epoch: u16 }),
  PRODUCE_IDEMPOTENT: struct({ pid: u64, seq: u32, epoch: u16, codec, topic, key: bytes(MAX.string), value: bytes(MAX.string) }),

  // Consuming
  FETCH: struct({ topic, group, maxRecords: u32, isolation: optional(u8), flags: optional(u8) }),
  RECORD: record,
  RECORD_BATCH: struct({ records: recordList }),
  SUBSCRIBE: struct({ topic, group, isolation: optional(u8) }),
  COMMIT: topicOffset,
  NACK: struct({ topic, partition, offset: u64, reason: text(MAX.nackReason) }),
  NACK_ACK: struct({ deadLettered: u8, attempts: u16, dlqTopic: any }),
  LIST_OFFSETS: struct({ topic, mode: optional(u8), timestamp: onlyIf('mode 1', asksTime, u64) }),
  OFFSETS: struct({
    entries: list(struct({ partition, earliest: u64, latest: u64, highWatermark: u64, lso: u64, flags: u8 }), {
      max: MAX_COUNT.extendedPartitions,
    }),
    forTimes: optional(list(struct({ partition, offset: u64, flags: u8 }), { max: MAX_COUNT.extendedPartitions })),
  }),

  // Groups
  JOIN_GROUP: struct({ group, memberId: member, topics: list(topic, { min: 1, max: MAX_COUNT.joinTopics }) }),
  GROUP_ASSIGNMENT: struct({ memberId: any, assignment }),
  LEAVE_GROUP: struct({ group, memberId: member }),
  GROUP_HEARTBEAT: struct({ group, memberId: member }),
  LIST_GROUPS: empty,
  GROUP_LIST: struct({ groups: list(struct({ group: any, state: any, members: u32 }), { max: MAX_COUNT.groups }) }),
  DESCRIBE_GROUP: struct({ group }),
  GROUP_DESCRIPTION: struct({
    group: any,
    state: any,
    members: list(struct({ memberId: any, assignment: list(struct({ topic, partitions }), { max: MAX_COUNT.memberTopics }) }), {
      max: MAX_COUNT.members,
    }),
    offsets: list(topicOffset, { max: MAX_COUNT.groupOffsets }),
  }),
  DELETE_GROUP: struct({ group }),

  // Transactions
  BEGIN_TXN: empty,
  END_TXN: struct({ commit: u8 }),
  TXN_OFFSET_COMMIT: struct({ group, offsets: list(topicOffset, { max: MAX_COUNT.txnOffsets }) }),

  // Topics
  CREATE_TOPIC: struct({ name: topic, partitions: u32 }),
  LIST_TOPICS: empty,
  TOPIC_LIST: struct({ names: list(any, { max: MAX_COUNT.topics }) }),
  DELETE_TOPIC: struct({ name: topic }),
  DESCRIBE_TOPIC: struct({ name: topic }),
  TOPIC_DESCRIPTION: struct({ name: any, partitions: u32, config: textMap(MAX.string, MAX.string, { max: MAX_COUNT.configEntries }) }),
  ALTER_TOPIC_CONFIG: struct({ name: topic, config: textMap(MAX.configKey, MAX.configValue, { max: MAX_COUNT.configEntries }) }),
  CREATE_PARTITIONS: struct({ name: topic, total: u32 }),

  // The extension. Partition numbers start at 0.
  SEND: struct({ acks: u8, codec, timeoutMs: u32, topic, records: list(sendRecord, { min: 1, max: MAX_COUNT.batchRecords }) }),
  SENT: struct({
    results: list(struct({ partition: i32, offset: i64, error: u8 }), { max: MAX_COUNT.batchRecords }),
    errors: list(struct({ code: u16, name: any, message: any }), { max: MAX_COUNT.errors }, u8),
  }),
  READ: struct({
    topic,
    isolation: u8,
    maxRecords: u32,
    maxBytes: u32,
    maxWaitMs: u32,
    partitions: list(struct({ partition: partition0, start: u8, value: i64 }), { min: 1, max: MAX_COUNT.extendedPartitions }),
  }),
  READ_RESULT: struct({
    partitions: list(
      struct({
        partition: partition0,
        code: u16,
        errorName: onlyIf('code ≠ 0', hasError, any),
        errorMessage: onlyIf('code ≠ 0', hasError, any),
        nextOffset: i64,
        earliest: i64,
        highWatermark: i64,
        lastStable: i64,
        records: list(readRecordField, { max: MAX_COUNT.batchRecords }),
      }),
      { max: MAX_COUNT.extendedPartitions },
    ),
  }),
  STREAM: struct({
    group,
    isolation: u8,
    records: u32,
    bytes: u32,
    topics: list(
      struct({
        topic,
        start: u8,
        value: i64,
        positions: list(struct({ partition: partition0, offset: i64 }), { max: MAX_COUNT.extendedPartitions }),
      }),
      { min: 1, max: MAX_COUNT.joinTopics },
    ),
  }),
  STREAMED: struct({ topic, partition: partition0, records: list(readRecordField, { max: MAX_COUNT.batchRecords }) }),
  PULL: struct({ topic, group, isolation: u8, maxRecords: u32, maxBytes: u32 }),
  PULLED: struct({ records: list(pulledRecord, { max: MAX_COUNT.batchRecords }) }),
  CREDIT: struct({ records: u32, bytes: u32 }),
  UNSTREAM: struct({ topics: list(topic, { min: 1, max: MAX_COUNT.joinTopics }) }),
  SETTLE: struct({
    done: list(struct({ topic, partition: partition0, first: i64, last: i64 }), { max: MAX_COUNT.batchRecords }),
    failed: list(struct({ topic, partition: partition0, offset: i64, reason: text(MAX.nackReason) }), { max: MAX_COUNT.failedRecords }),
  }),
  SETTLED: struct({
    failed: list(struct({ fate: u8, attempts: u16, topic: any, code: u16, errorName: any, errorMessage: any }), {
      max: MAX_COUNT.failedRecords,
    }),
  }),
  REDRIVE: struct({ topic, partition: partition0, offsets: list(i64, { min: 1, max: MAX_COUNT.batchRecords }) }),
  REDRIVEN: struct({ redriven: u32, already: u32, missing: u32 }),
  DELETE_BEFORE: struct({ topic, partition: partition0, offset: i64 }),
  DELETED_BEFORE: struct({ offset: i64 }),
  LIST: struct({ flags: u8, after: optional(any) }),
  LISTING: struct({ topics: list(struct({ name: any, id: id16, partitions: u32 }), { max: MAX_COUNT.topics }), more: optional(u8) }),
  DESCRIBE: struct({ name: topic }),
  DESCRIPTION: struct({
    name: any,
    id: id16,
    partitions: list(struct({ partition: partition0, earliest: i64, highWatermark: i64, lastStable: i64, logEnd: i64 }), {
      max: MAX_COUNT.extendedPartitions,
    }),
    config: textMap(MAX.string, MAX.string, { max: MAX_COUNT.groupOffsets }),
  }),
  CREATE: struct({ name: topic, partitions: i32, config: textMap(MAX.topic, MAX.saslMessage, { max: MAX_COUNT.configEntries }) }),
  GET_POSITIONS: struct({ group, topics: list(topic, { min: 1, max: MAX_COUNT.joinTopics }) }),
  POSITIONS: struct({
    topics: list(struct({ topic, offsets: list(i64, { max: MAX_COUNT.extendedPartitions }) }), { max: MAX_COUNT.joinTopics }),
  }),
  STORE_POSITIONS: struct({
    group,
    offsets: list(struct({ topic, partition: partition0, offset: i64 }), { min: 1, max: MAX_COUNT.extendedPartitions }),
  }),
  DESCRIBE_CONFIG: struct({ name: topic }),
  CONFIG: struct({
    settings: list(struct({ name: any, value: any, default: any, source: u8, from: any, flags: u8, documentation: any }), {
      max: MAX_COUNT.groupOffsets,
    }),
  }),
  ALTER_CONFIG: struct({
    name: topic,
    flags: u8,
    set: textMap(MAX.topic, MAX.saslMessage, { max: MAX_COUNT.configEntries }),
    unset: list(topic, { max: MAX_COUNT.configEntries }),
  }),
  // The extension: producers whose numbers outlive the connection
  OPEN_PRODUCER: struct({ name: text(MAX.producerName), transactionTimeoutMs: u32, producerId: i64, producerEpoch: i32 }),
  PRODUCER_OPENED: struct({ producerId: i64, producerEpoch: i32 }),
  SEND_SEQUENCED: struct({
    flags: u8,
    acks: u8,
    codec,
    timeoutMs: u32,
    producerId: i64,
    producerEpoch: i32,
    topic,
    batches: list(
      struct({
        partition: partition0,
        baseSequence: i32,
        records: list(sequencedRecord, { min: 1, max: MAX_COUNT.batchRecords }),
      }),
      { min: 1, max: MAX_COUNT.batchRecords },
    ),
  }),
  SENT_SEQUENCED: struct({
    results: list(struct({ baseOffset: i64, error: u8 }), { max: MAX_COUNT.batchRecords }),
    errors: list(struct({ code: u16, name: any, message: any }), { max: MAX_COUNT.errors }, u8),
  }),
  CONFIG_CHANGED: struct({ names: list(any, { max: MAX_COUNT.groupOffsets }) }),

  // The extension: groups
  MEMBER_JOIN: struct({
    group,
    memberId: member,
    rebalanceTimeoutMs: u32,
    topics: list(topic, { min: 1, max: MAX_COUNT.joinTopics }),
  }),
  MEMBER_SYNC: struct({ group, held: assignment0 }),
  MEMBER_STATE: struct({ memberId: any, epoch: i64, sessionTimeoutMs: u32, heartbeatIntervalMs: u32, assignment: assignment0 }),
  GROUP_CHANGED: struct({ group, epoch: i64 }),
  GROUPS: struct({ after: optional(any) }),
  GROUP_NAMES: struct({
    groups: list(struct({ group: any, kind: any, state: any, members: u32 }), { max: MAX_COUNT.topics }),
    more: optional(u8),
  }),
  GROUP: struct({ group: any }),
  GROUP_DETAILS: struct({
    group: any,
    kind: any,
    state: any,
    epoch: i64,
    members: list(
      struct({
        memberId: any,
        instanceId: any,
        clientId: any,
        clientHost: any,
        topics: list(topic, { max: MAX_COUNT.topics }),
        assignment: assignment0,
      }),
      { max: MAX_COUNT.topics },
    ),
    offsets: list(struct({ topic, partition: partition0, offset: i64, end: i64 }), { max: MAX_COUNT.topics }),
  }),
  DELETE_POSITIONS: struct({
    group: any,
    offsets: list(struct({ topic, partition: partition0 }), { min: 1, max: MAX_COUNT.extendedPartitions }),
  }),
} as const satisfies Record<OpName, { readonly layout: string }>

type FieldOf<F> = F extends Field<infer T> ? T : never

/** The fields of an opcode's payload. */
export type Message<N extends OpName> = FieldOf<(typeof MESSAGES)[N]>

export function layoutOf(name: OpName): string {
  return MESSAGES[name].layout
}
