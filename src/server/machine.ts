import type { Clock } from '../core/clock.ts'
import { SystemClock } from '../core/clock.ts'
import { type Failpoint, NO_FAILPOINT, type PlannedFailure } from '../core/failpoint.ts'
import type { Loader } from '../core/loader.ts'
import { type Logger, SILENT } from '../core/logger.ts'
import type { Offload } from '../core/offload.ts'
import { type Random, SystemRandom } from '../core/random.ts'
import type { Disk } from '../io/disk.ts'
import { FailpointDisk, failpointFor } from '../io/failpoints.ts'
import { type Host, NodeHost } from '../io/host.ts'
import { NodeLoader } from '../io/loader.ts'
import { MemoryDisk } from '../io/memory-disk.ts'
import type { Net } from '../io/net.ts'
import { NodeDisk } from '../io/node-disk.ts'
import { NodeNet } from '../io/node-net.ts'
import { InlineOffload, ThreadOffload } from '../io/offload.ts'
import { runBatchJob } from '../record/batch-jobs.ts'
import { Codecs } from '../record/compression.ts'
import { codecThreadUrl } from './codec-thread-url.ts'

/** Everything that a broker touches outside of itself (DESIGN D6). A test or a simulation passes another one. */
export interface Machine {
  readonly clock: Clock
  readonly random: Random
  readonly disk: Disk
  readonly net: Net
  readonly host: Host
  readonly offload: Offload
  readonly loader: Loader
  /** Moments at which a test ends the process or lets a step fail. */
  readonly failpoint: Failpoint
}

/** Threads that Node has unless UV_THREADPOOL_SIZE says otherwise. */
export const DEFAULT_POOL_SIZE = 4

export interface MachineOptions {
  /** Threads of Node's pool. */
  readonly poolSize: number
  /** Data is kept in memory, up to this many bytes; null = on disk. */
  readonly memoryBytes: number | null
  readonly log?: Logger
  /** Steps that are to fail, for a test. */
  readonly failures?: readonly PlannedFailure[]
}

/** The machine that the process runs on. */
export function thisMachine(options: MachineOptions): Machine {
  const { poolSize, memoryBytes, log = SILENT, failures = [] } = options
  const clock = new SystemClock()
  const loader = new NodeLoader()
  const disk =
    memoryBytes === null ? new NodeDisk({ poolSize }) : new MemoryDisk({ clock }, { capacityBytes: memoryBytes, tracksDurability: false })
  const failpoint = failures.length === 0 ? NO_FAILPOINT : failpointFor(failures)
  return {
    clock,
    random: new SystemRandom(),
    disk: failures.length === 0 ? disk : new FailpointDisk(disk, failpoint),
    failpoint,
    net: new NodeNet({ clock, log }),
    host: NodeHost.open(),
    offload: codecOffload({ clock, log, loader }),
    loader,
  }
}

function codecOffload(deps: { clock: Clock; log: Logger; loader: Loader }): Offload {
  const threadUrl = codecThreadUrl()
  if (threadUrl !== null) return new ThreadOffload(deps, { threadUrl })
  deps.log.warn('offload.no_thread', 'the program that inflates batches is missing: large ones are inflated on the event loop')
  const codecs = new Codecs(deps)
  return new InlineOffload({ run: (job) => runBatchJob(codecs, job) })
}
