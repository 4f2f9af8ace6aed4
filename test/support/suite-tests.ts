import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { CLIENT_SUITES, type ClientSuite, LISTS, runSuite, startBrokerForSuites, suiteMissing } from './client-suites.ts'
import { laneSize } from './lane.ts'
import { compareLists, count, readExceptions, readList, type SuiteList } from './suite-lists.ts'

/**
 * A test for each suite named: what passes on Apache Kafka 4.4 passes here. The CI lane gives a suite less time than it needs, and what did not end in
 * that time is counted and no failure; in the full lane every test must have ended.
 */
export function suiteTests(...names: readonly string[]): void {
  for (const suite of CLIENT_SUITES.filter(({ name }) => names.includes(name))) {
    const size = laneSize() === 'full' ? 'full' : 'ci'
    test(`${suite.name}: what passes on Kafka passes here`, { skip: suiteMissing(suite) ?? false }, async (t) => {
      const kafka = readList(join(LISTS.kafka, `${suite.name}.txt`))
      assert.ok(kafka !== null, `there is no list of what ${suite.name} does on Kafka`)
      await using broker = await startBrokerForSuites(suite)
      const { list, isInstalled, printed, seconds } = await runSuite(suite, broker.address, size)
      if (!isInstalled) {
        t.skip(`${suite.name} could not be installed: ${printed.slice(-500)}`)
        return
      }
      const { worse: first, notRun, stale } = compareLists(kafka, list, readExceptions(LISTS.exceptions, suite.name))
      const worse = first.length > 0 && suite.isListed === true ? await worseByThemselves(suite, first) : first
      if (worse.length < first.length) t.diagnostic(`${suite.name}: failed beside others and passed by themselves: ${first.join(', ')}`)
      t.diagnostic(`${suite.name}: ${count(list, 'passed')} passed, ${notRun.length} of Kafka's did not end in ${seconds} s`)
      const said = `${printed.slice(-4000)}\nthe broker said:\n${broker.log.slice(-4000)}`
      assert.deepEqual(worse, [], `worse than on Kafka; ${said}`)
      assert.deepEqual(stale, [], 'these pass, so they are no exceptions')
      if (size === 'full') assert.deepEqual(notRun, [], 'did not end')
      assertMuchRan(suite, kafka, list)
    })
  }
}

/** Some tests of one suite use each other's topics when they run at the same time: those that failed run once more, without the others. */
async function worseByThemselves(suite: ClientSuite, worse: readonly string[]): Promise<readonly string[]> {
  const names = worse.map((each) => each.split(' ')[0] as string)
  await using broker = await startBrokerForSuites(suite)
  const { list } = await runSuite(suite, broker.address, 'ci', names)
  return names.filter((name) => list.outcomes.get(name) !== 'passed')
}

/** A suite that was cut short or could not be installed proves nothing. */
function assertMuchRan(suite: ClientSuite, kafka: SuiteList, list: SuiteList): void {
  const wanted = Math.floor(count(kafka, 'passed') / 2)
  assert.ok(count(list, 'passed') >= wanted, `${suite.name}: only ${count(list, 'passed')} tests passed, and ${wanted} is the least`)
}
