import { readdir } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { readFailpoints } from '../../config/failpoints.ts'
import { SystemClock } from '../../core/clock.ts'
import { SILENT } from '../../core/logger.ts'
import { DEFAULT_POOL_SIZE, type Machine, thisMachine } from '../../server/machine.ts'
import { examineDataFolder } from '../../server/offline.ts'
import {
  applyRepair,
  type LogRepair,
  type MiddleChoice,
  type PartitionRepair,
  planDataFolderRepair,
  type RepairPlan,
} from '../../server/repair.ts'
import { parsePartitionFolderName, partitionFolderName } from '../../storage/files.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { isFolder } from '../files.ts'
import { bytesText, counted, printJson, styled } from '../output.ts'
import { ProgressLine } from '../progress.ts'
import { isSound, place } from './validate.ts'

export interface LogRepairOptions {
  readonly data?: string
  readonly middle: string
  readonly yes?: boolean
  readonly json?: boolean
  readonly progress?: boolean
}

/**
 * Says what the data folder of a stopped broker needs, and with `--yes` does it. Exit 0: nothing to do, or all was done and the check
 * afterwards finds nothing; 1: there is something to do and `--yes` was not given, or something is left.
 */
export async function logRepair(context: CliContext, folder: string | undefined, options: LogRepairOptions): Promise<number> {
  if (options.middle !== 'gap' && options.middle !== 'cut') throw new UsageError(`--middle ${options.middle}: expected gap or cut`)
  const target = resolve(context.cwd, folder ?? options.data ?? './moonmq-data')
  if (!(await isFolder(target))) {
    context.err(`moonmq: there is no folder ${target}; name the data folder of a broker that was stopped, or one partition in it\n`)
    return EXIT.notFound
  }
  // A data folder may be called like a partition: broker-1.
  const isDataFolder = (await readdir(target)).some((name) => parsePartitionFolderName(name) !== null)
  const isPartition = !isDataFolder && parsePartitionFolderName(basename(target)) !== null
  if (!isPartition && !isDataFolder) {
    context.err(`moonmq: ${target} is no data folder: there is no folder of a partition in it, not even __cluster_metadata-0\n`)
    return EXIT.notFound
  }
  const dataFolder = isPartition ? dirname(target) : target
  const only = isPartition ? new Set([basename(target)]) : undefined
  const machine = thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: null, failures: readFailpoints(context.env) })
  const progress = new ProgressLine(context, new SystemClock(), options.progress === true)
  const plan = await planDataFolderRepair(machine, dataFolder, {
    middle: options.middle,
    ...(only === undefined ? {} : { only }),
    onProgress: ({ file, bytesDone, bytesTotal }) => progress.show(file, bytesDone, bytesTotal),
  })
  progress.end()
  if (!options.json) printPlan(context, plan, options.middle)
  // Whoever reads the logs without a start wants the journal in them, where nothing else can be done too.
  const isNothing = plan.partitions.length === 0 && plan.root.length === 0 && !(plan.hasJournal && options.yes === true)
  if (isNothing || options.yes !== true) {
    if (options.json) printJson(context, { ...planJson(plan), done: false })
    if (!isNothing && !options.json) context.out('Nothing was changed. The same with --yes does it.\n')
    return isNothing && plan.refused.length === 0 && plan.findings.length === 0 ? EXIT.done : EXIT.failed
  }
  return apply(context, machine, plan, only, options)
}

async function apply(
  context: CliContext,
  machine: Machine,
  plan: RepairPlan,
  only: ReadonlySet<string> | undefined,
  options: LogRepairOptions,
): Promise<number> {
  const kept = await applyRepair(machine, plan, SILENT)
  const { report } = await examineDataFolder(machine, plan.folder, only === undefined ? {} : { only })
  const isDone = isSound(report) && plan.refused.length === 0
  if (options.json) {
    printJson(context, { ...planJson(plan), done: true, kept, problemsLeft: report.problems })
    return isDone ? EXIT.done : EXIT.failed
  }
  for (const path of kept) context.out(`kept ${path}\n`)
  for (const { file, position, reason } of report.problems) {
    context.out(`${styled(context, 'red', 'problem left')} ${place(file, position)}: ${reason}\n`)
  }
  context.out(isDone ? styled(context, 'green', 'repaired; the check finds no problem\n') : styled(context, 'red', 'problems are left\n'))
  return isDone ? EXIT.done : EXIT.failed
}

function planJson({ folder, findings, root, partitions, refused }: RepairPlan) {
  const shown = partitions.map(({ topic, partition, log, logStart, writesTopicId }) => ({
    topic,
    partition,
    steps: log.steps.map((step) => (step.kind === 'header' ? { ...step, bytes: step.bytes.toString('hex') } : step)),
    endOffset: log.endOffset,
    losesOffsets: lostOffsets(log.steps),
    logStart,
    writesTopicId,
  }))
  return { folder, findings, root, partitions: shown, refused }
}

function printPlan(context: CliContext, plan: RepairPlan, middle: MiddleChoice): void {
  if (plan.hasJournal) {
    context.out(
      'moonmq-journal holds writes that are not in the logs yet: they go there first, as at a start, and what follows may change\n',
    )
  }
  for (const step of plan.root) {
    if (step.kind === 'identity') context.out(`meta.properties: write it again for cluster ${step.clusterId} (${step.reason})\n`)
    else context.out(`${step.file}: set aside, a start makes it again (${step.reason})\n`)
  }
  for (const repair of plan.partitions) printPartition(context, repair, plan)
  for (const { name, reason } of plan.refused) context.out(`${styled(context, 'red', 'not repaired')} ${name}: ${reason}\n`)
  if (plan.partitions.some(({ log }) => log.isMiddleDamaged)) context.out(CHOICE[middle])
  const isNothing = plan.partitions.length === 0 && plan.root.length === 0 && plan.refused.length === 0
  if (isNothing && plan.findings.length === 0) context.out('nothing to repair\n')
  else if (isNothing) for (const { file, position, reason } of plan.findings) context.out(`problem ${place(file, position)}: ${reason}\n`)
}

/** What the two ways to treat damage before the end of a log lose. */
const CHOICE: Readonly<Record<MiddleChoice, string>> = {
  gap: `
Damage lies before the end of a log. As it is planned (--middle gap) only the records in the damaged bytes are lost: every later record
keeps its offset, and the offsets of the lost ones stay empty, so that none is ever given twice. Consumers pass over the gap; a transaction
or an idempotent producer with lost batches may be seen as broken off. The other way, --middle cut, ends the log at the damage: all later
records are lost too and their offsets will be given again, but there is no gap within what is left. The bytes that go are kept either way.
`,
  cut: `
Damage lies before the end of a log. As it is planned (--middle cut) the log ends at the damage: every later record is lost, and its offset
will be given to another one, which groups that committed beyond it will not see. The other way, --middle gap, loses only the records in
the damaged bytes and leaves their offsets empty. The bytes that go are kept either way.
`,
}

function printPartition(context: CliContext, repair: PartitionRepair, plan: RepairPlan): void {
  const name = partitionFolderName(repair)
  context.out(`${styled(context, 'bold', name)}\n`)
  for (const { file, position, reason } of plan.findings) {
    if (file === name || file.startsWith(`${name}/`)) context.out(`  found   ${place(file, position)}: ${reason}\n`)
  }
  for (const step of repair.log.steps) context.out(`  will    ${stepText(step)}\n`)
  if (repair.writesTopicId) context.out(`  will    write partition.metadata for topic ${repair.topicId}\n`)
  if (repair.logStart !== null) {
    context.out(`  will    begin the log at offset ${repair.logStart}: the records from ${repair.oldLogStart} on are missing\n`)
  }
  context.out('  will    build indexes, producer snapshot and leader epochs again from the batches\n')
  const lost = lostOffsets(repair.log.steps)
  context.out(lost === 0 ? '  loses   nothing that can be read\n' : `  loses   ${styled(context, 'red', counted(lost, 'offset'))}\n`)
}

function lostOffsets(steps: readonly LogRepair[]): number {
  return steps.reduce((sum, step) => (step.kind === 'drop' || step.kind === 'fill' ? sum + step.toOffset - step.fromOffset : sum), 0)
}

function stepText(step: LogRepair): string {
  switch (step.kind) {
    case 'header':
      return `${step.file} at byte ${step.position}: restore the header of a batch whose records are whole (${step.reason})`
    case 'drop': {
      const size = step.endPosition - step.position
      const gap = step.toOffset > step.fromOffset ? `; the offsets ${step.fromOffset} to ${step.toOffset - 1} stay empty` : ''
      return `${step.file} at byte ${step.position}: take out ${bytesText(size)}${gap} (${step.reason})`
    }
    case 'fill':
      return `${step.file}: leave the offsets ${step.fromOffset} to ${step.toOffset - 1} empty (${step.reason})`
    case 'cut':
      return `${step.file} at byte ${step.position}: cut ${bytesText(step.endPosition - step.position)}; the log ends at offset ${step.fromOffset} (${step.reason})`
    case 'set-aside':
      return `${step.file}: set aside (${step.reason})`
    case 'begin':
      return `begin an empty log at offset ${step.baseOffset} (${step.reason})`
  }
}
