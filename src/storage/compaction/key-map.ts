import { hash } from 'node:crypto'

/** Of an entry: 16 bytes of hash, 8 of offset. */
const KEY_MAP_ENTRY_BYTES = 24
/** Entries beyond this share of the places would make look-ups long. */
const MAX_LOAD = 0.75
/** With so many keys the places are as many as one typed array takes. */
const MAX_PLACES = 2 ** 27
const MIN_PLACES = 4

/**
 * The latest offset of each key, in memory that is fixed from the start: typed arrays, no object for a key. A key is told by the first
 * 128 bits of its SHA-256, so two keys never pass for one: by chance that needs some 10^19 keys in one pass, and nobody knows how to
 * make such a pair on purpose.
 */
export class KeyMap {
  readonly #hashes: Int32Array
  /** −1 = the place is free. */
  readonly #offsets: Float64Array
  readonly #mask: number
  readonly #maxKeys: number
  #size = 0
  /** Of the key that was looked at last. */
  readonly #hash = new Int32Array(4)

  /** For at most `maxKeys` keys and about `budgetBytes` at most; one key fits whatever the budget. */
  constructor(options: { maxKeys: number; budgetBytes: number }) {
    const wanted = powerOfTwoAtLeast(Math.min(options.maxKeys, MAX_PLACES) / MAX_LOAD)
    const affordable = powerOfTwoAtLeast(options.budgetBytes / KEY_MAP_ENTRY_BYTES / 2 + 0.5)
    const places = Math.max(MIN_PLACES, Math.min(wanted, affordable, MAX_PLACES))
    this.#maxKeys = Math.max(1, Math.min(options.maxKeys, Math.floor(places * MAX_LOAD)))
    this.#mask = places - 1
    this.#hashes = new Int32Array(places * 4)
    this.#offsets = new Float64Array(places).fill(-1)
  }

  get size(): number {
    return this.#size
  }

  get maxKeys(): number {
    return this.#maxKeys
  }

  /** Notes a record of this key; offsets come in rising order. False when the key is new and there is no room for it. */
  put(key: Buffer, offset: number): boolean {
    const place = this.#find(key)
    if (this.#offsets[place] === -1) {
      if (this.#size >= this.#maxKeys) return false
      this.#size++
      this.#hashes.set(this.#hash, place * 4)
    }
    this.#offsets[place] = offset
    return true
  }

  /** The latest offset that was noted of this key, −1 when there is none. */
  get(key: Buffer): number {
    return this.#offsets[this.#find(key)] as number
  }

  #find(key: Buffer): number {
    const digest = hash('sha256', key, 'buffer')
    const [a, b, c, d] = [digest.readInt32LE(0), digest.readInt32LE(4), digest.readInt32LE(8), digest.readInt32LE(12)]
    const own = this.#hash
    own[0] = a
    own[1] = b
    own[2] = c
    own[3] = d
    const hashes = this.#hashes
    for (let place = a & this.#mask; ; place = (place + 1) & this.#mask) {
      if (this.#offsets[place] === -1) return place
      const at = place * 4
      if (hashes[at] === a && hashes[at + 1] === b && hashes[at + 2] === c && hashes[at + 3] === d) return place
    }
  }
}

function powerOfTwoAtLeast(number: number): number {
  let power = 1
  while (power < number) power *= 2
  return power
}
