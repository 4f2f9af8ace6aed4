import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UsageError } from '../../../src/cli/context.ts'
import { parseFrom, parseHostPort, parseSettings, parseWhole } from '../../../src/cli/parse.ts'
import { parseLine } from '../../../src/cli/records-in.ts'

test('host and port: every accepted spelling', () => {
  assert.deepEqual(parseHostPort('10.0.0.1:9000', '--broker'), { host: '10.0.0.1', port: 9000 })
  assert.deepEqual(parseHostPort('broker.local:1', '--broker'), { host: 'broker.local', port: 1 })
  assert.deepEqual(parseHostPort('[::1]:9092', '--broker'), { host: '::1', port: 9092 })
  assert.deepEqual(parseHostPort(':9092', '--broker'), { host: '127.0.0.1', port: 9092 })
  assert.deepEqual(parseHostPort('9092', '--broker'), { host: '127.0.0.1', port: 9092 })
  for (const bad of ['', 'host', 'host:', 'host:70000', '::1:9092', 'a b:1', 'host:9092/x']) {
    assert.throws(() => parseHostPort(bad, '--broker'), UsageError, bad)
  }
})

test('start positions: words, times and ages', () => {
  const nowMs = 1_700_000_000_000
  assert.equal(parseFrom('earliest', nowMs), 'earliest')
  assert.equal(parseFrom('latest', nowMs), 'latest')
  assert.deepEqual(parseFrom('10m', nowMs), { timestampMs: nowMs - 600_000 })
  assert.deepEqual(parseFrom('2d', nowMs), { timestampMs: nowMs - 172_800_000 })
  assert.deepEqual(parseFrom('2026-01-31T12:00:00Z', nowMs), { timestampMs: Date.UTC(2026, 0, 31, 12) })
  assert.deepEqual(parseFrom('1700000000123', nowMs), { timestampMs: 1700000000123 })
  for (const bad of ['yesterday', '10', '5 minutes', '']) assert.throws(() => parseFrom(bad, nowMs), UsageError, bad)
})

test('numbers and settings name the option in their errors', () => {
  assert.equal(parseWhole('0', '--partition'), 0)
  assert.throws(() => parseWhole('-1', '--partition'), /--partition -1/)
  assert.throws(() => parseWhole('1e3', '--max'), /--max/)
  assert.throws(() => parseWhole('9007199254740993', '--offset'), /--offset/)
  assert.deepEqual(parseSettings(['a=1', 'b=x=y', 'a=2']), { a: '2', b: 'x=y' })
  assert.throws(() => parseSettings(['=1']), UsageError)
})

test('lines: key:value, values, and JSON records', () => {
  const plain = { json: false, raw: false, separator: ':' }
  assert.deepEqual(parseLine('k:v:w', plain), { key: 'k', value: 'v:w' })
  assert.deepEqual(parseLine('value', plain), { value: 'value' })
  assert.deepEqual(parseLine('{"a":"b:c"}', plain), { value: '{"a":"b:c"}' })
  assert.deepEqual(parseLine('[1,2]', plain), { value: '[1,2]' })
  assert.deepEqual(parseLine('https://x.example/a:b', plain), { value: 'https://x.example/a:b' })
  assert.deepEqual(parseLine('{"value":{"a":1},"key":"k","headers":{"h":"x"},"partition":2}', plain), {
    key: 'k',
    value: '{"a":1}',
    headers: [{ key: 'h', value: 'x' }],
    partition: 2,
  })
  assert.deepEqual(parseLine('{"key":"k","value":null}', plain), { key: 'k', value: null })
  assert.deepEqual(parseLine('{"value":1}', { ...plain, raw: true }), { value: '{"value":1}' })
  assert.deepEqual(parseLine('k=>v', { ...plain, separator: '=>' }), { key: 'k', value: 'v' })
  assert.throws(() => parseLine('nope', { ...plain, json: true }), UsageError)
  assert.throws(() => parseLine('{"key":1}', { ...plain, json: true }), /needs a "value"/)
  assert.throws(() => parseLine('{"value":1,"partition":-1}', plain), UsageError)
})
