import { assert } from '../core/assert.ts'
import type { Loader } from '../core/loader.ts'
import type { MetricsRegistry, Sample } from './metrics.ts'

/** What this file uses of the package prom-client. */
interface PromClient {
  readonly Registry: new () => PromRegistry
  collectDefaultMetrics(options: { register: PromRegistry }): void
}

interface PromRegistry {
  registerMetric(metric: PromMetric): void
  metrics(): Promise<string>
}

interface PromMetric {
  readonly name: string
  readonly help: string
  readonly type: string
  get(): Promise<object>
}

export interface ScrapeOptions {
  /** Whether memory, processor time and descriptors of the process are shown too (`process_*`, `nodejs_*`). */
  readonly processMetrics: boolean
}

/**
 * Renders the registry for Prometheus, text format version 0.0.4. prom-client takes a tenth of a second to load, so it is loaded at the first scrape, through the
 * injected loader.
 */
export class Scrape {
  readonly #loader: Loader
  readonly #registry: MetricsRegistry
  readonly #options: ScrapeOptions
  #rendering: Promise<PromRegistry> | undefined

  constructor(deps: { loader: Loader; registry: MetricsRegistry }, options: ScrapeOptions) {
    this.#loader = deps.loader
    this.#registry = deps.registry
    this.#options = options
  }

  async text(): Promise<string> {
    this.#rendering ??= this.#prepare()
    try {
      const registry = await this.#rendering
      return await registry.metrics()
    } catch (error) {
      // A load that failed once must not fail every later scrape.
      this.#rendering = undefined
      throw error
    }
  }

  async #prepare(): Promise<PromRegistry> {
    const client = promClient(await this.#loader.load('prom-client'))
    const rendering = new client.Registry()
    if (this.#options.processMetrics) client.collectDefaultMetrics({ register: rendering })
    for (const { name, help, type } of this.#registry.rows()) {
      rendering.registerMetric({ name, help, type, get: async () => ({ name, help, type, values: this.#values(name) }) })
    }
    return rendering
  }

  #values(name: string): object[] {
    return this.#registry.samples(name).map((sample) => promValue(name, sample))
  }
}

function promValue(name: string, { suffix, labels, value }: Sample): object {
  return { metricName: `${name}${suffix}`, labels, value }
}

/** A CommonJS package loaded by import() has its exports under `default`. */
function promClient(loaded: unknown): PromClient {
  const module = loaded as { default?: unknown }
  const client = (module.default ?? module) as Partial<PromClient>
  assert(client.Registry !== undefined && client.collectDefaultMetrics !== undefined, 'prom-client has a Registry')
  return client as PromClient
}
