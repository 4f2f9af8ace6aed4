import { assert } from '../core/assert.ts'
import type { Counter, Gauge, Histogram, Labels, Metrics } from '../core/counters.ts'
import { METRICS, type MetricRow } from './catalogue.ts'

/** Series of one metric above which new label values are counted together and shown no more. */
const MAX_SERIES = 10_000

const DROPPED = 'moonmq_metric_series_dropped_total'

class NumberSeries implements Counter, Gauge {
  value = 0

  add(amount = 1): void {
    this.value += amount
  }

  set(value: number): void {
    this.value = value
  }
}

class HistogramSeries implements Histogram {
  readonly bounds: readonly number[]
  /** One a bound, and one for what is above all of them. Not cumulated. */
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    let index = 0
    while (index < this.bounds.length && value > (this.bounds[index] ?? 0)) index++
    this.counts[index] = (this.counts[index] ?? 0) + 1
    this.sum += value
  }
}

class ObservedSeries {
  read: () => number

  constructor(read: () => number) {
    this.read = read
  }
}

type Series = NumberSeries | HistogramSeries | ObservedSeries

interface Family {
  readonly row: MetricRow
  readonly series: Map<string, { readonly labels: Labels; readonly series: Series }>
  /** Counts for all label values beyond the bound; never shown. */
  readonly overflow: Series
}

/** A value as Prometheus shows it. `suffix` is `_bucket`, `_sum`, `_count` or ''. */
export interface Sample {
  readonly suffix: string
  readonly labels: Labels
  readonly value: number
}

/**
 * Instruments by the names of the catalogue. Counting is an addition to a plain number; nothing else is loaded or computed until
 * somebody asks for the samples.
 */
export class MetricsRegistry implements Metrics {
  readonly #families = new Map<string, Family>()

  constructor(rows: readonly MetricRow[] = METRICS) {
    for (const row of rows) this.#families.set(row.name, { row, series: new Map(), overflow: newSeries(row) })
  }

  counter(name: string, labels: Labels = {}): Counter {
    const series = this.#series(name, 'counter', labels)
    assert(series instanceof NumberSeries, `${name} counts`)
    return series
  }

  gauge(name: string, labels: Labels = {}): Gauge {
    const series = this.#series(name, 'gauge', labels)
    assert(series instanceof NumberSeries, `${name} with these labels is set, not observed`)
    return series
  }

  histogram(name: string, labels: Labels = {}): Histogram {
    const series = this.#series(name, 'histogram', labels)
    assert(series instanceof HistogramSeries, `${name} is a histogram`)
    return series
  }

  observed(name: string, read: () => number, labels: Labels = {}): () => void {
    const family = this.#family(name, 'gauge')
    const key = keyOf(family.row, labels)
    if (!family.series.has(key) && family.series.size >= MAX_SERIES) {
      this.#noteDropped()
      return () => {}
    }
    const series = new ObservedSeries(read)
    family.series.set(key, { labels, series })
    return () => {
      // A later one of the same labels has taken the place.
      if (family.series.get(key)?.series === series) family.series.delete(key)
    }
  }

  forget(labels: Labels): void {
    const wanted = Object.entries(labels)
    for (const family of this.#families.values()) {
      for (const [key, entry] of family.series) {
        if (wanted.every(([name, value]) => entry.labels[name] === value)) family.series.delete(key)
      }
    }
  }

  /** In the order of the catalogue. */
  rows(): MetricRow[] {
    return [...this.#families.values()].map((family) => family.row)
  }

  /** What a metric shows now. */
  samples(name: string): readonly Sample[] {
    const family = this.#families.get(name)
    assert(family !== undefined, `the metric ${name} is in the catalogue`)
    const samples: Sample[] = []
    for (const entry of family.series.values()) samples.push(...samplesOf(entry.labels, entry.series))
    return samples
  }

  #series(name: string, type: MetricRow['type'], labels: Labels): Series {
    const family = this.#family(name, type)
    const key = keyOf(family.row, labels)
    const known = family.series.get(key)
    if (known) return known.series
    if (family.series.size >= MAX_SERIES) {
      this.#noteDropped()
      return family.overflow
    }
    const series = newSeries(family.row)
    family.series.set(key, { labels, series })
    return series
  }

  #family(name: string, type: MetricRow['type']): Family {
    const family = this.#families.get(name)
    assert(family !== undefined, `the metric ${name} is in the catalogue`)
    assert(family.row.type === type, `the metric ${name} is a ${family.row.type}, not a ${type}`)
    return family
  }

  #noteDropped(): void {
    if (this.#families.has(DROPPED)) this.counter(DROPPED).add()
  }
}

function newSeries(row: MetricRow): Series {
  return row.type === 'histogram' ? new HistogramSeries(row.buckets ?? []) : new NumberSeries()
}

function keyOf(row: MetricRow, labels: Labels): string {
  let key = ''
  for (const name of row.labels) {
    const value = labels[name]
    assert(value !== undefined, `the metric ${row.name} is given its label ${name}`)
    key += `${value}\u0000`
  }
  assert(Object.keys(labels).length === row.labels.length, `the metric ${row.name} has the labels ${row.labels.join(', ')} only`)
  return key
}

function samplesOf(labels: Labels, series: Series): Sample[] {
  if (series instanceof NumberSeries) return [{ suffix: '', labels, value: series.value }]
  if (series instanceof ObservedSeries) return [{ suffix: '', labels, value: series.read() }]
  const samples: Sample[] = []
  let below = 0
  series.counts.forEach((count, index) => {
    below += count
    const bound = series.bounds[index]
    samples.push({ suffix: '_bucket', labels: { ...labels, le: bound === undefined ? '+Inf' : String(bound) }, value: below })
  })
  samples.push({ suffix: '_sum', labels, value: series.sum }, { suffix: '_count', labels, value: below })
  return samples
}
