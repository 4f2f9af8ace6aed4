import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ERRORS, type ErrorCode } from '../../../src/core/errors.ts'
import { KAFKA_ERRORS } from '../../../src/schema/data.generated.ts'

/** Rows whose name differs from Kafka's and whose code is easily mistaken. */
const NAMED: Partial<Record<ErrorCode, string>> = {
  GROUP_LIMIT: 'GROUP_MAX_SIZE_REACHED',
  GROUP_MISSING: 'GROUP_ID_NOT_FOUND',
  GROUP_NOT_EMPTY: 'NON_EMPTY_GROUP',
  GROUP_MEMBER_UNKNOWN: 'UNKNOWN_MEMBER_ID',
  COORDINATOR_LOADING: 'COORDINATOR_LOAD_IN_PROGRESS',
  LEADER_EPOCH_FENCED: 'FENCED_LEADER_EPOCH',
  LEADER_EPOCH_UNKNOWN: 'UNKNOWN_LEADER_EPOCH',
  NOT_LEADER: 'NOT_LEADER_OR_FOLLOWER',
  TOPIC_ID_UNKNOWN: 'UNKNOWN_TOPIC_ID',
  TOPIC_ID_INCONSISTENT: 'INCONSISTENT_TOPIC_ID',
  OUT_OF_ORDER_SEQUENCE: 'OUT_OF_ORDER_SEQUENCE_NUMBER',
  DUPLICATE_SEQUENCE: 'DUPLICATE_SEQUENCE_NUMBER',
  INFLATED_TOO_LARGE: 'MESSAGE_TOO_LARGE',
  RECORD_TOO_LARGE: 'MESSAGE_TOO_LARGE',
  STORAGE_FAILED: 'KAFKA_STORAGE_ERROR',
  UNSUPPORTED_COMPRESSION: 'UNSUPPORTED_COMPRESSION_TYPE',
}

test("every row names a code of Kafka's, the one of the same name where there is one", () => {
  const codes = new Map(Object.entries(KAFKA_ERRORS).map(([code, { name }]) => [name, Number(code)]))
  for (const [name, { kafka }] of Object.entries(ERRORS)) {
    assert.ok(KAFKA_ERRORS[kafka] !== undefined, `${name} has the code ${kafka}`)
    const expected = codes.get(NAMED[name as ErrorCode] ?? name)
    if (expected !== undefined) assert.equal(kafka, expected, name)
  }
})
