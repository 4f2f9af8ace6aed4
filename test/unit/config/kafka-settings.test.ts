import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BROKER_SETTINGS, checkBrokerSetting } from '../../../src/config/broker-settings.ts'
import { checkKafkaSetting, kafkaNumber, LONG_MAX } from '../../../src/config/kafka-setting.ts'
import {
  checkTopicSetting,
  resolveTopicSetting,
  TOPIC_SETTINGS,
  type TopicSetting,
  topicSetting,
} from '../../../src/config/topic-settings.ts'
import { isCode } from '../../../src/core/errors.ts'

function setting(name: string): TopicSetting {
  const found = topicSetting(name)
  assert.ok(found, name)
  return found
}

function refused(run: () => unknown, ...words: string[]): void {
  assert.throws(run, (error) => {
    assert.ok(isCode(error, 'CONFIG_INVALID'))
    for (const word of words) assert.ok(error.message.includes(word), `${error.message} does not name ${word}`)
    return true
  })
}

test('both tables are sorted by name, without repeats, and every default is acceptable', () => {
  for (const table of [TOPIC_SETTINGS, BROKER_SETTINGS]) {
    const names = table.map((row) => row.name)
    assert.deepEqual(names, [...new Set(names)].sort())
    for (const row of table) assert.equal(checkKafkaSetting(row, row.default), row.default, row.name)
  }
})

test('a bad value is refused with key, value and range', () => {
  refused(() => checkTopicSetting('segment.bytes', '13'), 'segment.bytes=13', '14..2147483647 bytes')
  refused(() => checkTopicSetting('segment.bytes', '2147483648'), '2147483647')
  refused(() => checkTopicSetting('segment.bytes', '1e6'), 'whole number')
  refused(() => checkTopicSetting('cleanup.policy', 'delete,shrink'), 'delete, compact')
  refused(() => checkTopicSetting('message.timestamp.type', 'createtime'), 'CreateTime, LogAppendTime')
  refused(() => checkTopicSetting('retention.ms', '9223372036854775808'), '9223372036854775807')
  refused(() => checkTopicSetting('retention.ms', '99999999999999999999'), '9223372036854775807')
  for (const list of [',', 'delete,', ',compact', 'delete,,compact']) refused(() => checkTopicSetting('cleanup.policy', list), 'empty')
  refused(() => checkTopicSetting('preallocate', 'yes'), 'true or false')
  refused(() => checkTopicSetting('min.cleanable.dirty.ratio', '1.1'), '0..1')
})

test('what Kafka takes and refuses is taken and refused', () => {
  const replicas = 'leader.replication.throttled.replicas'
  for (const good of ['', '*', '0:1', '0:1, 12:0']) assert.equal(checkTopicSetting(replicas, good), good)
  for (const bad of ['1', '0:1,', '0:x', '*,0:1']) refused(() => checkTopicSetting(replicas, bad), 'partition:broker')
  for (const good of ['-1', '1', '9']) assert.equal(checkTopicSetting('compression.gzip.level', good), good)
  for (const bad of ['-2', '0', '10']) refused(() => checkTopicSetting('compression.gzip.level', bad), '1..9, or -1')
  for (const good of ['-2', '-1', '0']) assert.equal(checkTopicSetting('retention.bytes', good), good)
})

test('an unknown name is refused naming the nearest one', () => {
  refused(() => checkTopicSetting('retention.sm', '1'), 'retention.ms')
  refused(() => checkBrokerSetting('num.partition', '1'), 'num.partitions')
})

test('good values keep their text, booleans in lower case', () => {
  assert.equal(checkTopicSetting('cleanup.policy', 'compact,delete'), 'compact,delete')
  assert.equal(checkTopicSetting('preallocate', 'TRUE'), 'true')
  assert.equal(checkTopicSetting('flush.ms', LONG_MAX), LONG_MAX)
  assert.equal(kafkaNumber(LONG_MAX), Number.MAX_SAFE_INTEGER)
})

test('a topic value wins over the broker, the broker over the default, and the finer unit over the coarser', () => {
  const retention = setting('retention.ms')
  const none = new Map<string, string>()
  assert.deepEqual(resolveTopicSetting(retention, none, none), { value: '604800000', source: 'default', brokerName: null })
  const broker = new Map([['log.retention.hours', '2']])
  assert.deepEqual(resolveTopicSetting(retention, none, broker), { value: '7200000', source: 'broker', brokerName: 'log.retention.hours' })
  broker.set('log.retention.minutes', '3')
  assert.equal(resolveTopicSetting(retention, none, broker).value, '180000')
  assert.equal(resolveTopicSetting(retention, new Map([['retention.ms', '5']]), broker).value, '5')
  assert.equal(resolveTopicSetting(retention, none, new Map([['log.retention.hours', '-1']])).value, '-1')
})

test('a record counts only when it is on disk unless somebody says otherwise', () => {
  assert.equal(setting('flush.messages').default, '1')
})
