/** Writes every document that is printed from a table: `npm run docs`. A test compares them with what is committed. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { configDocument, configSchema } from './docs-config.ts'
import { errorsDocument } from './docs-errors.ts'
import { kafkaDocument } from './docs-kafka.ts'
import { metricsDocument } from './docs-metrics.ts'
import { mqlDocument } from './docs-mql.ts'
import { protocolDocument } from './docs-protocol.ts'

/** Path from the project's folder, and how to make the text. */
export const PRINTED: ReadonlyMap<string, () => string> = new Map([
  ['docs/CONFIG.md', configDocument],
  ['docs/moonmq.schema.json', configSchema],
  ['docs/METRICS.md', metricsDocument],
  ['docs/ERRORS.md', errorsDocument],
  ['docs/PROTOCOL.md', protocolDocument],
  ['docs/MQL.md', mqlDocument],
  ['docs/KAFKA.md', () => kafkaDocument()],
])

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, print] of PRINTED) writeFileSync(new URL(`../../${path}`, import.meta.url), print())
}
