import { basename, resolve } from 'node:path'
import { SystemClock } from '../../core/clock.ts'
import { DEFAULT_POOL_SIZE, thisMachine } from '../../server/machine.ts'
import { type Finding, type ValidateProgress, type ValidationReport, validateDataFolder } from '../../server/offline.ts'
import { type CliContext, EXIT } from '../context.ts'
import { isFolder } from '../files.ts'
import { bytesText, counted, printJson, styled, table } from '../output.ts'
import { ProgressLine } from '../progress.ts'

export interface ValidateCommandOptions {
  readonly json?: boolean
  /** Also where nobody seems to look: a line each time instead of one that is written over. */
  readonly progress?: boolean
}

/** Checks a data folder that no broker uses; exit 1 when anything is wrong. */
export async function validate(context: CliContext, folder: string, options: ValidateCommandOptions): Promise<number> {
  const path = resolve(context.cwd, folder)
  if (!(await isFolder(path))) {
    context.err(`moonmq: there is no folder ${path}; name the data folder of a broker that was stopped\n`)
    return EXIT.notFound
  }
  const clock = new SystemClock()
  const startedMs = clock.monotonicMs()
  const progress = new ProgressLine(context, clock, options.progress === true)
  const report = await checkFolder(path, ({ file, bytesDone, bytesTotal }) => progress.show(file, bytesDone, bytesTotal))
  progress.end()
  const elapsedMs = Math.round(clock.monotonicMs() - startedMs)
  if (options.json) printJson(context, { ...report, kinds: findingsByKind(report), elapsedMs, ok: isSound(report) })
  else printReport(context, report, elapsedMs)
  return isSound(report) ? EXIT.done : EXIT.failed
}

export function checkFolder(folder: string, onProgress?: (progress: ValidateProgress) => void): Promise<ValidationReport> {
  return validateDataFolder(thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: null }), folder, onProgress)
}

export function isSound(report: ValidationReport): boolean {
  return report.problems.length === 0
}

function printReport(context: CliContext, report: ValidationReport, elapsedMs: number): void {
  const rows = report.topics.map((topic) => {
    const sum = (of: (partition: (typeof topic.partitions)[number]) => number) =>
      topic.partitions.reduce((total, partition) => total + of(partition), 0)
    return [topic.topic, topic.partitions.length, sum((p) => p.segments), sum((p) => p.records), sum((p) => p.bytes)]
  })
  context.out(table(context, ['TOPIC', 'PARTITIONS', 'SEGMENTS', 'RECORDS', 'BYTES'], rows))
  const seconds = elapsedMs / 1000
  const rate = seconds > 0 ? `, ${bytesText(report.totals.bytes / seconds)}/s` : ''
  context.out(`${totalsLine(report)}; ${report.totals.batches} batches read in ${seconds.toFixed(1)} s${rate}\n`)
  for (const { file, position, reason } of report.problems) {
    context.out(`${styled(context, 'red', 'problem')} ${place(file, position)}: ${reason}\n`)
  }
  if (report.problemsLeftOut > 0) context.out(`and ${counted(report.problemsLeftOut, 'problem')} more\n`)
  for (const { file, position, reason } of report.repairs) {
    context.out(`${styled(context, 'yellow', 'to be repaired by the next start')} ${place(file, position)}: ${reason}\n`)
  }
  for (const { file, reason } of report.notes) context.out(`${styled(context, 'dim', 'note')} ${file}: ${reason}\n`)
  for (const [list, kinds] of Object.entries(findingsByKind(report))) {
    const counts = Object.entries(kinds).map(([kind, count]) => `${count} in ${kind}`)
    if (counts.length > 0) context.out(`${list}: ${counts.join(', ')}\n`)
  }
  context.out(verdict(context, report))
}

/** How many findings of each list concern which kind of file. */
function findingsByKind(report: Pick<ValidationReport, 'problems' | 'repairs' | 'notes'>): Record<string, Record<string, number>> {
  const count = (findings: readonly Finding[]) => {
    const kinds: Record<string, number> = {}
    for (const { file } of findings) kinds[fileKind(file)] = (kinds[fileKind(file)] ?? 0) + 1
    return kinds
  }
  return { problems: count(report.problems), repairs: count(report.repairs), notes: count(report.notes) }
}

/** `log`, `index`, …: the ending of a segment's file, else its name, else that it is a folder. */
function fileKind(file: string): string {
  const name = basename(file)
  const segment = /^\d{20}(?:-\d{10})?\.(log|index|timeindex|txnindex|snapshot|checkpoint)$/.exec(name)
  if (segment !== null) return segment[1] as string
  return file === name && !name.includes('moonmq-') && name !== 'meta.properties' ? 'folder' : name
}

export function totalsLine({ totals }: ValidationReport): string {
  const { topics, partitions, segments, records, bytes } = totals
  return `${counted(topics, 'topic')}, ${counted(partitions, 'partition')}, ${counted(segments, 'segment')}, ${counted(records, 'record')}, ${bytes} bytes (${bytesText(bytes)})`
}

export function verdict(context: CliContext, report: ValidationReport): string {
  return isSound(report)
    ? styled(context, 'green', 'on-disk data: OK\n')
    : `${styled(context, 'red', 'on-disk data: DAMAGED')}; "moonmq log repair" says what can be done\n`
}

export function place(file: string, position: number | null): string {
  return position === null ? file : `${file} at byte ${position}`
}
