import assert from 'node:assert/strict'
import { SeededRandom } from '../../src/core/random.ts'
import { provenanceOf } from '../../src/record/dead-letter.ts'
import { batchOf, contextOf, createTopic, produceOne } from './fake-broker.ts'
import { type Received, type TestNativeConnection, type TestNativeDoor, testNativeDoor } from './native-door.ts'

const GROUP = 'g'
const TOPIC = 't'
const LETTERS = `${TOPIC}.dlq`
const PARTITIONS = 2
const MAX_DELIVERIES = 3

/** One partition as its group should see it. */
class Shadow {
  end = 0
  /** Given to the connection that lives and not answered for. */
  readonly open = new Set<number>()
  /** Refused, and to come again on this connection. */
  readonly again = new Set<number>()
  /** Processed or dead at some time. */
  readonly done = new Set<number>()
  readonly dead = new Set<number>()
  /** Refusals since it was last moved. */
  readonly failures = new Map<number, number>()
  /** After the last that was given to this connection. */
  next = 0
  committed = 0

  get low(): number {
    return this.open.size === 0 ? this.next : Math.min(...this.open)
  }
}

/**
 * A client of a stream that answers for records in any order, several failures in one request, breaks off and comes back, over a broker that
 * restarts, in an order that a seed decides, with a shadow: the group is before the first that is not answered for, whatever fails comes
 * again, and each dead record has one letter.
 */
export class StreamModel {
  #at: TestNativeDoor
  readonly #random: SeededRandom
  readonly #shadows = Array.from({ length: PARTITIONS }, () => new Shadow())
  #connection: TestNativeConnection | null = null

  private constructor(at: TestNativeDoor, random: SeededRandom) {
    this.#at = at
    this.#random = random
  }

  static async open(seed: number): Promise<StreamModel> {
    const at = await testNativeDoor()
    await createTopic(at.broker, TOPIC, PARTITIONS)
    return new StreamModel(at, new SeededRandom(seed))
  }

  async act(): Promise<void> {
    const roll = this.#random.below(100)
    if (roll < 20) await this.#produce()
    else if (roll < 26) this.#break()
    else if (roll < 29) await this.#restart()
    else await this.#settle(roll < 70)
  }

  async #produce(): Promise<void> {
    const partition = this.#random.below(PARTITIONS)
    const count = 1 + this.#random.below(6)
    await this.#settled(produceOne(this.#at.broker, TOPIC, partition, batchOf(count)))
    this.#shadow(partition).end += count
    if (this.#connection !== null) this.#take(await this.#connection.received())
  }

  #break(): void {
    this.#connection?.socket.destroy()
    this.#connection = null
  }

  async #restart(): Promise<void> {
    this.#break()
    await this.#settled(this.#at.door.close())
    await this.#settled(this.#at.broker.close())
    this.#at = await this.#settled(testNativeDoor({}, this.#at))
  }

  async #open(): Promise<TestNativeConnection> {
    if (this.#connection !== null) return this.#connection
    for (const shadow of this.#shadows) {
      shadow.open.clear()
      shadow.again.clear()
      shadow.next = shadow.committed
    }
    const connection = await this.#at.connect('extended')
    this.#connection = connection
    const topics = [{ topic: TOPIC, start: 4, value: 0, positions: [] }]
    this.#take(await connection.exchange('STREAM', { group: GROUP, isolation: 0, records: 1e6, bytes: 1e9, topics }))
    return connection
  }

  /** What is new comes in order, what failed comes when it likes, and nothing else does. */
  #take(frames: readonly Received[], failed: ReadonlySet<number> = new Set()): void {
    for (const { op, message } of frames) {
      if (op !== 'STREAMED') continue
      const partition = Number(message['partition'])
      const shadow = this.#shadow(partition)
      for (const { offset } of message['records'] as { offset: number }[]) {
        if (shadow.again.delete(offset) || (offset < shadow.next && failed.has(offset))) continue
        assert.equal(offset, shadow.next, `partition ${partition}`)
        shadow.next++
        shadow.open.add(offset)
      }
    }
  }

  async #settle(fails: boolean): Promise<void> {
    const connection = await this.#open()
    const partition = this.#random.below(PARTITIONS)
    const shadow = this.#shadow(partition)
    const open = [...shadow.open].slice(0, 8)
    if (open.length === 0) return
    const picked = () => open[this.#random.below(open.length)] as number
    const failed = fails ? Array.from({ length: 1 + this.#random.below(4) }, picked) : []
    const done = this.#random.below(3) > 0 && fails ? [] : [picked()].filter((offset) => !failed.includes(offset))
    const frames = await connection.exchange('SETTLE', {
      done: done.map((offset) => ({ topic: TOPIC, partition, first: offset, last: offset })),
      failed: failed.map((offset) => ({ topic: TOPIC, partition, offset, reason: 'bad' })),
    })
    for (const offset of done) {
      shadow.open.delete(offset)
      shadow.again.delete(offset)
      shadow.done.add(offset)
    }
    const fates = frames.find(({ op }) => op === 'SETTLED')?.message['failed'] as { fate: number; attempts: number; code: number }[]
    for (const [at, offset] of failed.entries()) this.#failed(shadow, offset, fates[at])
    shadow.committed = shadow.low
    // What failed may have been pushed again before the answer, and failed again in the same request since.
    this.#take(frames, new Set(failed))
  }

  #failed(shadow: Shadow, offset: number, fate: { fate: number; attempts: number; code: number } | undefined): void {
    if (!shadow.open.has(offset)) {
      // It died before in the same request.
      assert.deepEqual([fate?.fate, fate?.code], [0, 1])
      return
    }
    const failures = (shadow.failures.get(offset) ?? 0) + 1
    assert.equal(fate?.attempts, failures, `attempts of ${offset}`)
    assert.equal(fate?.fate, failures === MAX_DELIVERIES ? 2 : 1)
    if (failures < MAX_DELIVERIES) {
      shadow.failures.set(offset, failures)
      shadow.again.add(offset)
      return
    }
    shadow.failures.delete(offset)
    shadow.open.delete(offset)
    shadow.again.delete(offset)
    shadow.done.add(offset)
    shadow.dead.add(offset)
  }

  async check(): Promise<void> {
    const partitions = this.#shadows.map((_, partition) => partition)
    const asking = this.#at.broker.groups.committed(contextOf(), { group: GROUP, topics: [{ topic: TOPIC, partitions }] })
    const found = await this.#settled(asking)
    for (const [partition, shadow] of this.#shadows.entries()) {
      assert.equal(Math.max(0, found[partition]?.value?.offset ?? 0), shadow.committed, `partition ${partition}`)
      for (let offset = 0; offset < shadow.committed; offset++) assert.ok(shadow.done.has(offset), `${partition}@${offset} was passed`)
      if (this.#connection !== null) assert.deepEqual([...shadow.again], [], 'what failed came again')
    }
  }

  /** Everything is answered for; the letters are those of the dead, each once. */
  async converge(): Promise<void> {
    const connection = await this.#open()
    for (const [partition, shadow] of this.#shadows.entries()) {
      assert.equal(shadow.next, shadow.end, 'everything was given')
      const done = [{ topic: TOPIC, partition, first: 0, last: shadow.end }]
      await connection.exchange('SETTLE', { done, failed: [] })
      for (const offset of shadow.open) shadow.done.add(offset)
      shadow.open.clear()
      shadow.committed = shadow.low
      assert.deepEqual(
        await this.#letters(partition),
        [...shadow.dead].sort((left, right) => left - right),
      )
    }
    await this.check()
  }

  async #letters(partition: number): Promise<number[]> {
    if (this.#at.broker.topics.find(LETTERS) === undefined) return []
    const request = {
      topic: LETTERS,
      partition,
      offset: 0,
      isolation: 'read_uncommitted',
      maxRecords: 10_000,
      maxBytes: 1e7,
      maxWaitMs: 0,
    } as const
    const read = await this.#settled(this.#at.broker.records.read(contextOf(), request))
    read.release()
    return read.records.map(({ headers }) => provenanceOf(headers)?.offset ?? -1).sort((left, right) => left - right)
  }

  /** Lets run what needs no time. */
  async #settled<T>(work: Promise<T>): Promise<T> {
    let isDone = false
    const done = () => {
      isDone = true
    }
    work.then(done, done)
    for (let turn = 0; turn < 1000 && !isDone; turn++) await this.#at.clock.advance(0)
    return await work
  }

  #shadow(partition: number): Shadow {
    return this.#shadows[partition] as Shadow
  }
}
