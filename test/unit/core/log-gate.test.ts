import assert from 'node:assert/strict'
import { it } from 'node:test'
import { LogGate } from '../../../src/core/log-gate.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'

it('a log gate lets so many lines a second through and tells what it held back', async () => {
  const clock = new VirtualClock()
  const gate = new LogGate(clock, 2)
  assert.deepEqual([gate.pass(), gate.pass(), gate.pass(), gate.pass()], ['', '', null, null])
  await clock.advance(999)
  assert.equal(gate.pass(), null)
  await clock.advance(1)
  assert.equal(gate.pass(), ' (3 similar lines were left out before this one)')
  assert.deepEqual([gate.pass(), gate.pass()], ['', null])
})
