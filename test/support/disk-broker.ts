import type { Broker } from '../../src/broker/broker.ts'
import type { NameExpiry } from '../../src/broker/txn/txn-options.ts'
import type { Clock } from '../../src/core/clock.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { type Metrics, NO_METRICS } from '../../src/core/counters.ts'
import { type Failpoint, NO_FAILPOINT } from '../../src/core/failpoint.ts'
import { type Logger, SILENT } from '../../src/core/logger.ts'
import { SystemRandom } from '../../src/core/random.ts'
import { FixedHost } from '../../src/io/host.ts'
import { NodeLoader } from '../../src/io/loader.ts'
import type { MemoryDisk } from '../../src/io/memory-disk.ts'
import { InlineOffload } from '../../src/io/offload.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { runBatchJob } from '../../src/record/batch-jobs.ts'
import { Codecs } from '../../src/record/compression.ts'
import { Data } from '../../src/server/data.ts'
import type { Machine } from '../../src/server/machine.ts'
import { openBroker } from '../../src/server/open-broker.ts'

/** The broker without its doors over the real logs, on a disk in memory whose power the test may cut. */
export interface DiskBroker {
  readonly broker: Broker
  readonly data: Data
  readonly disk: MemoryDisk
  close(): Promise<void>
}

let nextPid = 1000

/** Another process on the machine, which was booted again too unless `boot` says which start of it this is. */
export function machineWith(
  disk: MemoryDisk,
  failpoint: Failpoint = NO_FAILPOINT,
  boot?: string,
  clock: Clock = new SystemClock(),
): Machine {
  const pid = nextPid++
  const host = new FixedHost({ pid, bootId: boot ?? `boot-${pid}`, processes: new Map([[pid, '1']]) })
  const loader = new NodeLoader()
  const codecs = new Codecs({ loader })
  const offload = new InlineOffload({ run: (job) => runBatchJob(codecs, job) })
  return { clock, random: new SystemRandom(), disk, net: new VirtualNet({ clock }), host, offload, loader, failpoint }
}

export interface DiskBrokerOptions {
  readonly log?: Logger
  readonly boot?: string
  readonly clock?: Clock
  readonly metrics?: Metrics
  readonly maxInflightProduceBytes?: number
  readonly redriveSliceBytes?: number
  readonly producerNames?: NameExpiry
}

/** Groups are loaded when it resolves. Each call is another process of another boot. */
export async function diskBroker(
  disk: MemoryDisk,
  settings: Record<string, string> = {},
  failpoint: Failpoint = NO_FAILPOINT,
  { log = SILENT, boot, metrics = NO_METRICS, clock, ...options }: DiskBrokerOptions = {},
): Promise<DiskBroker> {
  const machine = machineWith(disk, failpoint, boot, clock)
  const codecs = new Codecs({ loader: machine.loader })
  const kafka = new Map(Object.entries(settings))
  const data = await Data.open(
    { machine, log, metrics, codecs, onFatal: () => {} },
    {
      folder: '/data',
      nodeId: 0,
      kafka,
      groupCommit: { lingerMs: 0, maxWaiters: 64 },
      maxOpenFiles: 64,
      journalAreaBytes: 256 * 1024,
      memoryTopicBytes: 16 * 1024 * 1024,
    },
  )
  const broker = await openBroker(
    { machine, data, codecs, log, metrics },
    {
      nodeId: 0,
      settings: kafka,
      ...options,
    },
  )
  await broker.loadGroups()
  return {
    broker,
    data,
    disk,
    async close() {
      await broker.close()
      await data.close()
    },
  }
}
