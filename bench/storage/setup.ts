import { SystemClock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/logger.ts'
import type { Disk, DiskFile } from '../../src/io/disk.ts'
import { NodeHost } from '../../src/io/host.ts'
import { NodeDisk } from '../../src/io/node-disk.ts'
import { buildBatch } from '../../src/record/builder.ts'
import { LogManager, type LogManagerOptions } from '../../src/storage/log-manager.ts'
import type { PartitionLog } from '../../src/storage/partition-log.ts'
import type { LogConfig } from '../../src/storage/types.ts'
import { LOG_CONFIG } from '../../test/support/log-config.ts'

const CONFIG: LogConfig = { ...LOG_CONFIG, segmentBytes: 256 * 1024 * 1024 }

export function batchOf(records: number, valueBytes: number): Buffer {
  const value = Buffer.alloc(valueBytes, 'x')
  return buildBatch(Array.from({ length: records }, () => ({ key: null, value, timestampMs: Date.now() })))
}

/** The machine's disk, and how many syncs were asked of it, of files and of directories. */
export class CountingDisk extends NodeDisk implements Disk {
  syncs = 0

  constructor() {
    super({ poolSize: Number(process.env['UV_THREADPOOL_SIZE'] ?? 4) })
  }

  override async open(path: string, access: 'read' | 'write' | 'create'): Promise<DiskFile> {
    return this.#counted(await super.open(path, access))
  }

  override openNow(path: string, access: 'read' | 'write'): DiskFile {
    return this.#counted(super.openNow(path, access))
  }

  override syncDirectory(path: string): Promise<void> {
    this.syncs++
    return super.syncDirectory(path)
  }

  #counted(file: DiskFile): DiskFile {
    const datasync = file.datasync.bind(file)
    const counting: DiskFile['datasync'] = (urgency) => {
      this.syncs++
      return datasync(urgency)
    }
    return Object.assign(file, { datasync: counting })
  }
}

export function openManager(
  dataFolder: string,
  options: Partial<LogManagerOptions> = {},
  disk: Disk = new CountingDisk(),
): Promise<LogManager> {
  return LogManager.open({ disk, clock: new SystemClock(), log: SILENT, host: NodeHost.open() }, { dataFolder, ...options })
}

export function openLog(manager: LogManager, partition: number): Promise<PartitionLog> {
  return manager.open({ topic: 'bench', partition, topicId: 'AAAAAAAAQACAAAAAAAAAAQ', config: CONFIG, maxEpoch: null })
}
