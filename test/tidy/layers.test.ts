import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LAYERS } from './layers.ts'
import { factsFrom, projectFacts, sourceFolders } from './parse.ts'
import { coreFindings, cycleFindings, type Finding, layerFindings, show } from './rules.ts'

function none(findings: readonly Finding[]): void {
  assert.equal(findings.length, 0, `\n${show(findings)}`)
}

test('imports keep to the table of layers', () => {
  none(layerFindings(projectFacts(), LAYERS))
})

test('every folder of src has a row', () => {
  const rows = LAYERS.map((layer) => layer.folder)
  for (const folder of sourceFolders()) assert.ok(rows.includes(folder), `src/${folder} has no row in test/tidy/layers.ts`)
})

test('the table itself has no upward arrow: a folder may import earlier rows only', () => {
  const order = LAYERS.map((layer) => layer.folder)
  for (const layer of LAYERS) {
    for (const below of layer.may) assert.ok(order.indexOf(below) < order.indexOf(layer.folder), `${layer.folder} -> ${below}`)
  }
})

test('core uses nothing of Node but buffers, crypto and util', () => {
  none(coreFindings(projectFacts()))
})

test('no file takes part in an import cycle', () => {
  none(cycleFindings(projectFacts()))
})

test('planted: a door that reaches storage, by value and by type, is caught', () => {
  const facts = factsFrom({
    'src/kafka/connection.ts': `import { PartitionLog } from '../storage/partition-log.ts'\nexport const log = PartitionLog\n`,
    'src/native/session.ts': `export type Log = import('../storage/partition-log.ts').PartitionLog\n`,
    'src/storage/partition-log.ts': 'export class PartitionLog {}\n',
  })
  const found = layerFindings(facts, LAYERS).map((finding) => `${finding.path}:${finding.line}`)
  assert.deepEqual(found.sort(), ['src/kafka/connection.ts:1', 'src/native/session.ts:1'])
})

test('planted: a private module, an unknown folder and an import out of src are caught', () => {
  const facts = factsFrom({
    'src/broker/broker.ts': `import '../storage/inner.ts'\nimport '../storage/open.ts'\nimport '../../test/support/fake.ts'\n`,
    'src/storage/inner.ts': '',
    'src/storage/open.ts': '',
    'src/magic/wand.ts': '',
    'test/support/fake.ts': '',
  })
  const layers = LAYERS.map((layer) => (layer.folder === 'storage' ? { ...layer, entries: ['open'] } : layer))
  const text = show(layerFindings(facts, layers))
  assert.match(text, /storage\/inner\.ts is private to storage/)
  assert.match(text, /magic has no row/)
  assert.match(text, /must not import test\/support\/fake\.ts/)
  assert.equal(layerFindings(facts, layers).length, 3)
})

test('planted: a cycle through a type import is caught', () => {
  const facts = factsFrom({
    'src/core/a.ts': `import type { B } from './b.ts'\nexport interface A { b: B }\n`,
    'src/core/b.ts': `import { c } from './c.ts'\nexport interface B { c: typeof c }\n`,
    'src/core/c.ts': `export type { A } from './a.ts'\nexport const c = 1\n`,
  })
  const findings = cycleFindings(facts)
  assert.equal(findings.length, 1)
  assert.match(show(findings), /import cycle/)
})

test('planted: core that opens a file is caught, its timer only outside of the clock', () => {
  const facts = factsFrom({
    'src/core/clock.ts': `import { setTimeout } from 'node:timers'\nexport { setTimeout }\n`,
    'src/core/queue.ts': `import { setTimeout } from 'node:timers'\nimport 'node:fs'\nexport { setTimeout }\n`,
  })
  assert.deepEqual(
    coreFindings(facts).map((finding) => finding.path),
    ['src/core/queue.ts', 'src/core/queue.ts'],
  )
})
