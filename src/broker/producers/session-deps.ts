import type { Clock } from '../../core/clock.ts'
import type { Logger } from '../../core/logger.ts'
import type { ProducerPort, TopicPort } from '../ports.ts'
import type { SequencedProducer } from '../produce/sequenced-producer.ts'
import type { TransactionCoordinator } from '../txn/coordinator.ts'

/** What sessions of producers work with. */
export interface SessionDeps {
  readonly clock: Clock
  readonly log: Logger
  readonly topics: TopicPort
  readonly producers: ProducerPort
  readonly sequenced: SequencedProducer
  readonly transactions: TransactionCoordinator
}
