import assert from 'node:assert/strict'
import { it } from 'node:test'
import { SeededRandom } from '../../../src/core/random.ts'
import { ChunkedBytes } from '../../../src/io/chunked-bytes.ts'

it('equals one plain buffer through random writes, truncations and reads', () => {
  for (let seed = 0; seed < 40; seed++) {
    const random = new SeededRandom(seed)
    const bytes = new ChunkedBytes()
    let model = Buffer.alloc(0)
    const range = seed % 2 === 0 ? 3000 : 400_000
    for (let step = 0; step < 60; step++) {
      const position = random.below(range)
      if (random.below(5) === 0) {
        bytes.truncate(position)
        model = Buffer.concat([model.subarray(0, position), Buffer.alloc(Math.max(0, position - model.length))])
      } else {
        const part = Buffer.alloc(random.below(range / 3), 1 + random.below(255))
        const before = bytes.allocatedBytes
        const growth = bytes.growthOf(position, part.length)
        bytes.write(part, position)
        assert.equal(bytes.allocatedBytes - before, growth, `seed ${seed}`)
        const end = part.length === 0 ? 0 : position + part.length
        const grown = Buffer.alloc(Math.max(model.length, end))
        model.copy(grown)
        part.copy(grown, position)
        model = grown
      }
      assert.equal(bytes.sizeBytes, model.length, `seed ${seed}`)
      const target = Buffer.alloc(random.below(range), 0xee)
      const from = random.below(range)
      const count = bytes.read(target, from)
      assert.ok(target.subarray(0, count).equals(model.subarray(from, from + target.length)), `seed ${seed}`)
    }
    assert.ok(bytes.toBuffer().equals(model), `seed ${seed}`)
    const copy = bytes.clone()
    bytes.truncate(0)
    assert.ok(copy.toBuffer().equals(model), `seed ${seed}`)
  }
})
