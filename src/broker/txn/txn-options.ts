import type { BrokerSettings } from '../settings.ts'

/** Settings of transactions, by Kafka's broker settings. Times in milliseconds. */
export interface TxnOptions {
  readonly nodeId: number
  /** `transaction.max.timeout.ms`. */
  readonly maxTimeoutMs: number
  /** `transactional.id.expiration.ms`. */
  readonly idExpirationMs: number
  /** `transaction.remove.expired.transaction.cleanup.interval.ms`. */
  readonly expiryIntervalMs: number
  /** `transaction.two.phase.commit.enable`. */
  readonly isTwoPhaseEnabled: boolean
  readonly names: NameExpiry
}

/** When the names of native producers are forgotten. */
export interface NameExpiry {
  /** `server.producerExpirySeconds`; 0 = never. */
  readonly afterMs: number
  /** `server.producerExpiryCheckIntervalSeconds`. */
  readonly checkIntervalMs: number
}

export const DEFAULT_NAME_EXPIRY: NameExpiry = { afterMs: 86_400_000, checkIntervalMs: 300_000 }

export function txnOptions(nodeId: number, settings: BrokerSettings, names: NameExpiry): TxnOptions {
  return {
    names,
    nodeId,
    maxTimeoutMs: settings.number('transaction.max.timeout.ms'),
    idExpirationMs: settings.number('transactional.id.expiration.ms'),
    expiryIntervalMs: settings.number('transaction.remove.expired.transaction.cleanup.interval.ms'),
    isTwoPhaseEnabled: settings.text('transaction.two.phase.commit.enable') === 'true',
  }
}
