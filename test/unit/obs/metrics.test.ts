import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Loader } from '../../../src/core/loader.ts'
import { METRICS, type MetricRow } from '../../../src/obs/catalogue.ts'
import { MetricsRegistry } from '../../../src/obs/metrics.ts'
import { Scrape } from '../../../src/obs/scrape.ts'

const ROWS: readonly MetricRow[] = [
  { name: 'moonmq_a_total', type: 'counter', labels: ['topic'], help: 'A' },
  { name: 'moonmq_b', type: 'gauge', labels: [], help: 'B' },
  { name: 'moonmq_c_seconds', type: 'histogram', labels: [], help: 'C', buckets: [0.1, 1] },
  { name: 'moonmq_metric_series_dropped_total', type: 'counter', labels: [], help: 'D' },
]

/** Loads what it is asked for, and tells how often. */
function countingLoader() {
  const loaded: string[] = []
  const loader: Loader = {
    load: async (name) => {
      loaded.push(name)
      return import(name)
    },
  }
  return { loader, loaded }
}

function samples(registry: MetricsRegistry, name: string): unknown[] {
  return registry.samples(name).map((sample) => [sample.suffix, sample.labels, sample.value])
}

test('the same name and labels give the same instrument', () => {
  const registry = new MetricsRegistry(ROWS)
  registry.counter('moonmq_a_total', { topic: 'x' }).add()
  registry.counter('moonmq_a_total', { topic: 'x' }).add(4)
  registry.counter('moonmq_a_total', { topic: 'y' }).add(2)
  assert.deepEqual(samples(registry, 'moonmq_a_total'), [
    ['', { topic: 'x' }, 5],
    ['', { topic: 'y' }, 2],
  ])
})

test('a name, a type or labels that the catalogue does not have are a fault of the code', () => {
  const registry = new MetricsRegistry(ROWS)
  assert.throws(() => registry.counter('moonmq_other'), /in the catalogue/)
  assert.throws(() => registry.gauge('moonmq_a_total', { topic: 'x' }), /is a counter/)
  assert.throws(() => registry.counter('moonmq_a_total'), /its label topic/)
  assert.throws(() => registry.gauge('moonmq_b', { topic: 'x' }), /labels/)
})

test('an observation falls into the first bound that holds it', () => {
  const registry = new MetricsRegistry(ROWS)
  const seconds = registry.histogram('moonmq_c_seconds')
  for (const value of [0.1, 0.5, 7]) seconds.observe(value)
  assert.deepEqual(samples(registry, 'moonmq_c_seconds'), [
    ['_bucket', { le: '0.1' }, 1],
    ['_bucket', { le: '1' }, 2],
    ['_bucket', { le: '+Inf' }, 3],
    ['_sum', {}, 7.6],
    ['_count', {}, 3],
  ])
})

test('an observed gauge is asked at each look, and can be taken away', () => {
  const registry = new MetricsRegistry(ROWS)
  let value = 1
  const first = registry.observed('moonmq_b', () => value)
  value = 5
  assert.deepEqual(samples(registry, 'moonmq_b'), [['', {}, 5]])
  const second = registry.observed('moonmq_b', () => 9)
  first()
  assert.deepEqual(samples(registry, 'moonmq_b'), [['', {}, 9]])
  second()
  assert.deepEqual(samples(registry, 'moonmq_b'), [])
})

test('what belongs to a topic goes with it', () => {
  const registry = new MetricsRegistry(ROWS)
  registry.counter('moonmq_a_total', { topic: 'x' }).add()
  registry.counter('moonmq_a_total', { topic: 'y' }).add()
  registry.forget({ topic: 'x' })
  assert.deepEqual(samples(registry, 'moonmq_a_total'), [['', { topic: 'y' }, 1]])
})

test('too many label values are counted as dropped and take no more memory', () => {
  const registry = new MetricsRegistry(ROWS)
  for (let i = 0; i < 10_010; i++) registry.counter('moonmq_a_total', { topic: String(i) }).add()
  assert.equal(samples(registry, 'moonmq_a_total').length, 10_000)
  assert.deepEqual(samples(registry, 'moonmq_metric_series_dropped_total'), [['', {}, 10]])
})

test('the text of a scrape, with labels escaped; the library is loaded once, at the first one', async () => {
  const registry = new MetricsRegistry(ROWS)
  const { loader, loaded } = countingLoader()
  const scrape = new Scrape({ loader, registry }, { processMetrics: false })
  registry.counter('moonmq_a_total', { topic: 'x"\n' }).add(3)
  registry.gauge('moonmq_b').set(0.5)
  assert.deepEqual(loaded, [])
  const text = await scrape.text()
  assert.match(text, /# TYPE moonmq_a_total counter\nmoonmq_a_total\{topic="x\\"\\n"\} 3\n/)
  assert.match(text, /# HELP moonmq_b B\n# TYPE moonmq_b gauge\nmoonmq_b 0\.5\n/)
  registry.histogram('moonmq_c_seconds').observe(0.5)
  assert.match(
    await scrape.text(),
    /moonmq_c_seconds_bucket\{le="1"\} 1\nmoonmq_c_seconds_bucket\{le="\+Inf"\} 1\nmoonmq_c_seconds_sum 0\.5\n/,
  )
  assert.deepEqual(loaded, ['prom-client'])
})

test('a failed load fails that scrape and is tried again', async () => {
  let tries = 0
  const loader: Loader = {
    load: async (name) => {
      if (++tries === 1) throw new Error('cannot read')
      return import(name)
    },
  }
  const scrape = new Scrape({ loader, registry: new MetricsRegistry(ROWS) }, { processMetrics: false })
  await assert.rejects(scrape.text(), /cannot read/)
  assert.match(await scrape.text(), /moonmq_b/)
})

test('the catalogue: names of one form, once each, counters end in _total, bounds rise, no label by connection', () => {
  const names = METRICS.map((row) => row.name)
  assert.equal(new Set(names).size, names.length)
  for (const row of METRICS) {
    assert.match(row.name, /^moonmq_[a-z_]+$/)
    assert.equal(row.type === 'counter', row.name.endsWith('_total'), row.name)
    assert.ok(!row.labels.some((label) => /conn|client|address/.test(label)), row.name)
    if (row.type !== 'histogram') continue
    assert.deepEqual(
      row.buckets,
      [...(row.buckets ?? [])].sort((a, b) => a - b),
    )
  }
})
