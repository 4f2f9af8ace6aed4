import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { Promises } from './promises.ts'
import { RawKafka } from './raw-kafka.ts'

/** Kafka's code for a disk that fails or is full: clients try again. */
export const STORAGE = 56

const BATCH_BYTES = 100_000
/** Attempts until a broker whose disk has space again must take records. */
const ATTEMPTS = 600

/** A broker whose disk is small. */
export interface SmallDisk {
  address(): string
  freeBytes(): Promise<number>
  /** The process dies and is started again on what it left. */
  crash(): Promise<void>
}

/** Works until everything is acknowledged again, then compares with the promises. */
export async function promiseKept(kafka: RawKafka, promises: Promises): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const before = promises.acknowledged
    await promises.work(kafka, 1)
    // Four records of the plain topic, one numbered batch, one commit.
    if (promises.acknowledged === before + 6) break
    assert.ok(attempt < ATTEMPTS, 'the broker takes records again')
    await pause(20)
  }
  await promises.work(kafka, 6)
  await promises.check(kafka)
}

/** Fills the disk through produce, goes on in every way, restarts on the full disk, deletes a topic and goes on with records too. */
export async function fillAndFree(disk: SmallDisk): Promise<void> {
  const promises = new Promises()
  let kafka = await RawKafka.connect(disk.address())
  try {
    await promises.begin(kafka)
    await promises.work(kafka, 6)
    await createTopic(kafka, 'film')
    const stored = await fill(kafka, 'film')
    assert.ok(stored > 50, `${stored} batches were stored before the disk was full`)
    assert.ok((await disk.freeBytes()) > 256 * 1024, 'the reserve is untouched')
    const before = promises.acknowledgedCommits
    await promises.work(kafka, 6)
    assert.equal(promises.acknowledgedCommits, before + 6, 'commits go on')
    await promises.check(kafka, { isFull: true })
    assert.equal((await kafka.readAll('film', 0)).length, stored)

    kafka[Symbol.dispose]()
    await disk.crash()
    kafka = await RawKafka.connect(disk.address())
    await promises.check(kafka, { isFull: true })
    assert.equal((await kafka.readAll('film', 0)).length, stored, 'a start on a full disk deletes nothing')
    // The start may have found room, where a journal was or what lay above the reserve; no more than that is taken.
    await fill(kafka, 'film')
    assert.ok((await disk.freeBytes()) > 256 * 1024, 'the reserve is untouched after the start too')

    const deleted = await kafka.request('DeleteTopics', 5, { topicNames: ['film'], timeoutMs: 30_000 })
    assert.equal(deleted.responses[0]?.errorCode, 0, 'a topic can be deleted')
    await promiseKept(kafka, promises)
  } finally {
    kafka[Symbol.dispose]()
  }
}

async function createTopic(kafka: RawKafka, name: string): Promise<void> {
  const configs = [{ name: 'segment.bytes', value: '1048576' }]
  const topics = [{ name, numPartitions: 1, replicationFactor: 1, assignments: [], configs }]
  const answer = await kafka.request('CreateTopics', 7, { topics, timeoutMs: 30_000, validateOnly: false })
  assert.equal(answer.topics[0]?.errorCode, 0)
}

/** Batches stored until several in a row were refused, each with a retriable error. */
async function fill(kafka: RawKafka, topic: string): Promise<number> {
  let stored = 0
  for (let refused = 0; refused < 5; ) {
    const { errorCode } = await kafka.produce(topic, 0, [{ value: `${stored} ${'x'.repeat(BATCH_BYTES)}` }])
    if (errorCode === 0) stored++
    else {
      assert.equal(errorCode, STORAGE)
      refused++
    }
  }
  return stored
}
