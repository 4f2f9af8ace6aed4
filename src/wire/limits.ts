import { KIB, MIB } from '../core/limits.ts'

/** Opcode and correlation id: what the length of a frame counts besides the payload. */
export const FRAME_HEADER_BYTES = 17
export const CORRELATION_BYTES = 16
/** Inbound frames of a broker unless it is told otherwise (`MaxFrameSize`). */
export const MAX_FRAME_BYTES = MIB
/** No frame that a broker sends is longer; clients drop the connection beyond it. */
export const MAX_REPLY_FRAME_BYTES = 16 * MIB

/** Longest strings, checked on the declared length alone. */
export const MAX = {
  topic: 249,
  group: 256,
  member: 256,
  clientName: 128,
  clientVersion: 64,
  username: 256,
  password: 1024,
  mechanism: 64,
  saslMessage: 4096,
  producerName: 256,
  nackReason: 1024,
  configKey: 64,
  configValue: 256,
  /** Keys, values, and every other string. */
  string: 64 * KIB,
} as const

/** Largest counts. */
export const MAX_COUNT = {
  batchRecords: 10_000,
  idempotentRecords: 1024,
  /** Each of them is stored, and may be moved, before the next request of the connection has its turn. */
  failedRecords: 256,
  joinTopics: 256,
  configEntries: 64,
  txnOffsets: 1024,
  partitions: 1024,
  groups: 4096,
  members: 256,
  memberTopics: 256,
  groupOffsets: 1024,
  /** Topics of a listing: bounded by the frame alone. */
  topics: 1_000_000,
  /** Partitions in a message of the extension. */
  extendedPartitions: 100_000,
  headers: 1024,
  errors: 255,
} as const

/** A FETCH answer is split at these. */
export const MAX_FETCH_RECORDS = 10_000
export const MAX_FETCH_BYTES = 8 * MIB
/** Largest key or value that the extension carries to a client: with its surroundings it must fit a frame. */
export const MAX_READ_PART_BYTES = 15 * MIB
/** Longest that READ waits for records. */
export const MAX_READ_WAIT_MS = 60_000
