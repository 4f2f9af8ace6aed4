import { deepEqual, equal } from 'node:assert/strict'
import test from 'node:test'
import { Link } from '../../../src/client/link.ts'
import { depsOf, targetOf } from '../../../src/client/options.ts'
import { TopicCursor } from '../../../src/client/topic-cursor.ts'
import { ScriptedBroker } from '../../support/scripted-broker.ts'

async function scripted() {
  const broker = await new ScriptedBroker().listen()
  const options = { address: broker.address, net: broker.net }
  const link = new Link(depsOf(options), targetOf(options))
  const cursor = new TopicCursor(link, { topic: 't', isolation: 'read_uncommitted', maxRecords: 10, maxBytes: 1000 })
  return { broker, cursor, [Symbol.asyncDispose]: () => link.close() }
}

test('a cursor without partitions asks the broker nothing', async () => {
  await using at = await scripted()
  deepEqual(await at.cursor.read(0), { records: [], moved: false })
  equal(at.broker.connections.length, 0)
})

test('a cursor whose partitions are dropped while a READ is tried again asks nothing more', async () => {
  await using at = await scripted()
  at.cursor.begin(0, 'earliest')
  at.broker.script = ({ connection }) => {
    at.cursor.drop(0)
    connection.destroy()
  }
  deepEqual(await at.cursor.read(0), { records: [], moved: false })
  equal(at.broker.asked.length, 1)
})
