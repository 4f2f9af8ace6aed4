import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { checkEtl } from '../support/etl-run.ts'
import { dumpToolMissing, kafkaLibraries } from '../support/kafka-dump.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { hasProgram, run } from '../support/programs.ts'
import { inRoot } from '../support/root.ts'

const missing = dumpToolMissing() ?? (hasProgram('javac') ? null : 'javac is not installed')
const skip = missing === null ? false : `needs Kafka's Java client: ${missing}`
const COMPILE_LIMIT_MS = 60_000
/** A member of either protocol that is killed is missed after so long. */
const SETTINGS = {
  MOONMQ_KAFKA__GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS: '6000',
  MOONMQ_KAFKA__GROUP_CONSUMER_SESSION_TIMEOUT_MS: '6000',
  MOONMQ_KAFKA__GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS: '500',
  MOONMQ_KAFKA__GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: '500',
}

for (const protocol of ['classic', 'consumer']) {
  test(`Java clients in a group of the ${protocol} protocol, kill -9 of broker and clients: every record exactly once`, {
    skip,
  }, async (t) => {
    const classes = mkdtempSync(join(tmpdir(), 'moonmq-java-'))
    t.after(() => rmSync(classes, { recursive: true, force: true }))
    const path = `${await kafkaLibraries(inRoot('test', 'conformance', 'pom.xml'))}/*`
    const compiled = await run('javac', ['-cp', path, '-d', classes, inRoot('test', 'crash', 'EtlWorker.java')], {
      limitMs: COMPILE_LIMIT_MS,
    })
    if (compiled.code !== 0) throw new Error(`EtlWorker.java: ${compiled.stdout}${compiled.stderr}`)
    await using broker = await BrokerProcess.start({ env: SETTINGS })
    const java = [
      '-Xmx96m',
      '-XX:TieredStopAtLevel=1',
      '-Dlog4j2.level=OFF',
      '-cp',
      `${classes}:${path}`,
      'EtlWorker',
      broker.address,
      protocol,
    ]
    await checkEtl(broker, {
      records: byLane({ quick: 200, ci: 600, full: 4000 }),
      kills: byLane({ quick: 3, ci: 6, full: 30 }),
      pauseMs: 4000,
      seed: seedOr(1),
      workers: 2,
      startWorker: (number) => spawn('java', [...java, `etl-${number}`], { stdio: 'ignore' }),
    })
  })
}
