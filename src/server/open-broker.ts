import { Broker, type BrokerOptions } from '../broker/broker.ts'
import type { Metrics } from '../core/counters.ts'
import type { Logger, LogLevels } from '../core/logger.ts'
import type { Codecs } from '../record/compression.ts'
import type { Data } from './data.ts'
import type { Machine } from './machine.ts'
import { ManagedLogs } from './managed-logs.ts'

export interface OpenBrokerDeps {
  readonly machine: Pick<Machine, 'clock' | 'disk' | 'random' | 'offload' | 'loader' | 'failpoint'>
  readonly data: Data
  readonly codecs: Codecs
  readonly log: Logger
  readonly logLevels?: LogLevels | null
  readonly metrics: Metrics
}

/** The broker over an open data folder. Its groups are not loaded yet. */
export function openBroker(
  { machine, data, codecs, log, logLevels = null, metrics }: OpenBrokerDeps,
  options: BrokerOptions,
): Promise<Broker> {
  const { clock, random, offload, loader, failpoint } = machine
  const logs = new ManagedLogs({ disk: data.logs, memory: data.memory.logs, volume: machine.disk })
  return Broker.open({ metadata: data.metadata, logs, codecs, offload, loader, clock, random, log, logLevels, metrics, failpoint }, options)
}
