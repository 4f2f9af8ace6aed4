import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NodeDisk } from '../../src/io/node-disk.ts'
import { diskContract } from './disk.ts'

diskContract('NodeDisk', async () => {
  const base = await mkdtemp(join(tmpdir(), 'moonmq-disk-'))
  return { disk: new NodeDisk({ poolSize: 4 }), base, close: () => rm(base, { recursive: true }) }
})
