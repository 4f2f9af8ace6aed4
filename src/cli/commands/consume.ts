import { mergeByTimestamp } from '../../client/merge.ts'
import type { Client, ClientRecord, Consumer, StartPosition } from '../../client/types.ts'
import type { IsolationLevel } from '../../core/types.ts'
import { type ConnectOptions, withClient } from '../connect.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { jsonBytes, printJson, shown, styled } from '../output.ts'
import { parseFrom, parseWhole } from '../parse.ts'

export interface ConsumeOptions extends ConnectOptions {
  readonly partition?: string
  readonly offset?: string
  readonly group?: string
  readonly all?: boolean
  readonly from?: string
  readonly follow?: boolean
  readonly max?: string
  readonly readCommitted?: boolean
  readonly json?: boolean
  /** Wall time, for `--from 10m`; given by the program. */
  readonly nowMs: () => number
}

/** Reads a topic: as a group, one partition from an offset, or all partitions merged by timestamp (the default). */
export function consume(context: CliContext, topic: string, options: ConsumeOptions): Promise<number> {
  const plan = readPlan(topic, options)
  const max = options.max === undefined ? Number.POSITIVE_INFINITY : parseWhole(options.max, '--max', 0)
  return withClient(context, options, async (client) => {
    let count = 0
    if (max > 0) {
      for await (const record of records(client, topic, { ...plan, max }, context.signal)) {
        print(context, record, options.json === true)
        // A group ends by itself: the last record is committed when the next one is asked for.
        if (++count >= max && plan.group === null) break
      }
    }
    if (count === 0 && !options.json) context.err(nothing(topic, plan))
    return EXIT.done
  })
}

function nothing(topic: string, { group, partition }: ReadPlan): string {
  if (group !== null) return `nothing in ${topic} that group ${group} has not read\n`
  return `no records in ${topic}${partition === null ? '' : ` partition ${partition}`} from there on\n`
}

interface ReadPlan {
  readonly group: string | null
  readonly partition: number | null
  readonly from: StartPosition
  readonly follow: boolean
  readonly isolation: IsolationLevel
}

function readPlan(topic: string, options: ConsumeOptions): ReadPlan {
  const chosen = [
    options.group !== undefined && '--group',
    options.partition !== undefined && '--partition',
    options.all && '--all',
  ].filter(Boolean)
  if (chosen.length > 1) throw new UsageError(`${chosen.join(' and ')} exclude each other`)
  if (options.offset !== undefined && options.partition === undefined) throw new UsageError('--offset needs --partition')
  if (options.offset !== undefined && options.from !== undefined) throw new UsageError('--offset and --from exclude each other')
  if (options.group !== undefined && options.from !== undefined) {
    throw new UsageError(
      'a group goes on from its committed offsets; --from is for reading without a group. Where it goes on is set with:\n' +
        `  moonmq group reset-offsets ${options.group} --topic ${topic} --to ${options.from} --yes`,
    )
  }
  const from =
    options.offset === undefined
      ? parseFrom(options.from ?? 'earliest', options.nowMs())
      : { offset: parseWhole(options.offset, '--offset') }
  return {
    group: options.group ?? null,
    partition: options.partition === undefined ? null : parseWhole(options.partition, '--partition'),
    from,
    follow: options.follow === true,
    isolation: options.readCommitted ? 'read_committed' : 'read_uncommitted',
  }
}

async function* records(
  client: Client,
  topic: string,
  plan: ReadPlan & { readonly max: number },
  signal: AbortSignal,
): AsyncGenerator<ClientRecord> {
  if (plan.group !== null) {
    await using consumer = client.consumer({
      group: plan.group,
      topics: [topic],
      isolation: plan.isolation,
      endWhenIdle: !plan.follow,
      signal,
    })
    yield* firstOf(consumer, plan.max)
    return
  }
  if (plan.partition !== null) {
    await using reader = client.reader({
      topic,
      partitions: [plan.partition],
      from: plan.from,
      follow: plan.follow,
      isolation: plan.isolation,
      signal,
    })
    yield* reader
    return
  }
  const { partitions } = await client.admin.describeTopic(topic)
  const positions = new Map<number, number>()
  const numbers = partitions.map(({ partition }) => partition)
  const readers = client.partitionReaders({ topic, partitions: numbers, from: plan.from, isolation: plan.isolation, signal })
  for await (const record of mergeByTimestamp(readers)) {
    positions.set(record.partition, record.offset + 1)
    yield record
  }
  if (!plan.follow) return
  // What was there is merged; what comes now is shown as it comes. A partition without records begins where the reader found nothing.
  for (const { partition, highWatermark } of partitions) if (!positions.has(partition)) positions.set(partition, highWatermark)
  await using reader = client.reader({ topic, positions, follow: true, isolation: plan.isolation, signal })
  yield* reader
}

/** Ends after so many records, all of them committed: asking for one more says that the last one is done. */
async function* firstOf(consumer: Consumer, max: number): AsyncGenerator<ClientRecord> {
  const each = consumer[Symbol.asyncIterator]()
  for (let count = 0; ; count++) {
    if (count >= max) {
      await Promise.all([each.next(), consumer.close()])
      return
    }
    const next = await each.next()
    if (next.done) return
    yield next.value
  }
}

function print(context: CliContext, record: ClientRecord, json: boolean): void {
  const { topic, partition, offset, timestampMs } = record
  if (json) {
    const headers = record.headers.map((header) => ({ key: header.key, ...jsonBytes('value', header.value) }))
    printJson(context, {
      topic,
      partition,
      offset,
      timestamp: timestampMs,
      ...jsonBytes('key', record.key),
      ...jsonBytes('value', record.value),
      headers,
    })
    return
  }
  const time = new Date(timestampMs).toISOString()
  const key = record.key === null || record.key.length === 0 ? '' : `${styled(context, 'cyan', shown(record.key))}: `
  context.out(`${styled(context, 'dim', `${time} ${partition}:${offset}`)} ${key}${shown(record.value)}\n`)
}
