import { spawn } from 'node:child_process'
import { test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { checkEtl } from '../support/etl-run.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { inRoot } from '../support/root.ts'

const PROGRAM = inRoot('dist', 'test', 'support', 'etl-worker.js')

test('transactions under kill -9 of broker and clients: every record exactly once', async () => {
  await using broker = await BrokerProcess.start()
  await checkEtl(broker, {
    records: byLane({ quick: 200, ci: 1200, full: 12_000 }),
    kills: byLane({ quick: 3, ci: 8, full: 60 }),
    pauseMs: 2500,
    seed: seedOr(1),
    workers: 2,
    startWorker: () => spawn(process.execPath, [PROGRAM, broker.address], { stdio: 'ignore' }),
  })
})
