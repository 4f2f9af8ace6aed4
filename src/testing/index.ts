import { type EmbeddedBroker, type StartBrokerOptions, startBroker } from '../server/embedded.ts'

/**
 * A broker for one test: in memory, on a free port of loopback, gone at the end.
 *
 *     await using broker = await startTestBroker()
 *     const kafka = new Kafka({ brokers: [broker.address] })
 */
export function startTestBroker(options: Omit<StartBrokerOptions, 'host' | 'port' | 'dataDir' | 'memory'> = {}): Promise<EmbeddedBroker> {
  return startBroker({ ...options, host: '127.0.0.1', port: 0, memory: true })
}

export type { EmbeddedBroker } from '../server/embedded.ts'
