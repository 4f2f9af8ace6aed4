import type { LoadClients } from './load-clients.ts'
import type { Measured } from './report.ts'

/** A broker that can die and begin again on what it left. */
export interface Mortal {
  readonly name: string
  start(): Promise<{ address: string; pid: number }>
  /** kill -9; resolves when the process is gone. */
  kill(): Promise<void>
  /** Milliseconds from the start of the process to the first record that it acknowledges. */
  restart(topic: string): Promise<number>
  stop(): Promise<void>
}

const PARTITIONS = 4
const RECORD_BYTES = 1024
const LOG_MB = 2000
const TOPIC = 'bench-recovery'

/** Time to the first acknowledged record after kill -9 with two gigabytes of log. The files are in the page cache, as after a mere crash. */
export async function measureRecovery(server: Mortal, clients: LoadClients): Promise<Measured> {
  const { address } = await server.start()
  try {
    await clients.kload(['create', '-b', address, '-t', TOPIC, '-P', `${PARTITIONS}`], 60)
    const [host = '', port = ''] = address.split(':')
    for (let written = 0; written < LOG_MB; ) {
      const load = ['sync', host, port, TOPIC, `${PARTITIONS}`, '-s', `${RECORD_BYTES}`, '-S', '3', '-c', '4', '-k', '120', '-d', '4']
      const { MB_s: rate } = await clients.kraw(load, 60)
      written += Number(rate) * 3
    }
    await server.kill()
    const value = await server.restart(TOPIC)
    process.stderr.write(`  ${server.name} recovery: ${value} ms\n`)
    return {
      workload: 'recovery',
      unit: 'ms, kill -9 with 2 GB of log to the first acknowledged record',
      higherIsBetter: false,
      server: server.name,
      mode: '',
      value,
    }
  } finally {
    await server.stop()
  }
}
