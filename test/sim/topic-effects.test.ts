import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { OpenPartition } from '../../src/broker/log-source.ts'
import { Partitions } from '../../src/broker/topics/partitions.ts'
import { NO_METRICS } from '../../src/core/counters.ts'
import { MoonMQError } from '../../src/core/errors.ts'
import { SILENT } from '../../src/core/logger.ts'
import { SeededRandom } from '../../src/core/random.ts'
import type { TopicPartition } from '../../src/core/types.ts'
import { newUuid } from '../../src/core/uuid.ts'
import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { createPartitions, createTopic, deleteTopic } from '../../src/metadata/plans.ts'
import { FakeLog } from '../support/fake-log.ts'
import { FakeMetadata } from '../support/fake-metadata.ts'

/**
 * Random histories of topics that are made, grown and deleted while folders take their time: a folder is never made while one of the
 * same name is there or on its way out, never deleted while it is made, and at the end the logs are those of the image.
 */
const HISTORIES = 30
const STEPS = 60
const NAMES = ['a', 'b', 'c']

/** Folders that come and go slowly, and a judge of what is asked of them. */
class SlowFolders {
  readonly folder = '/'
  readonly folders = new Map<string, FakeLog>()
  readonly #busy = new Set<string>()
  readonly #clock: VirtualClock
  readonly #random: SeededRandom

  constructor(clock: VirtualClock, random: SeededRandom) {
    this.#clock = clock
    this.#random = random
  }

  async space() {
    return { freeBytes: Number.POSITIVE_INFINITY, totalBytes: Number.POSITIVE_INFINITY }
  }

  get(partition: TopicPartition): FakeLog | undefined {
    return this.folders.get(nameOf(partition))
  }

  async saveLogStarts(): Promise<void> {}

  async exists(partition: TopicPartition): Promise<boolean> {
    return this.folders.has(nameOf(partition))
  }

  async open(request: OpenPartition): Promise<FakeLog> {
    const name = nameOf(request)
    assert.ok(!this.#busy.has(name), `${name} is opened while it is being made or deleted`)
    assert.ok(!this.folders.has(name), `${name} is made over one that is there`)
    await this.#work(name)
    if (this.#random.below(10) === 0) throw new MoonMQError('STORAGE_FULL', { topic: request.topic, partition: request.partition })
    const log = new FakeLog(request.topic, request.partition, request.topicId, request.config)
    this.folders.set(name, log)
    return log
  }

  async delete(partition: TopicPartition): Promise<void> {
    const name = nameOf(partition)
    assert.ok(!this.#busy.has(name), `${name} is deleted while it is being made or deleted`)
    await this.#work(name)
    this.folders.delete(name)
  }

  async #work(name: string): Promise<void> {
    this.#busy.add(name)
    await new Promise<void>((resolve) => this.#clock.setTimer(this.#random.below(30), resolve))
    this.#busy.delete(name)
  }
}

function nameOf({ topic, partition }: TopicPartition): string {
  return `${topic}-${partition}`
}

async function runHistory(seed: number): Promise<void> {
  const random = new SeededRandom(seed)
  const clock = new VirtualClock()
  const logs = new SlowFolders(clock, random)
  const metadata = new FakeMetadata()
  const partitions = new Partitions(
    { logs, clock, log: SILENT, metrics: NO_METRICS },
    { nodeId: 0, settings: new Map(), lazyTopics: new Set() },
  )
  metadata.subscribe((_, after) => partitions.apply(after))
  for (let step = 0; step < STEPS; step++) {
    const name = NAMES[random.below(NAMES.length)] as string
    const topic = metadata.image.topics.get(name)
    if (topic === undefined) {
      const plan = { name, id: newUuid(random), partitions: 1 + random.below(3), replicationFactor: 1 }
      await metadata.change((image) => createTopic(image, plan))
    } else if (random.below(3) === 0) {
      await metadata.change((image) => createPartitions(image, { topic: name, total: topic.partitions.length + 1 }))
    } else await metadata.change((image) => deleteTopic(image, name))
    // Look-ups follow the image in the same turn.
    for (const each of NAMES) assert.equal(partitions.topic(each)?.id, metadata.image.topics.get(each)?.id)
    await clock.advance(random.below(40))
  }
  await clock.advance(60_000)
  for (const topic of metadata.image.topics.values()) {
    for (const { partition } of topic.partitions) {
      const served = partitions.partition(topic.name, partition)
      while (served.log === undefined) {
        const opening = partitions.openLog(served).catch(() => {})
        await clock.advance(100)
        await opening
      }
      assert.equal(served.log.topicId, topic.id)
    }
  }
  await partitions.settled()
  const expected = [...metadata.image.topics.values()].flatMap((topic) =>
    topic.partitions.map((_, partition) => `${topic.name}-${partition}`),
  )
  assert.deepEqual([...logs.folders.keys()].sort(), expected.sort())
  assert.equal(clock.pendingTimers, 0)
}

for (let seed = 1; seed <= HISTORIES; seed++) {
  it(`topics made and deleted, history of seed ${seed}`, () => runHistory(seed))
}
