/** MoonMQ as a library: a broker inside your process. Clients are in `moonmq/client`, a broker for tests in `moonmq/testing`. */

export { connect } from './client/index.ts'
export { type ErrorCode, MoonMQError } from './core/errors.ts'
export type { Logger } from './core/logger.ts'
export { type EmbeddedBroker, type StartBrokerOptions, startBroker } from './server/embedded.ts'
