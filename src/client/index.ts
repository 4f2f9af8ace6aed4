export type { ErrorCode } from '../core/errors.ts'
export { MoonMQError } from '../core/errors.ts'
export { connect } from './client.ts'
export { storesRecords, systemNet } from './options.ts'
export {
  bytes,
  json,
  nullable,
  type Serde,
  type StandardIssue,
  type StandardResult,
  type StandardSchema,
  TopicFormat,
  type TopicFormatOptions,
  type TypedRecord,
  type TypedRecordToSend,
  text,
} from './serde.ts'
export type * from './types.ts'
