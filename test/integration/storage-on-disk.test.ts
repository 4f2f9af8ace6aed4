import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { SILENT } from '../../src/core/logger.ts'
import { FixedHost } from '../../src/io/host.ts'
import { NodeDisk } from '../../src/io/node-disk.ts'
import { LogManager } from '../../src/storage/log-manager.ts'
import { checkIndexes } from '../support/index-check.ts'
import { LOG_CONFIG } from '../support/log-config.ts'
import { appendTo, readAll, TOPIC_ID } from '../support/storage.ts'

const CONFIG = { ...LOG_CONFIG, segmentBytes: 300_000, indexIntervalBytes: 2000 }

function openManager(dataFolder: string, pid: number): Promise<LogManager> {
  const host = new FixedHost({ pid, bootId: 'boot', processes: new Map([[pid, '1']]) })
  const deps = { disk: new NodeDisk({ poolSize: 4 }), clock: new SystemClock(), log: SILENT, host }
  return LogManager.open(deps, { dataFolder, maxOpenFiles: 8, tailBytes: 100_000 })
}

function openLog(manager: LogManager, partition: number) {
  return manager.open({ topic: 't', partition, topicId: TOPIC_ID, config: CONFIG, maxEpoch: null })
}

async function filesOf(folder: string): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>()
  for (const name of await readdir(folder)) files.set(`${folder}/${name}`, await readFile(join(folder, name)))
  return files
}

test('on the machine’s disk: small and large writes, rolls, cold reads, a stop, a start, a start after none', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'moonmq-storage-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const first = await openManager(folder, 1)
  const logs = await Promise.all([0, 1, 2].map((partition) => openLog(first, partition)))
  for (const log of logs) {
    for (let index = 0; index < 60; index++) appendTo(log, ['x'.repeat(index % 7 === 0 ? 100_000 : 500), `${index}`])
  }
  await Promise.all(logs.map((log) => log.whenDurable(120)))
  for (const log of logs) {
    assert.ok(log.segmentCount > 2)
    assert.equal((await readAll(log)).length, 60)
  }
  assert.ok(first.deps.handles.openFiles <= 8 + 3)
  await first.close()
  for (const partition of [0, 1, 2]) {
    assert.equal(checkIndexes(await filesOf(`${folder}/t-${partition}`), `${folder}/t-${partition}`, 2000).length, 60)
  }

  const second = await openManager(folder, 2)
  const again = await openLog(second, 0)
  assert.deepEqual([second.wasClean, again.logEndOffset], [true, 120])
  appendTo(again, ['more'])
  await again.whenDurable(121)
  // The process ends here without closing anything; its lock is stale, since no such process runs.
  const third = await openManager(folder, 3)
  const recovered = await openLog(third, 0)
  assert.deepEqual([third.wasClean, recovered.logEndOffset, recovered.cuts.length], [false, 121, 0])
  assert.equal((await readAll(recovered)).length, 61)
  await third.close()
  await second.get({ topic: 't', partition: 0 })?.discard()
})
