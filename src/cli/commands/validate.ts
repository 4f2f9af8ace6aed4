import { resolve } from 'node:path'
import { DEFAULT_POOL_SIZE, thisMachine } from '../../server/machine.ts'
import { type ValidateProgress, type ValidationReport, validateDataFolder } from '../../server/offline.ts'
import { type CliContext, EXIT } from '../context.ts'
import { isFolder } from '../files.ts'
import { bytesText, counted, printJson, styled, table } from '../output.ts'

export interface ValidateCommandOptions {
  readonly json?: boolean
}

/** Checks a data folder that no broker uses; exit 1 when anything is wrong. */
export async function validate(context: CliContext, folder: string, options: ValidateCommandOptions): Promise<number> {
  const path = resolve(context.cwd, folder)
  if (!(await isFolder(path))) {
    context.err(`moonmq: there is no folder ${path}; name the data folder of a broker that was stopped\n`)
    return EXIT.notFound
  }
  const showProgress = context.errIsTerminal && !options.json
  const report = await checkFolder(path, showProgress ? (progress) => context.err(progressLine(progress)) : undefined)
  if (showProgress) context.err('\r\u001b[K')
  if (options.json) printJson(context, { ...report, ok: isSound(report) })
  else printReport(context, report)
  return isSound(report) ? EXIT.done : EXIT.failed
}

export function checkFolder(folder: string, onProgress?: (progress: ValidateProgress) => void): Promise<ValidationReport> {
  return validateDataFolder(thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: null }), folder, onProgress)
}

export function isSound(report: ValidationReport): boolean {
  return report.problems.length === 0
}

function printReport(context: CliContext, report: ValidationReport): void {
  const rows = report.topics.map((topic) => {
    const sum = (of: (partition: (typeof topic.partitions)[number]) => number) =>
      topic.partitions.reduce((total, partition) => total + of(partition), 0)
    return [topic.topic, topic.partitions.length, sum((p) => p.segments), sum((p) => p.records), sum((p) => p.bytes)]
  })
  context.out(table(context, ['TOPIC', 'PARTITIONS', 'SEGMENTS', 'RECORDS', 'BYTES'], rows))
  context.out(`${totalsLine(report)}\n`)
  for (const { file, position, reason } of report.problems) {
    context.out(`${styled(context, 'red', 'problem')} ${place(file, position)}: ${reason}\n`)
  }
  if (report.problemsLeftOut > 0) context.out(`and ${counted(report.problemsLeftOut, 'problem')} more\n`)
  for (const { file, position, reason } of report.repairs) {
    context.out(`${styled(context, 'yellow', 'to be repaired by the next start')} ${place(file, position)}: ${reason}\n`)
  }
  for (const { file, reason } of report.notes) context.out(`${styled(context, 'dim', 'note')} ${file}: ${reason}\n`)
  context.out(verdict(context, report))
}

export function totalsLine({ totals }: ValidationReport): string {
  const { topics, partitions, segments, records, bytes } = totals
  return `${counted(topics, 'topic')}, ${counted(partitions, 'partition')}, ${counted(segments, 'segment')}, ${counted(records, 'record')}, ${bytes} bytes (${bytesText(bytes)})`
}

export function verdict(context: CliContext, report: ValidationReport): string {
  return isSound(report) ? styled(context, 'green', 'on-disk data: OK\n') : styled(context, 'red', 'on-disk data: DAMAGED\n')
}

export function place(file: string, position: number | null): string {
  return position === null ? file : `${file} at byte ${position}`
}

function progressLine({ file, bytesDone, bytesTotal }: ValidateProgress): string {
  const percent = bytesTotal === 0 ? 100 : Math.floor((bytesDone / bytesTotal) * 100)
  return `\r\u001b[K${percent} % ${file}`
}
