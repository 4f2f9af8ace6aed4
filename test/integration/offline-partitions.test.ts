import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SystemClock } from '../../src/core/clock.ts'
import { type EmbeddedBroker, startBroker } from '../../src/index.ts'
import type { DiskOperation, FaultEffect } from '../../src/io/disk-faults.ts'
import { FixedHost } from '../../src/io/host.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { type RecordedLine, recordingLogger } from '../support/storage.ts'

const CODE = { none: 0, leaderNotAvailable: 5, storage: 56 } as const
let nextPid = 1

async function start(disk: MemoryDisk, lines: RecordedLine[] = []): Promise<EmbeddedBroker> {
  const pid = nextPid++
  const host = new FixedHost({ pid, processes: new Map([[pid, '1']]) })
  return startBroker({ port: 0, dataDir: '/data', http: { port: 0 }, machine: { disk, host }, log: recordingLogger(lines) })
}

async function create(kafka: RawKafka, name: string): Promise<void> {
  const topics = [{ name, numPartitions: 2, replicationFactor: 1, assignments: [], configs: [] }]
  const answer = await kafka.request('CreateTopics', 7, { topics, timeoutMs: 30_000, validateOnly: false })
  assert.equal(answer.topics[0]?.errorCode, CODE.none)
}

/** Error code, leader and offline replicas of each partition, as Metadata and DescribeTopicPartitions say. */
async function shown(kafka: RawKafka, topic: string) {
  const metadata = await kafka.request('Metadata', 12, { topics: [{ name: topic }], allowAutoTopicCreation: false })
  const described = await kafka.request('DescribeTopicPartitions', 0, {
    topics: [{ name: topic }],
    responsePartitionLimit: 100,
    cursor: null,
  })
  const of = (partitions: readonly { errorCode: number; leaderId: number; offlineReplicas: readonly number[] }[] = []) =>
    partitions.map(({ errorCode, leaderId, offlineReplicas }) => [errorCode, leaderId, [...offlineReplicas]])
  assert.deepEqual(of(described.topics[0]?.partitions), of(metadata.topics[0]?.partitions))
  return of(metadata.topics[0]?.partitions)
}

async function readiness(broker: EmbeddedBroker) {
  const base = `http://127.0.0.1:${broker.httpAddress?.port}`
  const ready = await fetch(`${base}/ready`)
  const offline = /^moonmq_partitions_offline (\d+)$/m.exec(await (await fetch(`${base}/metrics`)).text())?.[1]
  return { status: ready.status, text: await ready.text(), offline: Number(offline) }
}

const FAULTS: readonly { name: string; operation: DiskOperation; effect: FaultEffect; code: number; reason: RegExp }[] = [
  { name: 'a failed sync', operation: 'datasync', effect: { kind: 'failedSync' }, code: CODE.storage, reason: /EIO/ },
  { name: 'a failed write', operation: 'write', effect: { kind: 'error', code: 'EIO' }, code: CODE.storage, reason: /EIO/ },
  { name: 'a read-only disk', operation: 'write', effect: { kind: 'error', code: 'EROFS' }, code: CODE.storage, reason: /EROFS/ },
  { name: 'a full disk', operation: 'write', effect: { kind: 'error', code: 'ENOSPC' }, code: CODE.none, reason: /no space left/ },
]

for (const { name, operation, effect, code, reason } of FAULTS) {
  test(`${name}: the partition says so in metadata, readiness, metrics and log, and only that one`, async () => {
    const disk = new MemoryDisk({ clock: new SystemClock() })
    const lines: RecordedLine[] = []
    const broker = await start(disk, lines)
    const kafka = await RawKafka.connect(broker.address)
    await create(kafka, 't')
    assert.equal((await kafka.produce('t', 0, [{ value: 'kept' }])).errorCode, CODE.none)
    assert.deepEqual(await shown(kafka, 't'), [
      [CODE.none, 0, []],
      [CODE.none, 0, []],
    ])

    disk.fail({ operation, path: '/t-0/', times: 1e9, effect })
    assert.equal((await kafka.produce('t', 0, [{ value: 'refused' }])).errorCode, CODE.storage)
    assert.equal((await kafka.produce('t', 0, [{ value: 'refused at once' }])).errorCode, CODE.storage)
    assert.deepEqual(await shown(kafka, 't'), [
      [code, 0, [0]],
      [CODE.none, 0, []],
    ])
    const { status, text, offline } = await readiness(broker)
    assert.equal(status, 503)
    assert.match(text, /t-0 \(/)
    assert.match(text, reason)
    assert.equal(offline, 1)
    assert.ok(lines.some(({ level, event, text }) => level === 'error' && event === 'storage.failed' && text.includes('t-0')))
    assert.equal((await kafka.produce('t', 1, [{ value: 'goes on' }])).errorCode, CODE.none)
    assert.deepEqual(
      (await kafka.readAll('t', 0)).map(({ value }) => value),
      ['kept'],
    )

    kafka[Symbol.dispose]()
    const next = disk.processKilled()
    await broker.close().catch(() => {
      // Its disk is gone.
    })
    await using again = await start(next)
    using after = await RawKafka.connect(again.address)
    assert.equal((await readiness(again)).status, 200)
    assert.equal((await after.readAll('t', 0))[0]?.value, 'kept')
    assert.equal((await after.produce('t', 0, [{ value: 'again' }])).errorCode, CODE.none)
  })
}

test('a damaged partition has no leader, and readiness and metrics count it', async () => {
  const disk = new MemoryDisk({ clock: new SystemClock() })
  {
    await using broker = await start(disk)
    using kafka = await RawKafka.connect(broker.address)
    await create(kafka, 't')
    for (const partition of [0, 1]) await kafka.produce('t', partition, [{ value: 'a' }])
  }
  const log = await disk.open('/data/t-0/00000000000000000000.log', 'write')
  await log.truncate(log.sizeBytes - 1)
  await log.close()
  await using broker = await start(disk)
  using kafka = await RawKafka.connect(broker.address)
  assert.deepEqual(await shown(kafka, 't'), [
    [CODE.leaderNotAvailable, -1, [0]],
    [CODE.none, 0, []],
  ])
  const { status, text, offline } = await readiness(broker)
  assert.deepEqual([status, offline], [503, 1])
  assert.match(text, /t-0 \(.*byte \d+, offset 0/)
  assert.deepEqual(
    (await kafka.readAll('t', 1)).map(({ value }) => value),
    ['a'],
  )
})
