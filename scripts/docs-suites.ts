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

/** Runs by hand, which no lane repeats. */
export const SOURCE_TESTS = `### Tests from the clients' repositories

Run by hand on 2026-11-30 from the sources, file by file, on one busy machine with both brokers; new topics had two partitions for kafkajs and aiokafka and one for the others, the broker's number was 0
for kafkajs. Left out: what needs TLS, SASL or access rules, a schema registry, and what speaks to no broker. "Worse": passes on Kafka 4.4 and not here.

| tests | command | Apache Kafka 4.4 | MoonMQ | worse |
| --- | --- | --- | --- | --- |
| kafkajs 2.2.4, the 86 files of \`src\` that speak to a broker | \`jest FILES\` with \`KAFKA_VERSION=2.4\` | 373 passed, 66 failed | 400 passed, 39 failed | 0 |
| aiokafka 0.14.0, \`tests/test_*.py\` but \`test_sasl\` | \`pytest -m "not ssl"\` with fixtures that give the address | 239 passed, 0 failed | 239 passed, 0 failed | 0 |
| @platformatic/kafka 2.9.0 (f84b496), its folders clients and issues but SASL, Node 24 | \`node --test FILE\` | 597 passed, 14 failed | 580 passed, 31 failed | 20: 18 of ACLs and quotas (APIs 29-31, 48, 49); one wants the words of Kafka's documentation of cleanup.policy; one ("send should handle errors from ConnectionPool.get") wants the fifth connection that a first send to a new topic asks for to be the one to write on: it is when the topic is there at the second question, here it is there at the first (4 in all), and alone the test failed on Kafka, too, 8 times of 8 (8 in all, or an unknown topic) |
| confluent-kafka-python 2.15.0, \`tests/integration\`: admin, consumer, producer, share_consumer; the consumers also with \`TEST_CONSUMER_GROUP_PROTOCOL=consumer\` | \`pytest FILE\` with \`BROKERS\` | 90 passed, 2 failed, 4 skipped, then cut by time | 150 passed, 2 failed, 4 skipped | 1: test_basic_operations, at its ACLs |

What fails on both was written for three brokers, for users that were not set up, or for older versions of Kafka; a test of confluent-kafka-python (test_incremental_alter_configs) expects
min.insync.replicas among the settings that are no defaults, as Kafka with eligible leader replicas sets it. Tests of confluent-kafka-javascript were not run: its package is built from source.

A consumer of node-rdkafka (3.6.1, flowing mode) never ends when a message or an end of partition comes between disconnect() and the end of the wait of its loop, on Kafka too: node-rdkafka drops what came
without freeing it, and librdkafka waits for it. With fetch.wait.max.ms below that wait (1 s) and enable.partition.eof it happens always; where both are 1 s, as in its own tests, by chance, here and there.
The tests behind the one that hangs do not run.`
