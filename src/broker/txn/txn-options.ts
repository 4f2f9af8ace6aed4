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
}

export function txnOptions(nodeId: number, settings: BrokerSettings): TxnOptions {
  return {
    nodeId,
    maxTimeoutMs: settings.number('transaction.max.timeout.ms'),
    idExpirationMs: settings.number('transactional.id.expiration.ms'),
    expiryIntervalMs: settings.number('transaction.remove.expired.transaction.cleanup.interval.ms'),
    isTwoPhaseEnabled: settings.text('transaction.two.phase.commit.enable') === 'true',
  }
}
