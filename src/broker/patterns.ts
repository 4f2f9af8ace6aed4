import { MoonMQError } from '../core/errors.ts'
import type { Loader } from '../core/loader.ts'

/** What is used of the package: RE2's syntax, matched in time linear in the text. */
interface Re2 {
  readonly RE2JS: { compile(pattern: string): { matches(text: string): boolean } }
}

const PACKAGE = 're2js'
/** Longer patterns are refused before they are looked at. */
const MAX_PATTERN_CHARS = 4096

/** Compiles the regular expressions that clients send. The engine is loaded when the first one comes. */
export class Patterns {
  readonly #loader: Loader
  #engine: Re2 | null = null
  #loading: Promise<void> | null = null

  constructor(deps: { loader: Loader }) {
    this.#loader = deps.loader
  }

  /** Undefined when `compile` can be called; else resolves when it can. */
  ready(): Promise<void> | undefined {
    if (this.#engine !== null) return undefined
    this.#loading ??= this.#load().finally(() => {
      this.#loading = null
    })
    return this.#loading
  }

  async #load(): Promise<void> {
    this.#engine = (await this.#loader.load(PACKAGE)) as Re2
  }

  /** Whether a whole text matches. Throws INVALID_REGULAR_EXPRESSION. */
  compile(pattern: string): (text: string) => boolean {
    if (this.#engine === null) throw new MoonMQError('INTERNAL', { reason: 'a pattern is compiled before its engine is loaded' })
    if (pattern.length > MAX_PATTERN_CHARS) {
      throw new MoonMQError('INVALID_REGULAR_EXPRESSION', {
        pattern: `${pattern.slice(0, 40)}…`,
        reason: `it is longer than ${MAX_PATTERN_CHARS}`,
      })
    }
    try {
      const compiled = this.#engine.RE2JS.compile(pattern)
      return (text) => compiled.matches(text)
    } catch (error) {
      throw new MoonMQError('INVALID_REGULAR_EXPRESSION', { pattern, reason: error instanceof Error ? error.message : String(error) })
    }
  }
}
