import { ERRORS, type ErrorCode, MoonMQError } from '../core/errors.ts'

/** What stands for a code when the broker does not say which of the errors with that code it is. */
const BY_NATIVE_CODE: ReadonlyMap<number, ErrorCode> = new Map<number, ErrorCode>([
  [1, 'BAD_FRAME'],
  [2, 'UNKNOWN_OP'],
  [4, 'AUTH_FAILED'],
  [5, 'TOPIC_MISSING'],
  [6, 'RATE_LIMITED'],
  [7, 'INTERNAL'],
  [8, 'BAD_PROTOCOL'],
  [9, 'FRAME_TOO_LARGE'],
  [10, 'NO_PRODUCER_ID'],
  [11, 'OUT_OF_ORDER_SEQUENCE'],
  [12, 'GROUP_MEMBER_UNKNOWN'],
  [13, 'GROUP_CONFLICT'],
  [14, 'BATCH_TOO_LARGE'],
  [15, 'GROUP_MISSING'],
  [16, 'GROUP_NOT_EMPTY'],
  [17, 'CONFIG_INVALID'],
  [18, 'TOPIC_FORBIDDEN'],
  [19, 'NOT_AUTHORIZED'],
  [20, 'NOT_LEADER'],
  [21, 'PARTITION_COUNT_INVALID'],
  [50, 'PRODUCER_FENCED'],
  [51, 'INVALID_TXN_STATE'],
  [52, 'TRANSACTION_TIMED_OUT'],
])

/** Longest text of an error on the wire. */
const MAX_TEXT_BYTES = 1024

export interface WireError {
  readonly code: number
  readonly message: string
  /** The name of the row in `core/errors.ts`; only for clients of the extension. */
  readonly name?: string | undefined
}

export function toWire(error: MoonMQError): { code: number; message: string; name: string } {
  const { message } = error
  return { code: error.row.native, message: message.length > MAX_TEXT_BYTES ? message.slice(0, MAX_TEXT_BYTES) : message, name: error.code }
}

/** The error that a broker sent, with its text. */
export function fromWire(error: WireError): MoonMQError {
  const { name } = error
  const known = name !== undefined && Object.hasOwn(ERRORS, name) ? (name as ErrorCode) : BY_NATIVE_CODE.get(error.code)
  return MoonMQError.withText(known ?? 'INTERNAL', error.message)
}
