import { before, test } from 'node:test'
import fc from 'fast-check'
import { NodeLoader } from '../../src/io/loader.ts'
import { CODEC, Codecs } from '../../src/record/compression.ts'
import { byLane, seedOr } from '../support/lane.ts'
import { LOG_COMMANDS, LogUnderTest, newLogModel } from '../support/log-commands.ts'

/**
 * The log against a plain list of records: random appends, reads, deletions, retention, compaction, stops, crashes, power cuts and
 * changes of the settings, shrunk to the shortest run that fails.
 */
const RUNS = byLane({ quick: 20, ci: 400, full: 20_000 })

const codecs = new Codecs({ loader: new NodeLoader() })
before(async () => {
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
})

test(`${RUNS} random lives of a log are those of a list of records`, async () => {
  const lives = fc.commands([...LOG_COMMANDS], { maxCommands: 60, size: 'max' })
  const property = fc.asyncProperty(lives, fc.nat(), async (commands, seed) => {
    const setup = async () => {
      const model = newLogModel()
      const real = new LogUnderTest(codecs, seed)
      await real.start(model.config)
      return { model, real }
    }
    await fc.asyncModelRun(setup, commands)
  })
  await fc.assert(property, { numRuns: RUNS, seed: seedOr(20_261_130), includeErrorInReport: true })
})
