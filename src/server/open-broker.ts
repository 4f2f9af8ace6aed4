import { Broker, type BrokerOptions } from '../broker/broker.ts'
import type { Metrics } from '../core/counters.ts'
import type { Logger } from '../core/logger.ts'
import type { Codecs } from '../record/compression.ts'
import type { Data } from './data.ts'
import type { Machine } from './machine.ts'
import { ManagedLogs } from './managed-logs.ts'

export interface OpenBrokerDeps {
  readonly machine: Pick<Machine, 'clock' | 'random' | 'offload' | 'loader' | 'failpoint'>
  readonly data: Data
  readonly codecs: Codecs
  readonly log: Logger
  readonly metrics: Metrics
}

/** The broker over an open data folder. Its groups are not loaded yet. */
export function openBroker({ machine, data, codecs, log, metrics }: OpenBrokerDeps, options: BrokerOptions): Promise<Broker> {
  const { clock, random, offload, loader, failpoint } = machine
  const logs = new ManagedLogs({ disk: data.logs, memory: data.memory.logs })
  return Broker.open({ metadata: data.metadata, logs, codecs, offload, loader, clock, random, log, metrics, failpoint }, options)
}
