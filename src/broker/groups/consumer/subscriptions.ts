import { asMoonMQError } from '../../../core/errors.ts'
import type { Uuid } from '../../../core/uuid.ts'
import type { MetadataImage, TopicImage } from '../../../metadata/types.ts'
import { type MetadataHash, metadataHash } from '../metadata-hash.ts'
import type { ConsumerMember } from './consumer-member.ts'
import { TopicPattern, type TopicPatterns } from './patterns.ts'

type Topics = ReadonlyMap<string, TopicImage>

/** A regular expression that members subscribe to, and what it stands for at the moment. */
interface Expression {
  /** Null until the first look after a restart. */
  pattern: TopicPattern | null
  topics: readonly string[]
  /** The metadata offset at which it was resolved. */
  version: number
}

/** What the members of a group subscribe to, as topics that exist. */
export class Subscriptions {
  readonly #patterns: TopicPatterns
  readonly #image: () => MetadataImage
  readonly #expressions = new Map<string, Expression>()
  /** Expressions whose record has to be written anew, or taken away. */
  readonly changed = new Set<string>()
  #seen: Topics | null = null

  constructor(deps: { patterns: TopicPatterns; image: () => MetadataImage }) {
    this.#patterns = deps.patterns
    this.#image = deps.image
  }

  expression(text: string): Expression | undefined {
    return this.#expressions.get(text)
  }

  restore(text: string, topics: readonly string[], version: number): void {
    this.#expressions.set(text, { pattern: null, topics, version })
  }

  /** Throws INVALID_REGULAR_EXPRESSION, and changes nothing then. */
  check(text: string): void {
    if (text !== '' && !this.#expressions.has(text)) this.#patterns.compile(text)
  }

  /** A member asks for this expression from now on. */
  enter(text: string): void {
    if (text === '' || this.#expressions.has(text)) return
    const { topics, nextOffset } = this.#image()
    const pattern = this.#patterns.compile(text)
    this.#expressions.set(text, { pattern, topics: pattern.topics(topics), version: nextOffset })
    this.changed.add(text)
  }

  /** Drops the expressions that nobody asks for any more. */
  prune(members: Iterable<ConsumerMember>): void {
    if (this.#expressions.size === 0) return
    const used = new Set<string>()
    for (const { subscribedRegex } of members) used.add(subscribedRegex)
    for (const text of [...this.#expressions.keys()]) {
      if (used.has(text)) continue
      this.#expressions.delete(text)
      this.changed.add(text)
    }
  }

  /** There may be topics that were not there at the last look. */
  get isStale(): boolean {
    return this.#image().topics !== this.#seen
  }

  /** Resolves every expression anew. True: one of them stands for other topics now. */
  refresh(): boolean {
    const { topics, nextOffset } = this.#image()
    this.#seen = topics
    let anyChanged = false
    for (const [text, expression] of this.#expressions) {
      expression.pattern ??= this.#restored(text, expression.topics)
      const now = expression.pattern.topics(topics)
      if (sameNames(now, expression.topics)) continue
      expression.topics = now
      expression.version = nextOffset
      this.changed.add(text)
      anyChanged = true
    }
    return anyChanged
  }

  /** One that was stored was valid to whoever stored it: where it is not here, it stands for what it stood for. */
  #restored(text: string, topics: readonly string[]): TopicPattern {
    try {
      return this.#patterns.compile(text)
    } catch (error) {
      if (asMoonMQError(error).code !== 'INVALID_REGULAR_EXPRESSION') throw error
      const known = new Set(topics)
      return new TopicPattern((name) => known.has(name))
    }
  }

  /** Names that a member asks for, whether they exist or not. */
  names(member: ConsumerMember): ReadonlySet<string> {
    const names = new Set(member.subscribedTopics)
    for (const name of this.#expressions.get(member.subscribedRegex)?.topics ?? []) names.add(name)
    return names
  }

  allNames(members: Iterable<ConsumerMember>): Set<string> {
    const names = new Set<string>()
    for (const member of members) {
      for (const name of member.subscribedTopics) names.add(name)
      for (const name of this.#expressions.get(member.subscribedRegex)?.topics ?? []) names.add(name)
    }
    return names
  }

  hash(members: Iterable<ConsumerMember>): MetadataHash {
    return metadataHash(this.allNames(members), this.#image().topics)
  }

  /** Topics of a member that exist, by id, and how many partitions each has. Members that ask for the same share one set. */
  resolved(members: Iterable<ConsumerMember>): { topicsOf: (member: ConsumerMember) => ReadonlySet<Uuid>; partitions: Map<Uuid, number> } {
    const { topics } = this.#image()
    const partitions = new Map<Uuid, number>()
    const byKey = new Map<string, ReadonlySet<Uuid>>()
    const keyOf = (member: ConsumerMember) => `${member.subscribedTopics.join(',')}/${member.subscribedRegex}`
    for (const member of members) {
      const key = keyOf(member)
      if (byKey.has(key)) continue
      const ids = new Set<Uuid>()
      for (const name of this.names(member)) {
        const topic = topics.get(name)
        if (topic === undefined) continue
        ids.add(topic.id)
        partitions.set(topic.id, topic.partitions.length)
      }
      byKey.set(key, ids)
    }
    return { topicsOf: (member) => byKey.get(keyOf(member)) ?? new Set(), partitions }
  }
}

function sameNames(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((name, at) => name === right[at])
}
