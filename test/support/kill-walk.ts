import assert from 'node:assert/strict'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { variableOf } from '../../src/config/environment.ts'
import { FAILPOINT_NAMES, type FailpointName } from '../../src/core/failpoint.ts'
import { BrokerProcess } from './broker-process.ts'
import { IN_PROCESS_ONLY, nthsOf, SETTINGS, TURNS, type WayThere, wayTo } from './failpoint-plan.ts'
import { Promises } from './promises.ts'
import { RawKafka } from './raw-kafka.ts'
import { WidePromises } from './wide-promises.ts'

/** Requests to many partitions within which each moment of the journal must come; the first ones find that it is being made. */
const WIDE_TURNS = 1000
/** So many times the usual work, within which the cleaner must come to each of its moments. */
const CLEANER_PATIENCE = 20
/** So long that the journal still takes it for each partition, and some twenty requests fill an area. */
const FILLING_BYTES = 48_000

const settings = {
  ...SETTINGS.kafka,
  'log.cleaner.backoff.ms': '1',
  // The kills come in the topic whose keys are checked: others are never dirty enough.
  'log.cleaner.min.cleanable.ratio': '1',
}
/** Of a broker that comes to every moment. */
export const killEnv = Object.fromEntries(Object.entries(settings).map(([name, value]) => [variableOf(`kafka.${name}`), value]))

/** What one broker promised in all its lives. */
export class AllPromises {
  readonly usual = new Promises()
  readonly wide = new WidePromises()

  async check(kafka: RawKafka): Promise<void> {
    await this.usual.begin(kafka)
    await this.usual.check(kafka)
    await this.wide.check(kafka)
  }
}

/** Half a batch at the end of the active segment of a partition. */
export async function tear(broker: BrokerProcess, partition: string): Promise<void> {
  const folder = join(broker.dataDir, partition)
  const last = (await readdir(folder))
    .filter((name) => name.endsWith('.log'))
    .sort()
    .at(-1)
  assert.ok(last !== undefined)
  const file = await open(join(folder, last), 'a')
  await file.write(Buffer.alloc(77, 1))
  await file.close()
}

/** False when it died before it served. */
export async function startsWith(broker: BrokerProcess, failpoint: string): Promise<boolean> {
  try {
    await broker.start({ MOONMQ_FAILPOINT: failpoint })
    return true
  } catch (error) {
    assert.match(String(error), /SIGKILL/)
    return false
  }
}

export async function verify(broker: BrokerProcess, promises: AllPromises): Promise<void> {
  await broker.start()
  const kafka = await RawKafka.connect(broker.address)
  try {
    await promises.check(kafka)
  } finally {
    kafka[Symbol.dispose]()
  }
}

async function untilDeath(broker: BrokerProcess, work: (kafka: RawKafka) => Promise<void>): Promise<void> {
  let kafka: RawKafka | null = null
  try {
    kafka = await RawKafka.connect(broker.address)
    await work(kafka)
  } catch (error) {
    // The connection ends a little before the process is seen to have.
    assert.match(String(error), /closed|ECONNRESET|EPIPE|ECONNREFUSED/)
  } finally {
    kafka?.[Symbol.dispose]()
  }
}

type Walk = (broker: BrokerProcess, promises: AllPromises, name: FailpointName, nth: number) => Promise<boolean>

/** Starts a broker that will die, and works until it does. False when it did not, not even when it was stopped. */
async function dies(broker: BrokerProcess, failpoint: string, work: (kafka: RawKafka) => Promise<void>): Promise<boolean> {
  if (await startsWith(broker, failpoint)) {
    await untilDeath(broker, work)
    return (await broker.stop()) === null
  }
  await broker.kill()
  return true
}

const diesInJournal: Walk = async (broker, { wide }, name, nth) => {
  await broker.kill()
  const paddingBytes = name === 'journal.turned' ? FILLING_BYTES : 0
  return await dies(broker, `${name}:kill@${nth}`, async (kafka) => {
    await wide.begin(kafka)
    await wide.work(kafka, WIDE_TURNS, paddingBytes)
  })
}

/** To each moment from a broker that runs; false when it did not come. */
const WALKS: Readonly<Record<WayThere, Walk>> = {
  work: async (broker, { usual }, name, nth) => {
    await broker.kill()
    await tear(broker, 'plain-0')
    return await dies(broker, `${name}:kill@${nth}`, (kafka) => usual.work(kafka, TURNS))
  },
  cleaner: async (broker, { usual }, name, nth) => {
    const kafka = await RawKafka.connect(broker.address)
    await usual.work(kafka, TURNS)
    kafka[Symbol.dispose]()
    assert.equal(await broker.stop(), 0)
    return await dies(broker, `${name}:kill@${nth}`, async (kafka) => {
      // The cleaner works in the background: on a machine that is busy, later.
      for (let more = 0; more < CLEANER_PATIENCE; more++) await usual.work(kafka, TURNS)
    })
  },
  journal: diesInJournal,
  replay: async (broker, promises, name, nth) => {
    assert.ok(await diesInJournal(broker, promises, 'journal.synced', 3))
    return !(await startsWith(broker, `${name}:kill@${nth}`))
  },
}

/** Kills a broker at every named moment to which one of the ways leads, and looks after each for all that was ever promised. */
export async function walkMoments(t: TestContext, ways: readonly WayThere[]): Promise<void> {
  await using broker = await BrokerProcess.start({ env: killEnv })
  const promises = new AllPromises()
  await workAndCheck(broker, promises)
  const missed: string[] = []
  for (const name of FAILPOINT_NAMES) {
    if (IN_PROCESS_ONLY.has(name) || !ways.includes(wayTo(name))) continue
    for (const nth of nthsOf(name)) {
      await t.test(`${name}@${nth}`, async () => {
        if (!(await WALKS[wayTo(name)](broker, promises, name, nth))) missed.push(`${name}@${nth}`)
        await broker.kill()
        await verify(broker, promises)
      })
    }
  }
  assert.deepEqual(missed, [], 'moments that this work never came to')
}

export async function workAndCheck(broker: BrokerProcess, promises: AllPromises): Promise<void> {
  const kafka = await RawKafka.connect(broker.address)
  try {
    await promises.usual.begin(kafka)
    await promises.usual.work(kafka, TURNS)
    await promises.check(kafka)
  } finally {
    kafka[Symbol.dispose]()
  }
}
