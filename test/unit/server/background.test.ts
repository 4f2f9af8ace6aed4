import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deferred } from '../../../src/core/deferred.ts'
import { VirtualClock } from '../../../src/core/virtual-clock.ts'
import { MetricsRegistry } from '../../../src/obs/metrics.ts'
import { Background } from '../../../src/server/background.ts'
import { type RecordedLine, recordingLogger } from '../../support/storage.ts'

function harness() {
  const clock = new VirtualClock()
  const metrics = new MetricsRegistry()
  const lines: RecordedLine[] = []
  return { clock, metrics, lines, background: new Background({ clock, metrics, log: recordingLogger(lines) }) }
}

test('passes come one after another, with the interval that is in force between them', async () => {
  const { clock, background } = harness()
  const atMs: number[] = []
  let intervalMs = 100
  background.start({ name: 'x', intervalMs: () => intervalMs, firstMs: 5, pass: async () => void atMs.push(clock.monotonicMs()) })
  await clock.advance(110)
  intervalMs = 1000
  await clock.advance(1500)
  assert.deepEqual(atMs, [5, 105, 205, 1205])
  await background.close()
})

test('a pass that is wanted soon runs at once, or right after the one that runs', async () => {
  const { clock, background } = harness()
  const gate = deferred<void>()
  let passes = 0
  const loop = background.start({
    name: 'x',
    intervalMs: () => 1000,
    pass: () => {
      passes++
      return gate.promise
    },
  })
  loop.soon()
  await clock.advance(0)
  assert.equal(passes, 1)
  loop.soon()
  loop.soon()
  await clock.advance(5000)
  assert.equal(passes, 1, 'never two passes at once')
  gate.resolve()
  await clock.advance(0)
  assert.equal(passes, 2, 'wanted twice while one ran: one more')
  await clock.advance(999)
  assert.equal(passes, 2)
  await background.close()
})

test('a pass that fails is reported and counted, and the next one comes at its time', async () => {
  const { clock, background, lines, metrics } = harness()
  let passes = 0
  background.start({
    name: 'broken',
    intervalMs: () => 10,
    pass: async () => {
      passes++
      throw new Error('no')
    },
  })
  await clock.advance(35)
  assert.equal(passes, 3)
  assert.deepEqual(
    lines.map((line) => [line.level, line.event, line.fields['loop']]),
    Array(3).fill(['error', 'background.failed', 'broken']),
  )
  assert.equal(metrics.samples('moonmq_background_failures_total')[0]?.value, 3)
  await background.close()
})

test('closing tells the pass that runs, waits for it, and leaves no timer', async () => {
  const { clock, background } = harness()
  let hasEnded = false
  background.start({
    name: 'x',
    intervalMs: () => 10,
    pass: (signal) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', () => {
          hasEnded = true
          resolve()
        })
      }),
  })
  background.start({ name: 'idle', intervalMs: () => 1000, pass: async () => {} })
  await clock.advance(10)
  await background.close()
  assert.equal(hasEnded, true)
  assert.equal(clock.pendingTimers, 0)
})
