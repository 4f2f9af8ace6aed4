import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readFailpoints } from '../../../src/config/failpoints.ts'

test('failpoints are read from the environment', () => {
  assert.deepEqual(readFailpoints({}), [])
  assert.deepEqual(readFailpoints({ MOONMQ_FAILPOINT: '' }), [])
  assert.deepEqual(readFailpoints({ MOONMQ_FAILPOINT: 'log.append.written:kill@7, file.renamed:error=EIO' }), [
    { name: 'log.append.written', nth: 7, errorCode: null },
    { name: 'file.renamed', nth: 1, errorCode: 'EIO' },
  ])
})

test('a failpoint that nobody knows stops the start and names the nearest', () => {
  assert.throws(
    () => readFailpoints({ MOONMQ_FAILPOINT: 'log.append.writen:kill' }),
    /no moment log\.append\.writen; did you mean log\.append\.written\?/,
  )
  for (const text of ['log.append.written', 'log.append.written:die', 'log.append.written:kill@0', 'log.append.written:error=EIO@x', ',']) {
    assert.throws(() => readFailpoints({ MOONMQ_FAILPOINT: text }), /not of the form/, text)
  }
})
