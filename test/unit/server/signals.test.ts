import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onStopSignals } from '../../../src/server/signals.ts'

test('signals: the first asks for a stop, the second forces it, a hangup is neither', () => {
  const heard: string[] = []
  const before = process.listenerCount('SIGTERM')
  const signals = onStopSignals({
    stop: (signal) => heard.push(`stop ${signal}`),
    force: (signal) => heard.push(`force ${signal}`),
    hangup: () => heard.push('hangup'),
  })
  process.emit('SIGHUP', 'SIGHUP')
  process.emit('SIGTERM', 'SIGTERM')
  process.emit('SIGINT', 'SIGINT')
  signals.dispose()
  assert.deepEqual(heard, ['hangup', 'stop SIGTERM', 'force SIGINT'])
  assert.equal(process.listenerCount('SIGTERM'), before)
})
