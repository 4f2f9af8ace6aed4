export type { ErrorCode } from '../core/errors.ts'
export { MoonMQError } from '../core/errors.ts'
export { connect } from './client.ts'
export type * from './types.ts'
