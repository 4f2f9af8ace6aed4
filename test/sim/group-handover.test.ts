import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import type { Client, ClientRecord, Consumer } from '../../src/client/types.ts'
import { sleep } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { contextOf, createTopic } from '../support/fake-broker.ts'
import { byLane, playSeeds } from '../support/lane.ts'
import { type NativeNetwork, type NetworkClient, nativeNetwork } from '../support/native-net.ts'

/**
 * Consumers of one group that come, go and are killed while they work, through the client library and the native door, on virtual time.
 * A record takes a while; its work counts when its commit is acknowledged, or when the loop asks for the next one.
 */

const PARTITIONS = 4
const RECORDS = 120
const MAX_WORK_MS = 400

interface Worker {
  readonly name: string
  readonly process: NetworkClient
  consumer: Consumer | null
  isDead: boolean
  isLeaving: boolean
  hasLeft: boolean
  /** What it works on: begun, and not known to be committed. */
  open: string | null
}

class Handover {
  readonly at: NativeNetwork
  readonly random: SeededRandom
  readonly mayKill: boolean
  readonly workers: Worker[] = []
  readonly counts = new Map<string, number>()
  /** Worked on by somebody who was killed before he knew that it was committed. */
  readonly doubtful = new Set<string>()
  /** Partitions that somebody works on right now. */
  readonly busy = new Map<number, string>()
  finding: unknown = null

  constructor(at: NativeNetwork, random: SeededRandom, mayKill: boolean) {
    this.at = at
    this.random = random
    this.mayKill = mayKill
  }

  start(): void {
    const name = `w${this.workers.length}`
    const process = this.at.client(name)
    const worker: Worker = { name, process, consumer: null, isDead: false, isLeaving: false, hasLeft: false, open: null }
    this.workers.push(worker)
    this.#run(worker).catch((error: unknown) => {
      if (!worker.isDead) this.finding ??= error
    })
  }

  async #run(worker: Worker): Promise<void> {
    const client: Client = await worker.process.opened
    if (worker.isDead) return
    const manual = this.random.below(2) === 0
    worker.consumer = client.consumer({ group: 'g', topics: ['t'], commit: manual ? 'manual' : 'after', maxRecords: 7, idleMs: 300 })
    for await (const record of worker.consumer) {
      if (worker.isLeaving) break
      await this.#work(worker, record)
      if (worker.isDead) return
      if (manual) await worker.consumer.commit(record)
      worker.open = null
      if (worker.isDead) return
    }
    await client.close()
    worker.hasLeft = true
  }

  async #work(worker: Worker, record: ClientRecord): Promise<void> {
    const id = `${record.partition}/${record.offset}`
    const other = this.busy.get(record.partition)
    ok(other === undefined, `${worker.name} was given ${id} while ${other} works on its partition`)
    worker.open = id
    this.busy.set(record.partition, worker.name)
    await sleep(this.at.clock, this.random.below(MAX_WORK_MS))
    if (worker.isDead) return
    this.busy.delete(record.partition)
    this.counts.set(id, (this.counts.get(id) ?? 0) + 1)
  }

  async act(): Promise<void> {
    const living = this.workers.filter(({ isDead }) => !isDead)
    const roll = this.random.below(100)
    const one = living[this.random.below(Math.max(1, living.length))]
    if (roll < 20 && living.length < 4) this.start()
    else if (roll < 30 && one?.consumer != null && living.length > 1) await this.#leave(one)
    else if (roll < 40 && this.mayKill && one !== undefined) this.#kill(one)
    else await this.at.clock.advance(this.random.below(1500))
    if (this.finding !== null) throw this.finding
  }

  /** With the record that it works on done. */
  async #leave(worker: Worker): Promise<void> {
    worker.isLeaving = true
    for (let turn = 0; turn < 100 && worker.open !== null; turn++) await this.at.clock.advance(100)
    const closing = worker.consumer?.close()
    for (let turn = 0; turn < 100 && !worker.hasLeft; turn++) await this.at.clock.advance(100)
    ok(worker.hasLeft, `${worker.name} did not leave`)
    await closing
    worker.isDead = true
  }

  #kill(worker: Worker): void {
    worker.isDead = true
    worker.process.kill()
    this.#forget(worker)
  }

  #forget(worker: Worker): void {
    for (const [partition, name] of this.busy) if (name === worker.name) this.busy.delete(partition)
    if (worker.open !== null) this.doubtful.add(worker.open)
  }

  async finish(): Promise<void> {
    if (this.workers.every(({ isDead }) => isDead)) this.start()
    for (let turn = 0; turn < 400 && this.counts.size < RECORDS; turn++) await this.at.clock.advance(500)
    await this.at.clock.advance(2_000)
    if (this.finding !== null) throw this.finding
    equal(this.counts.size, RECORDS, 'every record was worked on')
  }
}

async function play(seed: number, mayKill: boolean): Promise<Handover> {
  const random = new SeededRandom(seed)
  const at = await nativeNetwork()
  await createTopic(at.broker, 't', PARTITIONS)
  const records = Array.from({ length: RECORDS }, (_, number) => ({
    topic: 't',
    partition: number % PARTITIONS,
    key: null,
    value: Buffer.from(String(number)),
  }))
  const produced = at.broker.records.produce(contextOf(), records, { acks: 'leader', codec: 0, timeoutMs: 1000 })
  await at.clock.advance(0)
  await produced
  const handover = new Handover(at, random, mayKill)
  handover.start()
  for (let step = 0; step < 40; step++) await handover.act()
  await handover.finish()
  return handover
}

function repeated(handover: Handover): string[] {
  return [...handover.counts].filter(([, count]) => count > 1).map(([id]) => id)
}

test('members that join and leave: every record is worked on once, and no partition by two at a time', async () => {
  await playSeeds(byLane({ quick: 2, ci: 25, full: 1500 }), async (seed) => {
    const handover = await play(seed, false)
    deepEqual(
      repeated(handover).filter((id) => !handover.doubtful.has(id)),
      [],
    )
  })
})

test('members that are killed: nothing is lost, and nothing comes twice but what a killed one had not committed', async () => {
  await playSeeds(byLane({ quick: 2, ci: 25, full: 1500 }), async (seed) => {
    const handover = await play(seed, true)
    deepEqual(
      repeated(handover).filter((id) => !handover.doubtful.has(id)),
      [],
    )
  })
})
