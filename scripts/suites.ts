/**
 * Runs the clients' own suites on demand: `npm run suites -- moonmq|HOST:PORT [--write FOLDER] [SUITE ...]`. `moonmq` starts a new broker
 * for each suite; an address may be a real Kafka of this machine. Prints what passes on Kafka and does not here; `--write` keeps the
 * lists in a folder. Needs MOONMQ_SUITES. Exit 1 when something is worse than on Kafka.
 */
import { join } from 'node:path'
import {
  CLIENT_SUITES,
  type ClientSuite,
  headOf,
  LISTS,
  runSuite,
  startBrokerForSuites,
  suiteMissing,
} from '../test/support/client-suites.ts'
import { compareLists, readExceptions, readList, type SuiteList, writeList } from '../test/support/suite-lists.ts'

const args = process.argv.slice(2)
const writeAt = args.indexOf('--write')
const folder = writeAt < 0 ? null : (args.splice(writeAt, 2)[1] ?? null)
const [target, ...names] = args
const unknown = names.filter((name) => !CLIENT_SUITES.some((suite) => suite.name === name))
if (target === undefined || unknown.length > 0) {
  console.error(`usage: npm run suites -- moonmq|HOST:PORT [--write FOLDER] [SUITE ...]`)
  console.error(`suites: ${CLIENT_SUITES.map(({ name }) => name).join(', ')}`)
  process.exitCode = 2
} else {
  for (const suite of CLIENT_SUITES) {
    if ((names.length === 0 || names.includes(suite.name)) && !(await runOne(suite, target))) process.exitCode = 1
  }
}

/** Resolves to whether nothing is worse than on Kafka. */
async function runOne(suite: ClientSuite, target: string): Promise<boolean> {
  const missing = suiteMissing(suite)
  if (missing !== null) {
    console.log(`${suite.name}: did not run, ${missing}`)
    return false
  }
  await using broker = target === 'moonmq' ? await startBrokerForSuites(suite) : null
  const address = broker?.address ?? target
  const ran = await runSuite(suite, address, 'full')
  const { printed, seconds } = ran
  const list = suite.isListed === true ? await failedOnceMore(suite, address, ran.list) : ran.list
  const head = headOf(suite, broker === null ? target : 'MoonMQ', list.outcomes, seconds)
  console.log(head[0])
  if (list.outcomes.size === 0) console.log(printed)
  if (folder !== null && list.outcomes.size > 0) writeList(join(folder, `${suite.name}.txt`), { ...list, head })
  const kafka = readList(join(LISTS.kafka, `${suite.name}.txt`))
  if (kafka === null) return list.outcomes.size > 0
  const { worse, notRun, stale } = compareLists(kafka, list, readExceptions(LISTS.exceptions, suite.name))
  for (const name of worse) console.log(`  passes on Kafka: ${name}`)
  for (const name of notRun) console.log(`  passes on Kafka, did not end here: ${name}`)
  for (const name of stale) console.log(`  passes, so it is no exception: ${name}`)
  return worse.length === 0 && notRun.length === 0
}

/** Tests that use each other's topics pass when they run one after another. */
async function failedOnceMore(suite: ClientSuite, address: string, list: SuiteList): Promise<SuiteList> {
  const failed = [...list.outcomes].flatMap(([name, outcome]) => (outcome === 'failed' ? [name] : []))
  if (failed.length === 0) return list
  const alone = await runSuite(suite, address, 'full', failed)
  return { ...list, outcomes: new Map([...list.outcomes, ...alone.list.outcomes]) }
}
