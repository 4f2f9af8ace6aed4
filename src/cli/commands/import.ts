import { resolve } from 'node:path'
import { readFailpoints } from '../../config/failpoints.ts'
import { SystemClock } from '../../core/clock.ts'
import { type LogFields, type Logger, SILENT } from '../../core/logger.ts'
import { type ImportedTopic, type ImportPlan, type ImportReport, planImport, runImport } from '../../server/import.ts'
import { DEFAULT_POOL_SIZE, thisMachine } from '../../server/machine.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { isFolder } from '../files.ts'
import { bytesText, counted, printJson, styled, table } from '../output.ts'
import { ProgressLine } from '../progress.ts'

export interface ImportCommandOptions {
  readonly topic: readonly string[]
  readonly data: string
  readonly dryRun?: boolean
  readonly progress?: boolean
  readonly json?: boolean
}

/** Takes topics of a stopped Kafka over into the data folder of a stopped broker, or a new one. Exit 1 when one of them was refused. */
export async function importKafka(context: CliContext, from: readonly string[], options: ImportCommandOptions): Promise<number> {
  const folders = from.map((folder) => resolve(context.cwd, folder))
  for (const folder of folders) {
    if (await isFolder(folder)) continue
    context.err(`moonmq: there is no folder ${folder}; name what log.dirs of the Kafka names, or the folders of partitions\n`)
    return EXIT.notFound
  }
  const dataFolder = resolve(context.cwd, options.data)
  if (folders.includes(dataFolder)) throw new UsageError('the folder to import from is the data folder itself')
  const machine = thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: null, failures: readFailpoints(context.env) })
  const plan = await planImport(machine, { from: folders, dataFolder, topics: options.topic.length === 0 ? null : options.topic })
  const progress = new ProgressLine(context, new SystemClock(), options.progress === true)
  const report = await runImport(machine, plan, {
    dataFolder,
    isDryRun: options.dryRun === true,
    onProgress: ({ file, bytesDone, bytesTotal }) => progress.show(file, bytesDone, bytesTotal),
    log: warningsTo(context),
  })
  progress.end()
  if (options.json) printJson(context, { dataFolder, dryRun: options.dryRun === true, ...report, settings: settingsOf(plan) })
  else printReport(context, plan, report, { dataFolder, isDryRun: options.dryRun === true })
  if (report.refused.some((each) => each.isConflict)) return EXIT.conflict
  return report.refused.length > 0 ? EXIT.failed : EXIT.done
}

/** What the receiving broker has to say, when it is serious. */
function warningsTo(context: CliContext): Logger {
  const tell = (_event: string, text: string, _fields?: LogFields) => context.err(`${text}\n`)
  return { ...SILENT, error: tell, child: () => warningsTo(context) }
}

function settingsOf(plan: ImportPlan): Record<string, { taken: Record<string, string>; dropped: readonly unknown[] }> {
  return Object.fromEntries(plan.topics.map(({ name, config, dropped }) => [name, { taken: Object.fromEntries(config), dropped }]))
}

function printReport(
  context: CliContext,
  plan: ImportPlan,
  report: ImportReport,
  { dataFolder, isDryRun }: { dataFolder: string; isDryRun: boolean },
): void {
  const rows = report.topics.flatMap((topic) =>
    topic.partitions.map((log) => [topic.name, log.partition, log.segments, log.records, log.bytes, log.logStart, log.endOffset]),
  )
  context.out(table(context, ['TOPIC', 'PARTITION', 'SEGMENTS', 'RECORDS', 'BYTES', 'FROM', 'TO'], rows))
  for (const topic of report.topics) printTopic(context, plan, topic)
  for (const { group, offsets } of report.groups) context.out(`group ${group}: ${counted(offsets, 'offset')}\n`)
  for (const note of report.notes) context.out(`${styled(context, 'dim', 'note')} ${note}\n`)
  for (const { topic, reason } of report.refused) context.out(`${styled(context, 'red', 'refused')} ${topic}: ${reason}\n`)
  const bytes = report.topics.reduce((sum, topic) => sum + topic.partitions.reduce((each, log) => each + log.bytes, 0), 0)
  const what = `${counted(report.topics.length, 'topic')}, ${bytesText(bytes)}, ${counted(report.groups.length, 'group')}`
  if (isDryRun) context.out(`${what}: every byte was read and checked, nothing was written. Without --dry-run they go to ${dataFolder}\n`)
  else context.out(`${what}: taken over into ${dataFolder}\n`)
}

function printTopic(context: CliContext, plan: ImportPlan, topic: ImportedTopic): void {
  const { config, dropped } = plan.topics.find((each) => each.name === topic.name) ?? { config: new Map(), dropped: [] }
  const settings = [...config].map(([name, value]) => `${name}=${value}`)
  if (settings.length > 0) context.out(`${topic.name}: ${settings.join(' ')}\n`)
  for (const { setting, reason } of dropped) context.out(`${styled(context, 'yellow', 'left out')} ${topic.name}: ${setting} (${reason})\n`)
  for (const { partition, tornBytes } of topic.partitions) {
    if (tornBytes > 0)
      context.out(
        `${styled(context, 'yellow', 'torn tail')} ${topic.name}-${partition}: ${tornBytes} bytes that are no whole batch were left behind\n`,
      )
  }
}
