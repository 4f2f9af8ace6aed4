import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatAddress } from '../config/address.ts'
import { startBroker } from '../server/embedded.ts'

/** A broker for one command, with its data in a temporary folder. */
export interface ScratchBroker {
  readonly address: string
  readonly dataDir: string
  stop(): Promise<void>
  /** Stops if need be, and removes the folder. */
  remove(): Promise<void>
}

export async function startScratchBroker(): Promise<ScratchBroker> {
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-demo-'))
  const dataDir = join(folder, 'moonmq-data')
  const broker = await startBroker({ dataDir, port: 0, http: null })
  return {
    address: formatAddress(broker),
    dataDir,
    stop: () => broker.close(),
    remove: async () => {
      await broker.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
