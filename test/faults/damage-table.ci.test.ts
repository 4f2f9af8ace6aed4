import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAULTS, type FaultName, type FileKind, type Outcome, runCell } from '../support/damage-cell.ts'
import type { Ending } from '../support/damage-world.ts'

/** Every kind of file of a data folder × every fault × every way that the broker ended: what was acknowledged is there, or is missed aloud. */
const inFolder = (folder: string, suffix: string) => (paths: readonly string[]) =>
  paths.filter((path) => path.startsWith(`${folder}/`) && path.endsWith(suffix))

function ofPartition(name: string, partition: string, suffix: string, at: number): FileKind {
  return {
    name,
    partition,
    find: (paths) => inFolder(partition, suffix)(paths).at(at),
    other: (paths) => inFolder('many-0', suffix)(paths).at(at < 0 ? -1 : 0),
  }
}

const ofTxn = (at: number) => (paths: readonly string[]) => inFolder('txn-0', '.txnindex')(paths).at(at)

const ofRoot = (name: string, other?: string): FileKind => ({
  name,
  partition: null,
  find: (paths) => paths.find((path) => path === name),
  ...(other === undefined ? {} : { other: (paths: readonly string[]) => paths.find((path) => path === other) }),
})

const KINDS: readonly FileKind[] = [
  ofPartition('log, closed', 'txn-0', '.log', 1),
  ofPartition('log, active', 'txn-0', '.log', -1),
  ofPartition('offset index, closed', 'txn-0', '.index', 1),
  ofPartition('offset index, active', 'txn-0', '.index', -1),
  ofPartition('time index, closed', 'txn-0', '.timeindex', 1),
  ofPartition('time index, active', 'txn-0', '.timeindex', -1),
  { ...ofPartition('transaction index', 'txn-0', '.txnindex', 0), other: ofTxn(1) },
  { ...ofPartition('transaction index, last', 'txn-0', '.txnindex', -1), other: ofTxn(0) },
  ofPartition('producer snapshot', 'txn-0', '.snapshot', -1),
  ofPartition('leader epochs', 'txn-0', 'leader-epoch-checkpoint', 0),
  ofPartition('partition.metadata', 'txn-0', 'partition.metadata', 0),
  ofPartition('compaction note', 'keys-0', 'moonmq-compaction', 0),
  ofRoot('moonmq-recovery-points', 'moonmq-log-starts'),
  ofRoot('moonmq-log-starts', 'moonmq-recovery-points'),
  ofRoot('moonmq-clean-shutdown', 'moonmq-log-starts'),
  ofRoot('moonmq-clean-logs', 'moonmq-log-starts'),
  ofRoot('moonmq-retention-clock', 'moonmq-log-starts'),
  ofRoot('moonmq-journal', 'moonmq-log-starts'),
  ofRoot('moonmq-journal-note', 'moonmq-log-starts'),
  ofPartition('metadata log', '__cluster_metadata-0', '.log', -1),
  ofRoot('meta.properties'),
  ofRoot('moonmq.lock'),
].map((kind) => (kind.partition === '__cluster_metadata-0' ? { ...kind, partition: null } : kind))

/** What nothing on disk could tell, or nothing tells yet; each is in docs/TESTING.md. All other cells must be better than these. */
const KNOWN: readonly { readonly kind: string; readonly faults: readonly FaultName[]; readonly endings: readonly Ending[] }[] = [
  // Nothing of a segment that was begun since the last checkpoint is anywhere else.
  { kind: 'log, active', faults: ['missing', 'empty'], endings: ['kill', 'power'] },
]

const BAD: ReadonlySet<Outcome> = new Set(['SILENT LOSS', 'ABORTED SHOWN'])

function isKnown(kind: string, fault: FaultName, ending: Ending): boolean {
  return KNOWN.some((known) => known.kind === kind && known.faults.includes(fault) && known.endings.includes(ending))
}

for (const kind of KINDS) {
  test(`${kind.name}: every fault after every ending`, async (t) => {
    let cells = 0
    for (const fault of FAULTS) {
      const outcomes: string[] = []
      for (const ending of ['stop', 'kill', 'power'] as const) {
        const outcome = await runCell(kind, fault, ending).catch((error: unknown) => {
          throw new Error(`${kind.name}, ${fault}, after ${ending}: ${error}`, { cause: error })
        })
        outcomes.push(outcome ?? '–')
        if (outcome === null) continue
        cells++
        const isAccepted = !BAD.has(outcome) || isKnown(kind.name, fault, ending)
        assert.ok(isAccepted, `${kind.name}, ${fault}, after ${ending}: ${outcome}`)
      }
      t.diagnostic(`${fault}: ${outcomes.join(', ')}`)
    }
    assert.ok(cells > 0, 'the world has such a file')
  })
}
