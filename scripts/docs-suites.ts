import { join } from 'node:path'
import { CLIENT_SUITES, LISTS } from '../test/support/client-suites.ts'
import { compareLists, count, readExceptions, readList, type SuiteList } from '../test/support/suite-lists.ts'

/** The scores of the clients' own suites, from the lists that are kept of runs on both brokers. */
export function suitesTable(): string {
  const rows = CLIENT_SUITES.map(({ name }) => {
    const kafka = readList(join(LISTS.kafka, `${name}.txt`))
    const here = readList(join(LISTS.moonmq, `${name}.txt`))
    return `| ${name} | ${score(kafka)} | ${score(here)} | ${missing(name, kafka, here)} |`
  })
  return ['| suite | Apache Kafka 4.4 | MoonMQ | passes on Kafka and not here |', '| --- | --- | --- | --- |', ...rows].join('\n')
}

function score(list: SuiteList | null): string {
  if (list === null) return 'not run yet'
  const others = (['failed', 'skipped', 'cut'] as const).map((outcome) => [outcome, count(list, outcome)] as const)
  const named = others.filter(([outcome, many]) => many > 0 || outcome === 'failed').map(([outcome, many]) => `${many} ${outcome}`)
  return `${count(list, 'passed')} passed, ${named.join(', ')}`
}

function missing(name: string, kafka: SuiteList | null, here: SuiteList | null): string {
  if (kafka === null || here === null) return ''
  const exceptions = readExceptions(LISTS.exceptions, name)
  const { worse, notRun } = compareLists(kafka, here, exceptions)
  const excepted = [...exceptions.keys()].filter((each) => kafka.outcomes.get(each) === 'passed').length
  return [worse.length + notRun.length, ...(excepted > 0 ? [`and ${excepted} excepted`] : [])].join(', ')
}
