import type { Loader } from '../../../core/loader.ts'
import type { TopicImage } from '../../../metadata/types.ts'
import { Patterns } from '../../patterns.ts'

/** The topics whose whole name a pattern matches, internal ones included as in Kafka. */
export class TopicPattern {
  readonly #matches: (name: string) => boolean
  #seen: ReadonlyMap<string, TopicImage> | null = null
  #answers = new Map<string, boolean>()
  #topics: readonly string[] = []

  constructor(matches: (name: string) => boolean) {
    this.#matches = matches
  }

  /** Sorted. A name is matched once, however often the topics change. */
  topics(all: ReadonlyMap<string, TopicImage>): readonly string[] {
    if (all === this.#seen) return this.#topics
    const answers = new Map<string, boolean>()
    const topics: string[] = []
    for (const name of all.keys()) {
      const isMatch = this.#answers.get(name) ?? this.#matches(name)
      answers.set(name, isMatch)
      if (isMatch) topics.push(name)
    }
    this.#seen = all
    this.#answers = answers
    this.#topics = topics.sort()
    return this.#topics
  }
}

/** Compiles the regular expressions of subscriptions. */
export class TopicPatterns {
  readonly #patterns: Patterns

  constructor(deps: { loader: Loader }) {
    this.#patterns = new Patterns(deps)
  }

  /** Undefined when `compile` can be called; else resolves when it can. */
  ready(): Promise<void> | undefined {
    return this.#patterns.ready()
  }

  /** Throws INVALID_REGULAR_EXPRESSION. */
  compile(pattern: string): TopicPattern {
    return new TopicPattern(this.#patterns.compile(pattern))
  }
}
