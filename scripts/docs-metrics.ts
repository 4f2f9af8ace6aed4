/** docs/METRICS.md, from the catalogue of src/obs. */
import { METRICS, SECONDS_BUCKETS } from '../src/obs/catalogue.ts'

const HEAD = `# Metrics

<!-- Made by scripts/docs-metrics.ts from src/obs/catalogue.ts. Do not edit. -->

\`GET /metrics\` on the HTTP listener (by default http://127.0.0.1:9090/metrics) answers in Prometheus' text format, version 0.0.4. Counters are plain
numbers until the first scrape; nothing is computed for a broker that nobody watches. Histograms are in seconds, with the bounds
${SECONDS_BUCKETS.join(', ')}. The series of a topic go when it is deleted. Beyond 10,000 series of one metric, further ones are not kept and counted in
\`moonmq_metric_series_dropped_total\`.
Besides these there are \`process_*\` and \`nodejs_*\` for memory, processor time, descriptors and the event loop.

| name | type | labels | what it is |
| --- | --- | --- | --- |
`

/** The metrics document as text. */
export function metricsDocument(): string {
  const rows = METRICS.map(
    ({ name, type, labels, help }) => `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${help} |`,
  )
  return `${HEAD}${rows.join('\n')}\n`
}
