import { test } from 'node:test'
import { walkMoments } from '../support/kill-walk.ts'

test('kill -9 at every named moment of compaction and of the journal, and everything acknowledged is there', async (t) => {
  await walkMoments(t, ['cleaner', 'journal', 'replay'])
})
