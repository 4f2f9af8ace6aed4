import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BROKER_SETTINGS } from '../../src/config/broker-settings.ts'
import { variableOf } from '../../src/config/environment.ts'
import { BrokerProcess } from './broker-process.ts'
import { kafkaClient } from './kafkajs.ts'
import { exists, hasProgram, laneFolder, run } from './programs.ts'
import { inRoot } from './root.ts'
import { count, type LogKind, readList, readOutcomes, type SuiteList } from './suite-lists.ts'

/** The clients' own test suites: scripts kept outside of the project, in the folder that MOONMQ_SUITES names. */

export interface ClientSuite {
  /** Of its lists and exceptions; the script's name when `script` is not given. */
  readonly name: string
  readonly script?: string
  readonly log: LogKind
  /** Programs it needs. */
  readonly needs: readonly string[]
  /** What the script takes as its filter. */
  readonly filter?: string
  readonly env?: Readonly<Record<string, string>>
  /** Topics of one partition that its tests expect to be there. */
  readonly topics?: readonly string[]
  /** Settings of its broker that are others than those of all suites. */
  readonly settings?: Readonly<Record<string, string>>
  /** What its heavy steps run under. */
  readonly wrap?: string
  /** Its script takes a list of tests: those that pass on Kafka. The others are told to stay out. */
  readonly isListed?: true
  /** Seconds for the tests alone, wholly; null = the script's own. */
  readonly limitS: number | null
  /** In the CI lane: less time, or only a part. Absent = as it is. */
  readonly ci?: { readonly limitS?: number; readonly filter?: string; readonly env?: Readonly<Record<string, string>> }
}

export const LISTS = {
  kafka: inRoot('test', 'conformance', 'kafka-4.4.0'),
  moonmq: inRoot('test', 'conformance', 'moonmq'),
  exceptions: inRoot('test', 'conformance', 'exceptions.txt'),
} as const

const LIBRDKAFKA_1 =
  '0001,0002,0003,0005,0007,0008,0011,0012,0013,0014,0015,0017,0018,0019,0022,0026,0029,0030,0031,0033,0034,0036,0039,0040,0041,0044,0045,0047,0048,0049,0050,0051,0052,0054,0055,0056,0057'
const LIBRDKAFKA_2 =
  '0060,0061,0063,0064,0065,0067,0069,0070,0073,0074,0081,0082,0083,0084,0085,0089,0090,0093,0094,0098,0099,0102,0103,0107,0109,0110,0111,0112,0113,0114,0115,0116,0118,0119,0120,0121,0122,0125,0127,0129,0130,0132,0137,0140,0153,0170'
const COMPILER = ['gcc', 'g++', 'make', 'npm']

export const CLIENT_SUITES: readonly ClientSuite[] = [
  { name: 'kcat', log: 'steps', needs: ['kcat'], limitS: null },
  { name: 'java-tools', log: 'steps', needs: ['java', 'mvn'], limitS: null },
  { name: 'java-streams', log: 'streams', needs: ['java', 'javac', 'mvn'], limitS: null },
  { name: 'franz-go', log: 'go', needs: ['go'], limitS: 600, ci: { limitS: 240, env: { RECORDS: '8000' } } },
  {
    name: 'librdkafka-1',
    script: 'librdkafka',
    log: 'librdkafka',
    needs: COMPILER,
    filter: LIBRDKAFKA_1,
    limitS: 300,
    // 0055 measures latencies, and leaves itself out where the variable CI is set.
    ci: { limitS: 120, filter: LIBRDKAFKA_1.replace('0055,', '') },
  },
  {
    name: 'librdkafka-2',
    script: 'librdkafka',
    log: 'librdkafka',
    needs: COMPILER,
    filter: LIBRDKAFKA_2,
    limitS: 480,
    ci: { limitS: 200 },
  },
  { name: 'kafka-python', log: 'pytest', needs: ['python3'], limitS: 400, ci: { limitS: 180 } },
  {
    name: 'kafka-go',
    log: 'go',
    needs: ['go'],
    env: { SKIP: '^(TestConn|TestReaderConsumerGroup)$' },
    limitS: 300,
    // Without those that wait long and fail on Kafka too.
    ci: {
      limitS: 200,
      env: {
        SKIP: '^(TestConn|TestReaderConsumerGroup|TestClient|TestDialer.*|TestRebalance.*|TestConsumerGroupWith(Topic|GroupTopicsSingle))$',
      },
    },
  },
  { name: 'kafka-go-reader', script: 'kafka-go', log: 'go', needs: ['go'], filter: '^TestReaderConsumerGroup$', limitS: 120 },
  { name: 'kfake-behaviours', log: 'go', needs: ['go'], isListed: true, limitS: 420, ci: { limitS: 120 } },
  {
    name: 'node-rdkafka',
    log: 'mocha',
    needs: COMPILER,
    wrap: `bash ${inRoot('test', 'conformance', 'mocha-bdd.sh')}`,
    topics: ['test', 'test2', 'test3', 'test4', 'test5', 'test6'],
    // Its transactions expect that what was written first is read first, from topics that make themselves.
    settings: { 'num.partitions': '1' },
    // A consumer of node-rdkafka that is given something while it is being closed never ends, on Kafka too.
    env: { TEST_TIMEOUT: '30000' },
    limitS: 300,
    // All but `Consumer/Producer`, where that happens: who does not end may crash the tests behind.
    ci: { limitS: 120, filter: '^(Admin|Consumer |Transactional|Producer)' },
  },
]

/** What the suites want of a broker, as they get it of Kafka: `kafka.properties` beside the scripts. */
const BROKER_WANTED: Readonly<Record<string, string>> = {
  'node.id': '1',
  'num.partitions': '4',
  'offsets.topic.num.partitions': '5',
  'transaction.state.log.num.partitions': '5',
  'share.coordinator.state.topic.num.partitions': '5',
  'group.consumer.min.heartbeat.interval.ms': '100',
  'group.consumer.heartbeat.interval.ms': '500',
  'group.min.session.timeout.ms': '1000',
  'group.consumer.min.session.timeout.ms': '1000',
  'group.share.min.record.lock.duration.ms': '1000',
  'group.share.record.lock.duration.ms': '3000',
  'log.segment.delete.delay.ms': '1000',
  'transaction.max.timeout.ms': '900000',
  'message.max.bytes': '4000000',
}

/** A new broker with the settings that the suite wants. Those of parts that this version does not have are left out. */
export function startBrokerForSuites({ settings }: ClientSuite): Promise<BrokerProcess> {
  const known = new Set(BROKER_SETTINGS.map(({ name }) => name))
  const given = Object.entries({ ...BROKER_WANTED, ...settings }).filter(([name]) => known.has(name))
  return BrokerProcess.start({ env: Object.fromEntries(given.map(([name, value]) => [variableOf(`kafka.${name}`), value])) })
}

/** Why the suite cannot run here; null when it can. */
export function suiteMissing(suite: ClientSuite): string | null {
  const folder = process.env.MOONMQ_SUITES
  if (folder === undefined) return 'MOONMQ_SUITES does not name the folder with the client suites'
  if (!exists(scriptOf(suite))) return `there is no ${scriptOf(suite)}`
  const missing = suite.needs.filter((program) => !hasProgram(program))
  return missing.length === 0 ? null : `not installed: ${missing.join(', ')}`
}

function scriptOf({ name, script }: ClientSuite): string {
  return join(process.env.MOONMQ_SUITES ?? '', `${script ?? name}.sh`)
}

export interface SuiteRun {
  readonly list: SuiteList
  /** Whether its tests began at all. */
  readonly isInstalled: boolean
  readonly printed: string
  readonly seconds: number
}

/** The first install and build of a suite, beyond the time of its tests. */
const INSTALL_LIMIT_MS = 12 * 60_000

/** Runs a suite, wholly or its part for the CI lane, against an address of this machine; with `only`, just those tests, one after another. */
export async function runSuite(
  suite: ClientSuite,
  address: string,
  size: 'ci' | 'full',
  only: readonly string[] | null = null,
): Promise<SuiteRun> {
  const part = size === 'ci' ? (suite.ci ?? {}) : {}
  const limitS = part.limitS ?? suite.limitS
  const suitesFolder = process.env.MOONMQ_TEST_SUITES_DIR ?? laneFolder('suites')
  mkdirSync(suitesFolder, { recursive: true })
  const env = {
    ...suite.env,
    ...part.env,
    SUITES_DIR: suitesFolder,
    SUITE_WRAP: [process.env.MOONMQ_TEST_SUITE_WRAP, suite.wrap].filter((each) => each !== undefined).join(' '),
    ...(limitS === null ? {} : { LIMIT: String(limitS) }),
  }
  if (suite.isListed === true) Object.assign(env, { LIST: listFile(suite, suitesFolder, only ?? passingOnKafka(suite)) })
  // Three tests of kfake delete and make the one topic `t`, at the same time when they can.
  if (only !== null) Object.assign(env, { PARALLEL: '1' })
  const logs = ['run.log', 'run.log.txt', 'out.json'].map((file) => join(suitesFolder, suite.script ?? suite.name, file))
  for (const file of logs) rmSync(file, { force: true })
  await createTopics(address, suite.topics ?? [])
  const startedMs = Date.now()
  const ran = await run('bash', [scriptOf(suite), address, part.filter ?? suite.filter ?? ''], {
    limitMs: INSTALL_LIMIT_MS + (limitS ?? 600) * 1000,
    env,
  })
  const seconds = Math.round((Date.now() - startedMs) / 1000)
  const printed = ran.stdout + ran.stderr
  const outcomes = readOutcomes(suite.log, join(suitesFolder, suite.script ?? suite.name), printed)
  return { list: { head: [], outcomes }, isInstalled: logs.some(exists), printed, seconds }
}

async function createTopics(address: string, topics: readonly string[]): Promise<void> {
  if (topics.length === 0) return
  const admin = kafkaClient(address, 'suites').admin()
  await admin.connect()
  await admin.createTopics({ topics: topics.map((topic) => ({ topic, numPartitions: 1 })) })
  await admin.disconnect()
}

/** Empty when there is no list. */
function passingOnKafka({ name }: ClientSuite): readonly string[] {
  const kafka = readList(join(LISTS.kafka, `${name}.txt`))
  return [...(kafka?.outcomes ?? [])].flatMap(([test, outcome]) => (outcome === 'passed' ? [test] : []))
}

/** A file with the names of tests; an empty name, which means all, when there are none. */
function listFile({ name }: ClientSuite, folder: string, tests: readonly string[]): string {
  if (tests.length === 0) return ''
  const path = join(folder, `${name}.list`)
  writeFileSync(path, `${tests.join('\n')}\n`)
  return path
}

/** The first lines of a list's file. */
export function headOf(suite: ClientSuite, broker: string, outcomes: SuiteList['outcomes'], seconds: number): string[] {
  const list = { head: [], outcomes }
  const cut = count(list, 'cut')
  const counts = `${count(list, 'passed')} passed, ${count(list, 'failed')} failed, ${count(list, 'skipped')} skipped`
  return [
    `${suite.name} on ${broker}: ${counts}${cut > 0 ? `, ${cut} cut` : ''} in ${seconds} s`,
    `limit: ${suite.limitS === null ? "the script's own" : `${suite.limitS} s`}${suite.filter === undefined ? '' : `; filter: ${suite.filter}`}`,
  ]
}
