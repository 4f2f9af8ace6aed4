import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KAFKA_APIS } from '../../../src/kafka/handlers/index.ts'
import { SKIPPED_APIS } from '../../../src/kafka/skipped.ts'
import { allApis } from '../../../src/schema/messages.ts'

describe('what the Kafka door serves', () => {
  it('names every API of brokers once: served, or left out with a reason', () => {
    const expected = allApis().filter(({ forBrokers }) => forBrokers)
    const named = [...KAFKA_APIS, ...SKIPPED_APIS].sort((left, right) => left.key - right.key)
    assert.deepEqual(
      named.filter(({ key }) => expected.some((api) => api.key === key)).map(({ key, name }) => [key, name]),
      expected.map(({ key, name }) => [key, name]),
    )
    for (const { key, name, reason } of SKIPPED_APIS) {
      assert.ok(
        allApis().some((api) => api.key === key && api.name === name),
        name,
      )
      assert.ok(reason.length > 10)
    }
  })
})
