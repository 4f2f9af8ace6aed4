import { connect } from '../../client/index.ts'
import { mergeByTimestamp } from '../../client/merge.ts'
import type { Client } from '../../client/types.ts'
import { SystemRandom } from '../../core/random.ts'
import { newUuid } from '../../core/uuid.ts'
import type { ValidationReport } from '../../server/offline.ts'
import { brokerAddress } from '../connect.ts'
import { type CliContext, EXIT } from '../context.ts'
import { printJson, shown, styled, table } from '../output.ts'
import { parseWhole } from '../parse.ts'
import { startScratchBroker } from '../scratch-broker.ts'
import { checkFolder, isSound, place, totalsLine, verdict } from './validate.ts'

export interface DemoOptions {
  readonly broker?: string
  readonly data?: string
  readonly messages: string
  readonly json?: boolean
}

const PARTITIONS = 3
const KEYS = ['ada', 'grace', 'linus', 'margaret', 'radia', 'barbara']

/** The whole story in one command, against a fresh broker of its own or a running one. */
export async function demo(context: CliContext, options: DemoOptions): Promise<number> {
  const messages = parseWhole(options.messages, '--messages', 1, 100_000)
  const scratch = options.broker === undefined ? await startScratchBroker() : null
  let check: ValidationReport | null = null
  try {
    const address = scratch?.address ?? brokerAddress(context, options)
    step(context, options, `broker at ${address}${scratch === null ? '' : `, data in ${scratch.dataDir}`}`)
    {
      await using client = await connect({ address, name: 'moonmq-demo', signal: context.signal })
      await tell(context, options, client, messages)
    }
    await scratch?.stop()
    const folder = scratch?.dataDir ?? options.data
    if (folder !== undefined) check = await checkFolder(folder)
  } finally {
    await scratch?.remove()
  }
  return printCheck(context, options, check)
}

async function tell(context: CliContext, options: DemoOptions, client: Client, messages: number): Promise<void> {
  const topic = `demo-${newUuid(new SystemRandom())
    .slice(0, 8)
    .replace(/[^A-Za-z0-9]/g, 'x')}`
  step(context, options, `create topic ${topic} with ${PARTITIONS} partitions`)
  await client.admin.createTopic(topic, { partitions: PARTITIONS })

  step(context, options, `produce ${messages} messages by key; each is on disk before its ack`)
  const producer = client.producer()
  const rows: [string, string, number, number][] = []
  for (let i = 0; i < messages; i++) {
    const key = KEYS[i % KEYS.length] as string
    const value = `message ${i + 1} of ${key}`
    const acked = await producer.send(topic, { key, value })
    rows.push([key, value, acked.partition, acked.offset])
    if (options.json) printJson(context, { step: 'produced', key, value, partition: acked.partition, offset: acked.offset })
  }
  await producer.close()
  if (!options.json) context.out(table(context, ['KEY', 'VALUE', 'PARTITION', 'OFFSET'], rows))

  step(context, options, 'consume every partition, merged by timestamp')
  const readers = client.partitionReaders({ topic, partitions: Array.from({ length: PARTITIONS }, (_, partition) => partition) })
  let count = 0
  const partitions = new Set<number>()
  for await (const record of mergeByTimestamp(readers)) {
    count++
    partitions.add(record.partition)
    if (options.json)
      printJson(context, {
        step: 'consumed',
        partition: record.partition,
        offset: record.offset,
        key: shown(record.key),
        value: shown(record.value),
      })
    else
      context.out(
        `  ${styled(context, 'dim', `${record.partition}:${record.offset}`)} ${styled(context, 'cyan', shown(record.key))} ${shown(record.value)}\n`,
      )
  }
  if (options.json) printJson(context, { step: 'summary', messages: count, partitions: PARTITIONS })
  else context.out(`${styled(context, 'bold', `${count} messages across ${PARTITIONS} partitions, merged by timestamp`)}\n`)
  if (count !== messages) throw new Error(`${messages} messages were written and ${count} read`)
}

function step(context: CliContext, options: DemoOptions, text: string): void {
  if (!options.json) context.out(`${styled(context, 'green', '▸')} ${text}\n`)
}

function printCheck(context: CliContext, options: DemoOptions, check: ValidationReport | null): number {
  if (check === null) {
    if (options.json) printJson(context, { step: 'validated', result: 'not checked' })
    else context.out('on-disk data: not checked (name the folder with --data)\n')
    return EXIT.done
  }
  if (options.json) printJson(context, { step: 'validated', ...check.totals, problems: check.problems })
  else {
    context.out(`validated: ${totalsLine(check)}\n`)
    for (const { file, position, reason } of check.problems) {
      context.out(`  ${styled(context, 'red', 'problem')} ${place(file, position)}: ${reason}\n`)
    }
    context.out(verdict(context, check))
  }
  return isSound(check) ? EXIT.done : EXIT.failed
}
