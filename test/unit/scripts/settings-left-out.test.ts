import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settingsLeftOut } from '../../../scripts/docs-settings.ts'

test('every setting of Kafka is there or left out for a reason; of a topic all are there', () => {
  const left = settingsLeftOut()
  assert.deepEqual(
    left.filter(({ kind }) => kind === 'topic'),
    [],
  )
  assert.ok(left.every(({ names }) => names.length > 0))
})
