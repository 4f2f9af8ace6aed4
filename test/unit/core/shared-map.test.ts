import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SharedMap } from '../../../src/core/shared-map.ts'

test('a shared map behaves as a plain one through any history, order included, and older versions stay as they were', () => {
  const step = fc.record({ key: fc.nat(30), value: fc.nat(5), kind: fc.constantFrom('set', 'set', 'delete', 'build') })
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(40), fc.nat(5)), { maxLength: 30 }), fc.array(step, { maxLength: 120 }), (start, steps) => {
      const plain = new Map(start)
      let shared = new SharedMap(new Map(start))
      let draft = shared.edit()
      const versions: [SharedMap<number, number>, [number, number][]][] = []
      for (const { key, value, kind } of [...steps, { key: 0, value: 0, kind: 'build' }]) {
        if (kind === 'set') {
          plain.set(key, value)
          draft.set(key, value)
        } else if (kind === 'delete') {
          plain.delete(key)
          draft.delete(key)
        } else {
          shared = draft.build()
          draft = shared.edit()
          versions.push([shared, [...plain]])
        }
        assert.equal(draft.get(key), plain.get(key))
        assert.equal(draft.has(key), plain.has(key))
      }
      for (const [version, entries] of versions) {
        assert.deepEqual([...version], entries)
        assert.equal(version.size, entries.length)
        for (const [key, value] of entries) assert.equal(version.get(key), value)
        assert.deepEqual(
          [...version.keys()],
          entries.map(([key]) => key),
        )
        assert.deepEqual(
          [...version.values()],
          entries.map(([, value]) => value),
        )
      }
    }),
  )
})

test('a change copies the few keys that differ, and the base only now and then', () => {
  let map = new SharedMap(new Map(Array.from({ length: 5000 }, (_, key) => [key, 0])))
  const bases = new Set([map.base])
  for (let key = 0; key < 1000; key++) {
    const draft = map.edit()
    draft.set(key, 1)
    map = draft.build()
    bases.add(map.base)
    assert.ok(map.changed.size <= 256)
  }
  assert.equal(bases.size, 1 + Math.floor(1000 / 257))
  assert.equal([...map.values()].filter((value) => value === 1).length, 1000)
})
