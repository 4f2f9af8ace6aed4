/** Who sends an opcode. */
export type Sender = 'client' | 'server' | 'both'

export interface Opcode {
  readonly code: number
  readonly from: Sender
  /** What answers it: names of opcodes; `*` = any number of them. ERROR may answer any request. */
  readonly reply: string
  /** Extension opcodes are for clients that asked for them in IDENTIFY_CLIENT. */
  readonly extension: boolean
}

function client(code: number, reply: string): Opcode {
  return { code, from: 'client', reply, extension: false }
}

function server(code: number): Opcode {
  return { code, from: 'server', reply: '', extension: false }
}

function extension(code: number, reply: string): Opcode {
  return { code, from: code < 0x80 ? 'client' : 'server', reply, extension: true }
}

/**
 * Every opcode of the native protocol, version 1, and of its extension (0x40-0x5F from clients, 0xC0-0xDF from the broker).
 * 0x09 and 0x85 were an older ping pair and stay unassigned; 0xFF is kept for framing.
 */
export const OPCODES = {
  HELLO: client(0x01, 'WELCOME'),
  AUTH: client(0x02, 'AUTH_OK'),
  PRODUCE: client(0x03, 'PRODUCE_ACK'),
  FETCH: client(0x04, 'RECORD* or RECORD_BATCH*, then OK'),
  SUBSCRIBE: client(0x05, 'OK, then pushed RECORD'),
  COMMIT: client(0x06, 'OK'),
  CREATE_TOPIC: client(0x07, 'OK'),
  LIST_TOPICS: client(0x08, 'TOPIC_LIST'),
  GOODBYE: client(0x0a, 'none, the broker closes'),
  HEARTBEAT_REQ: { code: 0x0b, from: 'both', reply: 'HEARTBEAT_RESP', extension: false },
  HEARTBEAT_RESP: { code: 0x0c, from: 'both', reply: 'none', extension: false },
  IDENTIFY_CLIENT: client(0x0d, 'IDENTIFY_ACK'),
  INIT_PRODUCER_ID: client(0x0e, 'PRODUCER_ID'),
  PRODUCE_IDEMPOTENT: client(0x0f, 'PRODUCE_ACK'),
  JOIN_GROUP: client(0x10, 'GROUP_ASSIGNMENT'),
  LEAVE_GROUP: client(0x11, 'OK'),
  GROUP_HEARTBEAT: client(0x12, 'OK'),
  BEGIN_TXN: client(0x13, 'OK'),
  END_TXN: client(0x14, 'OK'),
  TXN_OFFSET_COMMIT: client(0x15, 'OK'),
  NACK: client(0x16, 'NACK_ACK'),
  PRODUCE_BATCH: client(0x17, 'PRODUCE_BATCH_ACK'),
  LIST_OFFSETS: client(0x18, 'OFFSETS'),
  DELETE_TOPIC: client(0x19, 'OK'),
  DESCRIBE_TOPIC: client(0x1a, 'TOPIC_DESCRIPTION'),
  ALTER_TOPIC_CONFIG: client(0x1b, 'OK'),
  LIST_GROUPS: client(0x1c, 'GROUP_LIST'),
  DESCRIBE_GROUP: client(0x1d, 'GROUP_DESCRIPTION'),
  DELETE_GROUP: client(0x1e, 'OK'),
  AUTH_SCRAM: client(0x1f, 'AUTH_CHALLENGE, or AUTH_OK for EXTERNAL'),
  AUTH_SCRAM_FINAL: client(0x20, 'AUTH_OK'),
  CREATE_PARTITIONS: client(0x21, 'OK'),
  SEND: extension(0x40, 'SENT'),
  READ: extension(0x41, 'READ_RESULT'),
  LIST: extension(0x42, 'LISTING'),
  DESCRIBE: extension(0x43, 'DESCRIPTION'),
  CREATE: extension(0x44, 'OK'),
  GET_POSITIONS: extension(0x45, 'POSITIONS'),
  STORE_POSITIONS: extension(0x46, 'OK'),
  DESCRIBE_CONFIG: extension(0x48, 'CONFIG'),
  ALTER_CONFIG: extension(0x49, 'CONFIG_CHANGED'),
  OPEN_PRODUCER: extension(0x4a, 'PRODUCER_OPENED'),
  SEND_SEQUENCED: extension(0x4b, 'SENT_SEQUENCED'),
  STREAM: extension(0x50, 'OK, then pushed STREAMED'),
  CREDIT: extension(0x51, 'none'),
  UNSTREAM: extension(0x52, 'OK'),
  SETTLE: extension(0x53, 'SETTLED'),
  REDRIVE: extension(0x54, 'REDRIVEN'),
  DELETE_BEFORE: extension(0x55, 'DELETED_BEFORE'),
  MEMBER_JOIN: extension(0x56, 'MEMBER_STATE'),
  MEMBER_SYNC: extension(0x57, 'MEMBER_STATE'),
  GROUPS: extension(0x58, 'GROUP_NAMES'),
  GROUP: extension(0x59, 'GROUP_DETAILS'),
  DELETE_POSITIONS: extension(0x5a, 'OK'),
  PULL: extension(0x5b, 'PULLED'),
  WELCOME: server(0x80),
  AUTH_OK: server(0x81),
  PRODUCE_ACK: server(0x82),
  RECORD: server(0x83),
  TOPIC_LIST: server(0x84),
  OK: server(0x86),
  IDENTIFY_ACK: server(0x87),
  PRODUCER_ID: server(0x88),
  GROUP_ASSIGNMENT: server(0x89),
  NACK_ACK: server(0x8a),
  PRODUCE_BATCH_ACK: server(0x8b),
  RECORD_BATCH: server(0x8c),
  OFFSETS: server(0x8d),
  TOPIC_DESCRIPTION: server(0x8e),
  GROUP_LIST: server(0x8f),
  GROUP_DESCRIPTION: server(0x90),
  AUTH_CHALLENGE: server(0x91),
  SENT: extension(0xc0, ''),
  READ_RESULT: extension(0xc1, ''),
  LISTING: extension(0xc2, ''),
  DESCRIPTION: extension(0xc3, ''),
  POSITIONS: extension(0xc5, ''),
  CONFIG: extension(0xc8, ''),
  CONFIG_CHANGED: extension(0xc9, ''),
  PRODUCER_OPENED: extension(0xca, ''),
  SENT_SEQUENCED: extension(0xcb, ''),
  MEMBER_STATE: extension(0xd6, ''),
  GROUP_CHANGED: extension(0xd7, ''),
  GROUP_NAMES: extension(0xd8, ''),
  GROUP_DETAILS: extension(0xd9, ''),
  PULLED: extension(0xdb, ''),
  STREAMED: extension(0xd0, ''),
  SETTLED: extension(0xd3, ''),
  REDRIVEN: extension(0xd4, ''),
  DELETED_BEFORE: extension(0xd5, ''),
  ERROR: server(0xfe),
} as const satisfies Record<string, Opcode>

export type OpName = keyof typeof OPCODES

const BY_CODE: (OpName | undefined)[] = []
for (const [name, opcode] of Object.entries(OPCODES)) BY_CODE[opcode.code] = name as OpName

/** The name of an opcode, or undefined. */
export function opName(code: number): OpName | undefined {
  return BY_CODE[code]
}

/** Flag bits and small numbers of version 1. */
export const PRODUCE_BATCH_IDEMPOTENT = 0x01
export const FETCH_BATCHED = 0x01
export const ISOLATION_READ_COMMITTED = 1
export const LIST_OFFSETS_BOUNDS = 0
export const LIST_OFFSETS_TIME = 1
export const OFFSETS_HWM_EXACT = 0x01
export const OFFSETS_LSO_KNOWN = 0x02
export const OFFSETS_LOCAL = 0x04
export const OFFSETS_FOUND = 0x01

/**
 * Feature bits: the last field of IDENTIFY_CLIENT (what the client understands) and of IDENTIFY_ACK (what the broker offers). Bit 0 is
 * kept for header blocks in the messages of version 1.
 */
export const FEATURE_EXTENSION = 0x02

/** READ: where a partition begins. */
export const START_OFFSET = 0
export const START_EARLIEST = 1
export const START_LATEST = 2
export const START_TIME = 3
/** STREAM: where the group is, at the earliest record where it is nowhere. */
export const START_COMMITTED = 4

/** SETTLED: what became of a record that failed. */
export const FATE_REFUSED = 0
export const FATE_AGAIN = 1
export const FATE_MOVED = 2

/** SEND: acks. */
export const ACKS_NONE = 0
export const ACKS_LEADER = 1
export const ACKS_ALL = 2
/** SEND_SEQUENCED: the batches belong to the open transaction of the connection. */
export const SEND_TRANSACTIONAL = 0x01
/** SEND: the broker chooses the partition, by the key when there is one. */
export const ANY_PARTITION = -1

/** LISTING, GROUP_NAMES: the last row is not the end; what follows is asked for with its name. */
export const MORE = 1

export const PROTOCOL_VERSION = 1
/** In CONFIG: chosen when the topic was made, and never changed. */
export const CONFIG_FIXED = 0x01
/** In ALTER_CONFIG: only say whether it could be done. */
export const VALIDATE_ONLY = 0x01
