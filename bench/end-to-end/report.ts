/** One run of one workload. */
export interface Measured {
  readonly workload: string
  readonly unit: string
  readonly higherIsBetter: boolean
  readonly server: string
  readonly mode: string
  readonly value: number
}

const OWN = 'MoonMQ'

/** Medians by workload, a column for each server and mode, and how many times better MoonMQ is in the same round. */
export function markdownTable(results: readonly Measured[]): string {
  const columns = unique(results.filter((r) => r.mode !== '').map(column))
  const rivals = columns.filter((name) => !name.startsWith(OWN))
  const shown = columns.length > 0 ? columns : unique(results.map(column))
  const head = ['workload', 'unit', ...shown, ...rivals.map((name) => `MoonMQ / ${name}`)]
  const lines = [row(head), row(head.map(() => '---'))]
  for (const workload of unique(results.map((r) => r.workload))) {
    const of = results.filter((r) => r.workload === workload)
    const first = of[0] as Measured
    const values = (name: string) =>
      of.filter((r) => column(r) === name || (r.mode === '' && name.startsWith(r.server))).map((r) => r.value)
    const own = values(shown.find((name) => name.startsWith(OWN)) ?? OWN)
    const ratios = rivals.map((name) => {
      const theirs = values(name)
      return median(
        own.map((value, round) => (first.higherIsBetter ? value / (theirs[round] ?? Number.NaN) : (theirs[round] ?? Number.NaN) / value)),
      )
    })
    lines.push(
      row([
        workload,
        first.unit,
        ...shown.map((name) => spread(values(name))),
        ...ratios.map((ratio) => (Number.isFinite(ratio) ? `${ratio.toFixed(2)} ×` : '–')),
      ]),
    )
  }
  return `${lines.join('\n')}\n`
}

function column(result: Measured): string {
  return result.mode === '' ? result.server : `${result.server} ${result.mode}`
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)]
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}

export function median(values: readonly number[]): number {
  const sorted = values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b)
  const middle = sorted.length >> 1
  if (sorted.length === 0) return Number.NaN
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}

function spread(values: readonly number[]): string {
  if (values.length === 0) return '–'
  return values.length === 1
    ? short(values[0] as number)
    : `${short(median(values))} (${short(Math.min(...values))}–${short(Math.max(...values))})`
}

function short(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : Number(value.toPrecision(3)).toString()
}
