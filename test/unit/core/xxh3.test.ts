import assert from 'node:assert/strict'
import { test } from 'node:test'
import { xxh3 } from '../../../src/core/xxh3.ts'

/** By length: what the library that Kafka uses makes of the bytes 3, 10, 17, ... (each 7 more than the one before). */
const VECTORS: readonly (readonly [number, bigint])[] = [
  [0, 3244421341483603138n],
  [1, 1433843135270481901n],
  [3, -6266602912829716452n],
  [4, 7895465118229274323n],
  [8, 6941064856527638883n],
  [9, -72226354546400344n],
  [16, -5131753158909839995n],
  [17, 8163341949877205007n],
  [33, 4486878507168070088n],
  [64, 2917965298538373825n],
  [100, -5362810412169982817n],
  [128, 7440608504995537343n],
  [129, -4150982730466284604n],
  [160, -2950444285678012285n],
  [240, 7229805477010515663n],
  [241, -8364630114420064745n],
  [512, -756038794506822371n],
  [1024, -7241394453710343503n],
  [1025, -9192937061388044938n],
  [1088, 3424848841118183642n],
  [2000, 8212356305084836938n],
  [5000, 8762507191635236893n],
]

test('XXH3 of every kind of length is what the library makes of it that Kafka uses', () => {
  for (const [length, expected] of VECTORS) {
    const bytes = Buffer.from(Array.from({ length }, (_, at) => (at * 7 + 3) & 0xff))
    assert.equal(BigInt.asIntN(64, xxh3(bytes)), expected, `${length} bytes`)
  }
})
