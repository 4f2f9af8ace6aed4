import type { Loader } from '../core/loader.ts'
import { AT_ONCE, type Completions } from './completions.ts'
import { systemError } from './system-error.ts'

/** Loads from `node_modules`. The only place that imports a module by a name not written at the top of a file. */
export class NodeLoader implements Loader {
  /** A failed load is tried again: the runtime itself remembers those that succeeded. */
  load(name: string): Promise<unknown> {
    return import(name)
  }
}

/** Gives modules that were loaded before, when the completions say so. A name not in the table counts as not installed. */
export class PreloadedLoader implements Loader {
  readonly #modules: Readonly<Record<string, unknown>>
  readonly #completions: Completions

  constructor(deps: { completions?: Completions }, modules: Readonly<Record<string, unknown>>) {
    this.#modules = modules
    this.#completions = deps.completions ?? AT_ONCE
  }

  async load(name: string): Promise<unknown> {
    await this.#completions.arrive(`load ${name}`)
    if (!Object.hasOwn(this.#modules, name)) throw systemError('ERR_MODULE_NOT_FOUND', 'import', name, 'the package is not installed')
    return this.#modules[name]
  }
}
