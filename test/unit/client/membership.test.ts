import { rejects } from 'node:assert/strict'
import test from 'node:test'
import { connect } from '../../../src/client/index.ts'
import { ScriptedBroker } from '../../support/scripted-broker.ts'

test('what the program throws when it hears that its partitions are lost ends the loop, not the process', async () => {
  const broker = await new ScriptedBroker().listen()
  await using client = await connect({ address: broker.address, net: broker.net })
  const assignment = [{ topic: 't', partitions: [0] }]
  broker.script = (asked) => {
    if (asked.op === 'MEMBER_JOIN' || asked.op === 'MEMBER_SYNC') {
      asked.answer('MEMBER_STATE', { memberId: 'm', epoch: 1, sessionTimeoutMs: 30_000, heartbeatIntervalMs: 10_000, assignment })
    } else if (asked.op === 'GET_POSITIONS') asked.answer('POSITIONS', { topics: [{ topic: 't', offsets: [0] }] })
    else if (asked.op === 'READ') {
      const record = { timestampMs: 0, key: null, value: Buffer.from('v'), headers: [] }
      const records = [0, 1, 2].map((offset) => ({ offset, ...record }))
      const part = { partition: 0, code: 0, nextOffset: 3, earliest: 0, highWatermark: 3, lastStable: 3, records }
      asked.answer('READ_RESULT', { partitions: [part] })
    } else if (asked.op === 'STORE_POSITIONS') asked.answer('ERROR', { code: 12, message: 'gone', name: 'GROUP_MEMBER_UNKNOWN' })
  }
  const consumer = client.consumer({
    group: 'g',
    topics: ['t'],
    onChange: ({ kind }) => {
      if (kind === 'lost') throw new Error('the program fails')
    },
  })
  await rejects(async () => {
    for await (const _record of consumer) await new Promise((resolve) => setImmediate(resolve))
  }, /the program fails/)
})
