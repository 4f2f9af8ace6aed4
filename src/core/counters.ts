/** Counts up; `labels` were bound when the counter was made, so the hot path is an addition. */
export interface Counter {
  add(amount?: number): void
}

export interface Gauge {
  set(value: number): void
  add(amount: number): void
}

export interface Histogram {
  /** A duration in seconds, or another quantity in the unit of the metric's name. */
  observe(value: number): void
}

export type Labels = Readonly<Record<string, string>>

/** Where rooms get their instruments from, by the names of the catalogue in `obs`. The same name and labels give the same one. */
export interface Metrics {
  counter(name: string, labels?: Labels): Counter
  gauge(name: string, labels?: Labels): Gauge
  histogram(name: string, labels?: Labels): Histogram
  /** A gauge whose value is asked for at each scrape. Returns how to take it away. */
  observed(name: string, read: () => number, labels?: Labels): () => void
  /** Takes away every series whose labels include these, when a topic goes for example. */
  forget(labels: Labels): void
}

const NOTHING = { add() {}, set() {}, observe() {} }

/** Counts nothing. */
export const NO_METRICS: Metrics = {
  counter: () => NOTHING,
  gauge: () => NOTHING,
  histogram: () => NOTHING,
  observed: () => () => {},
  forget() {},
}
