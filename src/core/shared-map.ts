/**
 * A map that never changes and shares most of itself with the maps made from it: a large base, and over it a few keys that differ.
 * A change copies the few, not the base. Iterates in the order of a plain Map: a key that is set again keeps its place, one that was
 * taken away and set again goes to the end.
 */
export class SharedMap<K, V> implements ReadonlyMap<K, V> {
  // Not private, so that a deep comparison never takes different maps for equal. Compare with `new Map(each)`.
  readonly base: ReadonlyMap<K, V>
  /** Keys with another value than in the base, and keys that follow the base in this order. */
  readonly changed: ReadonlyMap<K, V>
  /** Keys of the base that are no longer at their place there. */
  readonly hidden: ReadonlySet<K>
  readonly size: number

  constructor(base: ReadonlyMap<K, V>, changed: ReadonlyMap<K, V> = new Map(), hidden: ReadonlySet<K> = new Set()) {
    this.base = base
    this.changed = changed
    this.hidden = hidden
    let added = 0
    for (const key of changed.keys()) if (!base.has(key) || hidden.has(key)) added++
    this.size = base.size - hidden.size + added
  }

  get(key: K): V | undefined {
    if (this.changed.has(key)) return this.changed.get(key)
    return this.hidden.has(key) ? undefined : this.base.get(key)
  }

  has(key: K): boolean {
    return this.changed.has(key) || (this.base.has(key) && !this.hidden.has(key))
  }

  *entries(): Generator<[K, V], undefined, unknown> {
    const { base, changed, hidden } = this
    for (const [key, value] of base) {
      if (!hidden.has(key)) yield [key, changed.has(key) ? (changed.get(key) as V) : value]
    }
    for (const [key, value] of changed) if (!base.has(key) || hidden.has(key)) yield [key, value]
    return undefined
  }

  *keys(): Generator<K, undefined, unknown> {
    for (const [key] of this.entries()) yield key
    return undefined
  }

  *values(): Generator<V, undefined, unknown> {
    for (const [, value] of this.entries()) yield value
    return undefined
  }

  [Symbol.iterator](): Generator<[K, V], undefined, unknown> {
    return this.entries()
  }

  forEach(visit: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    for (const [key, value] of this.entries()) visit(value, key, this)
  }

  edit(): SharedMapDraft<K, V> {
    return new SharedMapDraft(this)
  }
}

/** Keys that may differ from the base before a new base is made: copying them and, now and then, the base stays cheap. */
const MAX_DIFFERENT = 256

/** Changes to a map, to become the next one. */
export class SharedMapDraft<K, V> {
  readonly #base: ReadonlyMap<K, V>
  readonly #changed: Map<K, V>
  readonly #hidden: Set<K>

  constructor(from: SharedMap<K, V>) {
    this.#base = from.base
    this.#changed = new Map(from.changed)
    this.#hidden = new Set(from.hidden)
  }

  get(key: K): V | undefined {
    if (this.#changed.has(key)) return this.#changed.get(key)
    return this.#hidden.has(key) ? undefined : this.#base.get(key)
  }

  has(key: K): boolean {
    return this.#changed.has(key) || (this.#base.has(key) && !this.#hidden.has(key))
  }

  set(key: K, value: V): void {
    this.#changed.set(key, value)
  }

  delete(key: K): void {
    this.#changed.delete(key)
    if (this.#base.has(key)) this.#hidden.add(key)
  }

  build(): SharedMap<K, V> {
    const map = new SharedMap(this.#base, new Map(this.#changed), new Set(this.#hidden))
    return this.#changed.size + this.#hidden.size <= MAX_DIFFERENT ? map : new SharedMap(new Map(map))
  }
}
