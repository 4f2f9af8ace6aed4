import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { BrokerProcess } from '../support/broker-process.ts'
import { Promises } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'

const run = promisify(execFile)
const STORAGE = 56
const ARGS = ['--http', '127.0.0.1:0']
/** Syncs of one thread of the pool before the one that fails: more than a start needs. */
const SYNCS_BEFORE = 12

async function without(program: string, ...args: string[]): Promise<string | false> {
  try {
    await run(program, args)
    return false
  } catch (error) {
    return `${program} does not run here: ${error instanceof Error ? error.message.split('\n')[0] : error}`
  }
}

async function create(kafka: RawKafka, name: string): Promise<void> {
  const topics = [{ name, numPartitions: 1, replicationFactor: 1, assignments: [], configs: [] }]
  const answer = await kafka.request('CreateTopics', 7, { topics, timeoutMs: 30_000, validateOnly: false })
  assert.equal(answer.topics[0]?.errorCode, 0)
}

const skipTrace = await without('strace', '-e', 'trace=none', 'true')

test('a sync of the real disk fails: nothing is acknowledged, the partition says so, a restart brings back what was', {
  skip: skipTrace,
}, async () => {
  const inject = ['-e', 'trace=fdatasync', '-e', `inject=fdatasync:error=EIO:when=${SYNCS_BEFORE}`]
  const wrapper = ['strace', '-f', '-qq', '-o', '/dev/null', ...inject]
  // One thread, since the count is each thread's own.
  await using broker = await BrokerProcess.start({ args: ARGS, wrapper, env: { UV_THREADPOOL_SIZE: '1' } })
  const kept: string[] = []
  {
    using kafka = await RawKafka.connect(broker.address)
    await create(kafka, 't')
    let refused = 0
    for (let index = 0; index < 4 * SYNCS_BEFORE && refused < 3; index++) {
      const { errorCode } = await kafka.produce('t', 0, [{ value: `${index}` }])
      if (errorCode === 0) kept.push(`${index}`)
      else {
        assert.equal(errorCode, STORAGE)
        refused++
      }
    }
    assert.equal(refused, 3, 'the log takes no more records')
    const ready = await fetch(`${broker.httpBase}/ready`)
    assert.equal(ready.status, 503)
    assert.match(await ready.text(), /t-0 \(.*EIO/)
    const { topics } = await kafka.request('Metadata', 12, { topics: [{ name: 't' }], allowAutoTopicCreation: false })
    assert.deepEqual([topics[0]?.partitions[0]?.errorCode, topics[0]?.partitions[0]?.offlineReplicas], [STORAGE, [0]])
    assert.deepEqual(
      (await kafka.readAll('t', 0)).map(({ value }) => value),
      kept,
    )
  }
  await broker.kill()
  await using again = await BrokerProcess.start({ dataDir: broker.dataDir })
  using kafka = await RawKafka.connect(again.address)
  const read = (await kafka.readAll('t', 0)).map(({ value }) => value)
  assert.deepEqual(read.slice(0, kept.length), kept)
  assert.equal((await kafka.produce('t', 0, [{ value: 'again' }])).errorCode, 0)
})

test('with few descriptors it serves, loses nothing, and files are closed for others', {
  skip: await without('prlimit', '--version'),
}, async () => {
  await using broker = await BrokerProcess.start({ wrapper: ['prlimit', '--nofile=128:128'] })
  const promises = new Promises()
  {
    using kafka = await RawKafka.connect(broker.address)
    await promises.begin(kafka)
    for (let topic = 0; topic < 60; topic++) {
      await create(kafka, `many-${topic}`)
      assert.equal((await kafka.produce(`many-${topic}`, 0, [{ value: `${topic}` }])).errorCode, 0)
    }
    await promises.work(kafka, 6)
    await promises.check(kafka)
  }
  await broker.kill()
  await broker.start()
  using kafka = await RawKafka.connect(broker.address)
  await promises.check(kafka)
  for (let topic = 0; topic < 60; topic++) assert.equal((await kafka.readAll(`many-${topic}`, 0))[0]?.value, `${topic}`)
})

test('the folder of a partition is gone at a start: that partition is offline and named, the others go on', async () => {
  await using broker = await BrokerProcess.start()
  {
    using kafka = await RawKafka.connect(broker.address)
    for (const topic of ['gone', 'there']) {
      await create(kafka, topic)
      assert.equal((await kafka.produce(topic, 0, [{ value: 'a' }])).errorCode, 0)
    }
  }
  assert.equal(await broker.stop(), 0)
  await rm(join(broker.dataDir, 'gone-0'), { recursive: true })
  await broker.start()
  using kafka = await RawKafka.connect(broker.address)
  assert.equal((await kafka.produce('there', 0, [{ value: 'b' }])).errorCode, 0)
  assert.equal((await kafka.readAll('there', 0)).length, 2)
  assert.notEqual((await kafka.produce('gone', 0, [{ value: 'b' }])).errorCode, 0)
  assert.match(broker.log, /gone-0/)
})
