/**
 * The one table of errors (DESIGN section 6). Inside, errors are typed by name; a door maps by the row, never by the text.
 * native: code of the native protocol (docs/PROTOCOL.md). kafka: Kafka's error code. http: status of the HTTP doors.
 */
export interface ErrorRow {
  readonly native: number
  readonly kafka: number
  readonly http: number
  readonly retriable: boolean
  /** `{name}` is replaced by the detail of that name. */
  readonly message: string
}

function row(native: number, kafka: number, http: number, retriable: boolean, message: string): ErrorRow {
  return { native, kafka, http, retriable, message }
}

const RETRY = true
const FINAL = false

export const ERRORS = {
  // Requests
  BAD_FRAME: row(1, 42, 400, FINAL, 'the request is malformed: {reason}'),
  BAD_STATE: row(1, 34, 400, FINAL, '{op} is not allowed in state {state}'),
  UNKNOWN_OP: row(2, 35, 400, FINAL, 'there is no request with opcode {op}'),
  INVALID_REQUEST: row(1, 42, 400, FINAL, '{reason}'),
  UNSUPPORTED_VERSION: row(8, 35, 400, FINAL, 'version {version} of {api} is not supported; supported: {supported}'),
  BAD_PROTOCOL: row(8, 42, 400, FINAL, '{reason}'),
  FRAME_TOO_LARGE: row(9, 42, 413, FINAL, 'a frame of {size} bytes exceeds the limit of {limit} bytes ({setting})'),
  AUTH_FAILED: row(4, 58, 401, FINAL, 'login refused'),
  NOT_AUTHORIZED: row(19, 29, 403, FINAL, 'not authorized to {operation} {resource}'),
  RATE_LIMITED: row(6, 89, 429, RETRY, '{reason}'),
  REQUEST_TIMED_OUT: row(7, 7, 504, RETRY, 'the request did not finish within {timeoutMs} ms'),
  SHUTTING_DOWN: row(7, 8, 503, RETRY, 'the broker is shutting down'),
  ANSWER_TOO_LARGE: row(7, 10, 500, FINAL, 'the answer would be longer than {limit} bytes; ask for less at once'),
  INTERNAL: row(7, -1, 500, FINAL, 'internal error: {reason}'),
  NOT_IN_THIS_VERSION: row(2, 35, 501, FINAL, '{what} is not in this version of MoonMQ'),

  // Topics and partitions
  TOPIC_MISSING: row(5, 3, 404, RETRY, 'topic "{topic}" does not exist'),
  PARTITION_MISSING: row(1, 3, 404, RETRY, 'topic "{topic}" has no partition {partition}'),
  TOPIC_ID_UNKNOWN: row(5, 100, 404, RETRY, 'no topic has the id {id}'),
  TOPIC_ID_INCONSISTENT: row(5, 103, 409, RETRY, 'topic "{topic}" has another id than {id}'),
  TOPIC_EXISTS: row(7, 36, 409, FINAL, 'topic "{topic}" already exists'),
  TOPIC_NAME_INVALID: row(7, 17, 400, FINAL, 'topic name "{topic}" is invalid: {reason}'),
  TOPIC_FORBIDDEN: row(18, 29, 403, FINAL, 'topic "{topic}" is internal to the broker'),
  TOPIC_DELETION_DISABLED: row(7, 73, 403, FINAL, 'topics are not deleted here: delete.topic.enable is false'),
  PARTITION_COUNT_INVALID: row(21, 37, 400, FINAL, 'topic "{topic}" cannot have {partitions} partitions: {reason}'),
  REPLICATION_FACTOR_INVALID: row(7, 38, 400, FINAL, 'a replication factor of {factor} cannot be reached with {brokers} broker(s)'),
  REPLICA_ASSIGNMENT_INVALID: row(7, 39, 400, FINAL, 'the replica assignment is not possible: {reason}'),
  CONFIG_INVALID: row(17, 40, 400, FINAL, '{key}={value} is not valid: {reason}'),
  FEATURE_UPDATE_REFUSED: row(7, 95, 400, FINAL, 'the feature {feature} cannot have the level {level}: {reason}'),
  POLICY_VIOLATION: row(7, 44, 400, FINAL, '{reason}'),
  NOT_LEADER: row(20, 6, 421, RETRY, 'not the leader; {hint}'),
  LEADER_EPOCH_FENCED: row(7, 74, 409, RETRY, 'leader epoch {epoch} of {topic}-{partition} is over; the current one is {current}'),
  LEADER_EPOCH_UNKNOWN: row(
    7,
    75,
    409,
    RETRY,
    'leader epoch {epoch} of {topic}-{partition} is not known yet; the current one is {current}',
  ),

  // The log
  STORAGE_FAILED: row(7, 56, 503, RETRY, 'storage of {topic}-{partition} failed: {reason}'),
  STORAGE_FULL: row(7, 56, 507, RETRY, 'no space left for {topic}-{partition}; free space, the partition then reopens by itself'),
  CORRUPT_RECORDS: row(7, 2, 500, RETRY, '{file} is damaged at byte {position}: {reason}'),
  CORRUPT_BATCH: row(1, 2, 400, FINAL, 'the record batch is damaged: {reason}'),
  INVALID_RECORD: row(1, 87, 400, FINAL, 'the record batch is not valid: {reason}'),
  UNSUPPORTED_COMPRESSION: row(7, 76, 400, FINAL, 'compression codec {codec} is not available'),
  RECORD_TOO_LARGE: row(7, 10, 413, FINAL, 'a record batch of {size} bytes exceeds max.message.bytes={limit}'),
  INFLATED_TOO_LARGE: row(7, 10, 413, FINAL, 'the record batch inflates to more than {limit} bytes'),
  OFFLOAD_FAILED: row(7, 7, 503, RETRY, 'a record batch could not be looked into: {reason}'),
  INVALID_TIMESTAMP: row(1, 32, 400, FINAL, 'record timestamp {timestamp} is not acceptable: {reason}'),
  OFFSET_OUT_OF_RANGE: row(7, 1, 416, FINAL, 'offset {offset} of {topic}-{partition} is outside {start}..{end}'),
  RECORD_MISSING: row(7, 1, 404, FINAL, 'there is no record at offset {offset} of {topic}-{partition} that a consumer can read'),
  VALUE_TOO_LARGE_FOR_CLIENT: row(
    7,
    10,
    413,
    FINAL,
    'the record at offset {offset} of {topic}-{partition} has a {part} of {size} bytes; this protocol version reads at most {limit}',
  ),
  NOT_ENOUGH_REPLICAS: row(7, 19, 503, RETRY, '{topic}-{partition} has {isr} in-sync replica(s), min.insync.replicas={min} asks for more'),
  INVALID_ACKS: row(1, 21, 400, FINAL, 'acks={acks} is not one of 0, 1, -1'),

  // Producers and transactions
  NO_PRODUCER_ID: row(10, 42, 400, FINAL, 'an idempotent request needs INIT_PRODUCER_ID first'),
  OUT_OF_ORDER_SEQUENCE: row(
    11,
    45,
    409,
    FINAL,
    'sequence {sequence} of producer {producerId} is neither the next ({expected}) nor a repeat',
  ),
  DUPLICATE_SEQUENCE: row(11, 46, 409, FINAL, 'sequence {sequence} of producer {producerId} was stored long ago'),
  INVALID_PRODUCER_EPOCH: row(50, 47, 409, FINAL, 'epoch {epoch} of producer {producerId} is over; the current one is {current}'),
  UNKNOWN_PRODUCER_ID: row(11, 59, 409, FINAL, 'producer id {producerId} is not known'),
  BATCH_TOO_LARGE: row(14, 10, 413, FINAL, 'an idempotent batch of {count} records exceeds the limit of {limit}'),
  PRODUCER_FENCED: row(50, 90, 409, FINAL, 'a newer session of this producer exists'),
  INVALID_TXN_STATE: row(51, 48, 409, FINAL, '{reason}'),
  PRODUCER_ID_MAPPING: row(51, 49, 409, FINAL, 'producer id {producerId} does not belong to the transactional id'),
  TRANSACTION_TIMEOUT_INVALID: row(1, 50, 400, FINAL, 'a transaction timeout of {timeoutMs} ms is outside 1..{max} ms'),
  CONCURRENT_TRANSACTIONS: row(7, 51, 409, RETRY, 'the transaction of "{id}" before this one is still being ended'),
  TRANSACTION_COORDINATOR_FENCED: row(50, 52, 409, FINAL, 'coordinator epoch {epoch} is over; the current one is {current}'),
  TRANSACTIONAL_ID_NOT_AUTHORIZED: row(19, 53, 403, FINAL, 'the transactional id cannot be used so: {reason}'),
  TRANSACTIONAL_ID_MISSING: row(51, 105, 404, FINAL, 'transactional id "{id}" does not exist'),
  TRANSACTION_ABORTABLE: row(51, 120, 409, FINAL, '{topic}-{partition} is not part of the transaction, which can only be aborted'),
  TRANSACTION_NOT_VERIFIED: row(7, 19, 503, RETRY, 'the transaction of the batch could not be looked up yet: {reason}'),
  TRANSACTION_TIMED_OUT: row(52, 47, 409, FINAL, 'the transaction timed out and was aborted'),
  TRANSACTION_ABORTED: row(51, 48, 409, RETRY, 'the transaction was aborted: {reason}'),
  TRANSACTION_OUTCOME_UNKNOWN: row(7, -1, 503, FINAL, 'whether the transaction was committed is not known: {reason}'),

  // Groups
  GROUP_MEMBER_UNKNOWN: row(12, 25, 409, FINAL, 'group "{group}" does not know member "{member}"'),
  GROUP_CONFLICT: row(13, 23, 409, FINAL, '{reason}'),
  GROUP_MISSING: row(15, 69, 404, FINAL, 'group "{group}" does not exist'),
  GROUP_KIND: row(15, 69, 404, FINAL, 'group "{group}" is not a {kind} group'),
  GROUP_NOT_EMPTY: row(16, 68, 409, FINAL, 'group "{group}" has members'),
  GROUP_ID_INVALID: row(1, 24, 400, FINAL, 'the group id is not valid: {reason}'),
  GROUP_LIMIT: row(6, 81, 429, FINAL, 'group "{group}" has reached its limit of {limit} members'),
  MEMBER_ID_REQUIRED: row(12, 79, 409, RETRY, 'join again with the member id given'),
  FENCED_INSTANCE_ID: row(12, 82, 409, FINAL, 'instance id "{instance}" of group "{group}" now belongs to another member'),
  ILLEGAL_GENERATION: row(12, 22, 409, FINAL, 'generation {generation} of group "{group}" is not the current one'),
  FENCED_MEMBER_EPOCH: row(
    12,
    110,
    409,
    FINAL,
    'member "{member}" of group "{group}" is not in epoch {epoch} but in {current}; it must give up its partitions and join again',
  ),
  STALE_MEMBER_EPOCH: row(12, 113, 409, RETRY, 'member "{member}" of group "{group}" is not in epoch {epoch} but in {current}'),
  UNRELEASED_INSTANCE_ID: row(
    12,
    111,
    409,
    FINAL,
    'instance id "{instance}" of group "{group}" belongs to member "{member}", which has not left',
  ),
  UNSUPPORTED_ASSIGNOR: row(1, 112, 400, FINAL, 'there is no assignor "{assignor}"; there are {supported}'),
  INVALID_REGULAR_EXPRESSION: row(1, 128, 400, FINAL, 'the regular expression "{pattern}" is not valid: {reason}'),
  REBALANCE_IN_PROGRESS: row(7, 27, 409, FINAL, 'group "{group}" is rebalancing'),
  INCONSISTENT_GROUP_PROTOCOL: row(13, 23, 409, FINAL, 'the protocols of the member do not fit those of group "{group}"'),
  SESSION_TIMEOUT_INVALID: row(1, 26, 400, FINAL, 'session timeout {timeoutMs} ms is outside {min}..{max} ms'),
  COORDINATOR_LOADING: row(7, 14, 503, RETRY, 'the coordinator of "{group}" is still loading'),
  COORDINATOR_NOT_AVAILABLE: row(7, 15, 503, RETRY, 'there is no coordinator for "{group}"'),
  OFFSET_METADATA_TOO_LARGE: row(1, 12, 413, FINAL, 'offset metadata of {size} bytes exceeds {limit}'),
  UNSTABLE_OFFSET_COMMIT: row(7, 88, 409, RETRY, 'an offset of group "{group}" waits for the end of a transaction'),
  OPERATION_NOT_ATTEMPTED: row(7, 55, 409, FINAL, 'not attempted, because another part of the request is refused'),
  GROUP_SUBSCRIBED_TO_TOPIC: row(16, 86, 409, FINAL, 'group "{group}" is subscribed to topic "{topic}"'),

  // Share groups
  INVALID_RECORD_STATE: row(7, 121, 409, FINAL, 'the record at offset {offset} cannot be acknowledged: it is {state}'),
  SHARE_SESSION_MISSING: row(7, 122, 404, RETRY, 'member "{member}" of group "{group}" has no share session'),
  SHARE_SESSION_EPOCH_INVALID: row(
    7,
    123,
    409,
    RETRY,
    'epoch {epoch} of the share session of member "{member}" of group "{group}" is not the next one, {expected}',
  ),
  SHARE_SESSION_LIMIT: row(6, 133, 429, RETRY, 'there are {limit} share sessions already (group.share.max.share.sessions)'),

  // Settings, start and stop
  SETTING_INVALID: row(17, 40, 400, FINAL, '{reason}'),
  DATA_FOLDER_LOCKED: row(
    7,
    56,
    503,
    FINAL,
    'the data folder {path} is in use by process {pid}: stop that broker, or give this one a folder of its own (--data)',
  ),
  DATA_DAMAGED: row(7, 56, 500, FINAL, '{path}: {reason}'),

  // Clients
  CONNECTION_CLOSED: row(7, 8, 503, RETRY, 'the connection was closed: {reason}'),
  CONNECT_FAILED: row(7, 8, 503, RETRY, 'cannot connect to {address}: {reason}'),
  ABORTED: row(7, 7, 499, FINAL, 'aborted'),
  CLOSED: row(7, 8, 503, FINAL, '{what} is closed'),
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof ERRORS

/** Values for the `{name}` places of an error's message. */
export type ErrorDetails = Readonly<Record<string, string | number | bigint | boolean>>

/**
 * Refusals of single items, of which one request may have a hundred thousand: taking their stack would cost five times the rest. They say
 * what was asked for; where in the code it was refused helps nobody.
 */
const FREQUENT: ReadonlySet<ErrorCode> = new Set([
  'TOPIC_MISSING',
  'TOPIC_ID_UNKNOWN',
  'TOPIC_NAME_INVALID',
  'TOPIC_EXISTS',
  'TOPIC_FORBIDDEN',
  'PARTITION_MISSING',
  'OFFSET_OUT_OF_RANGE',
  'INVALID_RECORD',
  'GROUP_MISSING',
  'GROUP_ID_INVALID',
])

/** Every error that MoonMQ throws on purpose. `code` names a row of `ERRORS`; `retriable` says whether trying again can help. */
export class MoonMQError extends Error {
  override readonly name = 'MoonMQError'
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(code: ErrorCode, details: ErrorDetails = {}, cause?: unknown, text?: string) {
    const frames = Error.stackTraceLimit
    if (text === undefined && FREQUENT.has(code)) Error.stackTraceLimit = 0
    super(text ?? fill(ERRORS[code].message, details), cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = frames
    this.code = code
    this.details = details
  }

  /** An error that another process described: its words are kept. */
  static withText(code: ErrorCode, text: string): MoonMQError {
    return new MoonMQError(code, {}, undefined, text)
  }

  get row(): ErrorRow {
    return ERRORS[this.code]
  }

  get retriable(): boolean {
    return this.row.retriable
  }
}

/** What failed first, where the closing of resources (`await using`) failed after it. */
export function firstError(error: unknown): unknown {
  let first = error
  while (first instanceof Error && first.name === 'SuppressedError' && 'suppressed' in first) first = first.suppressed
  return first
}

/** The error itself when it is one of ours, else an INTERNAL that carries it as cause. */
export function asMoonMQError(thrown: unknown): MoonMQError {
  const error = firstError(thrown)
  if (error instanceof MoonMQError) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new MoonMQError('INTERNAL', { reason }, error)
}

export function isCode(error: unknown, code: ErrorCode): error is MoonMQError {
  return error instanceof MoonMQError && error.code === code
}

function fill(template: string, details: ErrorDetails): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? '?'))
}
