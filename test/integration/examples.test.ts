import assert from 'node:assert/strict'
import { test } from 'node:test'
import { consumerGroup } from '../../examples/consumer-group/consumer-group.ts'
import { deadLetters } from '../../examples/dead-letters/dead-letters.ts'
import { delayedRetry } from '../../examples/delayed-retry/delayed-retry.ts'
import { exactlyOnceCopy } from '../../examples/exactly-once-copy/exactly-once-copy.ts'
import { quickStart } from '../../examples/quick-start/quick-start.ts'
import { requestReply } from '../../examples/request-reply/request-reply.ts'
import { startTestBroker } from '../../src/testing/index.ts'

/** Runs an example and returns what it printed. */
async function printed(run: (print: (line: string) => void) => Promise<void>): Promise<string[]> {
  const lines: string[] = []
  await run((line) => lines.push(line))
  return lines
}

test('example: quick start', async () => {
  assert.deepEqual(await printed(quickStart), [
    'stored at 0:0',
    'stored at 0:1',
    'stored at 0:2',
    '0 ada ordered 1 × lamp',
    '1 grace ordered 20 × rope',
    '2 ada ordered 1 × moon',
    'billed ada for order 0',
    'billed grace for order 1',
    'billed ada for order 2',
  ])
})

test('example: request and reply', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  assert.deepEqual(await printed((print) => requestReply(client, print)), ['with tax: 125 and 100'])
})

test('example: consumer group', async () => {
  await using broker = await startTestBroker()
  assert.deepEqual(await printed((print) => consumerGroup(() => broker.connect(), print)), [
    'ada joined',
    'ada assigned orders:0 orders:1 orders:2 orders:3',
    'group billing is stable with 1 members',
    'bob joined',
    'ada revoked orders:2 orders:3',
    'bob assigned orders:2 orders:3',
    'group billing is stable with 2 members',
    'bob left orders:2 orders:3',
    'ada assigned orders:2 orders:3',
    'ada left orders:0 orders:1 orders:2 orders:3',
    'group billing is empty with 0 members',
    '8 orders billed',
  ])
})

test('example: exactly-once copy', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  assert.deepEqual(await printed((print) => exactlyOnceCopy(client, print)), [
    'copied lamp',
    'the program died with rope',
    'copied rope',
    'copied moon',
    'bill for lamp',
    'bill for rope',
    'bill for moon',
  ])
})
test('example: dead letters and redrive', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  assert.deepEqual(await printed((print) => deadLetters(client, print)), [
    'billed lamp',
    'moon failed, attempt 1',
    'billed rope',
    'moon failed, attempt 2',
    'moon failed, attempt 3: a dead letter now',
    'letter moon of orders, given up by billing after 3 attempts: no price for moon',
    'sent 1 back',
    'sent 1 back before',
    'billed moon',
  ])
})

test('example: delayed retry', async () => {
  await using broker = await startTestBroker()
  await using client = await broker.connect()
  const lines = await printed((print) => delayedRetry(client, '1ms,1ms', print))
  assert.deepEqual(
    lines.filter((line) => line.startsWith('to nobody')),
    [
      'to nobody: failed 1 times, in mails.retry.1',
      'to nobody: failed 2 times, in mails.retry.2',
      'to nobody: failed 3 times, in mails.dlq',
    ],
  )
  assert.deepEqual(
    lines.filter((line) => line.startsWith('to ada')),
    ['to ada: failed 1 times, in mails.retry.1', 'to ada: sent'],
  )
})
