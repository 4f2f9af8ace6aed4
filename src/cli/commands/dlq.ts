import type { Client } from '../../client/types.ts'
import { SystemClock } from '../../core/clock.ts'
import { type ConnectOptions, withClient } from '../connect.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { type FilterOptions, type Letter, lettersIn, parseFilter, partitionsOf, strangerIn } from '../dlq/letters.ts'
import { counted, jsonBytes, printJson, shown, styled, table } from '../output.ts'
import { parseWhole } from '../parse.ts'

interface JsonOptions extends ConnectOptions {
  readonly json?: boolean
}

export interface DlqListOptions extends JsonOptions {
  readonly suffix: string
}

export interface DlqShowOptions extends JsonOptions, FilterOptions {
  readonly max: string
}

export interface RedriveOptions extends JsonOptions, FilterOptions {
  readonly dryRun?: boolean
  readonly all?: boolean
  readonly max?: string
}

export interface PurgeOptions extends JsonOptions {
  readonly partition?: string
  readonly before?: string
  readonly yes?: boolean
  readonly force?: boolean
}

/** Letters of one request: all of them go back, or none. */
const REDRIVE_AT_ONCE = 500
const MAX_REASONS = 5
const MAX_REASON_POINTS = 80
const nowMs = () => new SystemClock().nowMs()

/** `moonmq dlq list`: dead-letter topics with how many letters are left in each, and why they died. */
export function listLetters(context: CliContext, names: readonly string[], options: DlqListOptions): Promise<number> {
  return withClient(context, options, async (client) => {
    const topics =
      names.length > 0 ? names : (await client.admin.listTopics()).map(({ name }) => name).filter((name) => name.endsWith(options.suffix))
    const found: { topic: string; letters: number; reasons: [reason: string, count: number][] }[] = []
    for (const topic of topics) found.push(await count(client, topic))
    if (options.json) {
      for (const { topic, letters, reasons } of found) printJson(context, { topic, letters, reasons: Object.fromEntries(reasons) })
    } else if (found.length === 0) context.err(`no topic ends with ${options.suffix}\n`)
    else {
      const rows = found.map(({ topic, letters, reasons }) => [topic, letters, reasonsText(reasons)])
      context.out(table(context, ['TOPIC', 'LETTERS', 'REASONS'], rows))
    }
    return EXIT.done
  })
}

async function count(client: Client, topic: string) {
  const reasons = new Map<string, number>()
  let letters = 0
  for (const { partition } of await partitionsOf(client, topic, null)) {
    for await (const { from } of lettersIn(client, topic, partition)) {
      letters++
      reasons.set(from.reason, (reasons.get(from.reason) ?? 0) + 1)
    }
  }
  return { topic, letters, reasons: [...reasons].sort((left, right) => right[1] - left[1]) }
}

function reasonsText(reasons: readonly [reason: string, count: number][]): string {
  const told = reasons.slice(0, MAX_REASONS).map(([reason, times]) => `${reason === '' ? '(none)' : inCell(reason)} (${times})`)
  return [...told, ...(reasons.length > MAX_REASONS ? [`${reasons.length - MAX_REASONS} more`] : [])].join(', ')
}

/** Clients say what they like: a table must not be torn apart by it. */
function inCell(reason: string): string {
  const points = [...shown(Buffer.from(reason)).replaceAll('\n', '\\n').replaceAll('\t', '\\t')]
  return points.length <= MAX_REASON_POINTS ? points.join('') : `${points.slice(0, MAX_REASON_POINTS - 1).join('')}…`
}

/** `moonmq dlq show`: letters with where they came from. */
export function showLetters(context: CliContext, topic: string, options: DlqShowOptions): Promise<number> {
  const filter = parseFilter(options, nowMs())
  const most = parseWhole(options.max, '--max', 1)
  return withClient(context, options, async (client) => {
    let told = 0
    for (const { partition } of await partitionsOf(client, topic, filter.partition)) {
      for await (const letter of lettersIn(client, topic, partition)) {
        if (!filter.matches(letter)) continue
        if (told++ >= most) {
          context.err(`more than ${counted(most, 'letter')}; --max shows more\n`)
          return EXIT.done
        }
        if (options.json) printJson(context, asJson(letter))
        else context.out(asText(context, letter))
        await context.drained?.()
      }
    }
    if (told === 0) context.err('no such letters\n')
    return EXIT.done
  })
}

function asJson({ record, from }: Letter): object {
  const { partition, offset, timestampMs, key, value } = record
  return {
    partition,
    offset,
    movedAt: new Date(timestampMs).toISOString(),
    from,
    ...jsonBytes('key', key),
    ...jsonBytes('value', value),
    headers: record.headers.map((header) => ({ key: header.key, ...jsonBytes('value', header.value) })),
  }
}

function asText(context: CliContext, { record, from }: Letter): string {
  const place = styled(context, 'bold', `${record.topic}-${record.partition}@${record.offset}`)
  const origin = `from ${from.topic}-${from.partition}@${from.offset}, group "${from.group}", ${counted(from.attempts, 'attempt')}`
  const reason = from.reason === '' ? 'no reason given' : from.reason
  const text = (bytes: Buffer | null) => (bytes === null ? 'null' : shown(bytes))
  return `${place}  ${new Date(record.timestampMs).toISOString()}  ${origin}: ${shown(Buffer.from(reason))}\n  ${text(record.key)}: ${text(record.value)}\n`
}

/** `moonmq dlq redrive`: sends letters back to their topics. One that was sent back is no letter any more, so it may be repeated. */
export function redriveLetters(context: CliContext, topic: string, options: RedriveOptions): Promise<number> {
  const filter = parseFilter(options, nowMs())
  const most = options.max === undefined ? Number.POSITIVE_INFINITY : parseWhole(options.max, '--max', 1)
  const isFiltered = [options.reason, options.group, options.key, options.source, options.partition, options.offsets, options.since].some(
    (each) => each !== undefined,
  )
  if (!isFiltered && options.until === undefined && !options.all && !options.dryRun && options.max === undefined) {
    throw new UsageError(`this sends every letter of ${topic} back; say --all to do it, --dry-run to count them, or choose some`)
  }
  return withClient(context, options, async (client) => {
    const sum = { topic, dryRun: options.dryRun === true, letters: 0, redriven: 0, already: 0, missing: 0 }
    for (const { partition } of await partitionsOf(client, topic, filter.partition)) {
      let offsets: number[] = []
      const send = async () => {
        if (offsets.length === 0) return
        const { redriven, already, missing } = await client.admin.redrive(topic, partition, offsets)
        sum.redriven += redriven
        sum.already += already
        sum.missing += missing
        offsets = []
      }
      for await (const letter of lettersIn(client, topic, partition)) {
        if (!filter.matches(letter)) continue
        if (sum.letters >= most) break
        sum.letters++
        if (options.dryRun) continue
        offsets.push(letter.record.offset)
        if (offsets.length >= REDRIVE_AT_ONCE) await send()
      }
      await send()
    }
    if (options.json) printJson(context, sum)
    else if (options.dryRun) context.out(`would send ${counted(sum.letters, 'letter')} of ${topic} back\n`)
    else context.out(`sent ${counted(sum.redriven, 'letter')} of ${topic} back\n`)
    if (sum.missing > 0) context.err(`${counted(sum.missing, 'letter')} stayed: their topic is gone, or they are\n`)
    return sum.missing > 0 ? EXIT.failed : EXIT.done
  })
}

/** `moonmq dlq purge`: deletes letters for good, those that were sent back included. Records that are none stop it: a wrong name must not empty a topic. */
export function purgeLetters(context: CliContext, topic: string, options: PurgeOptions): Promise<number> {
  const partition = options.partition === undefined ? null : parseWhole(options.partition, '--partition', 0, 100_000)
  const before = options.before === undefined ? 'all' : parseWhole(options.before, '--before')
  if (before !== 'all' && partition === null) throw new UsageError('--before needs --partition')
  if (!options.yes) throw new UsageError(`this deletes the letters of ${topic} for good; say --yes to do it`)
  return withClient(context, options, async (client) => {
    const partitions = await partitionsOf(client, topic, partition)
    for (const { partition: each } of options.force ? [] : partitions) {
      const stranger = await strangerIn(client, topic, each, before === 'all' ? Number.POSITIVE_INFINITY : before)
      if (stranger === null) continue
      context.err(
        `${topic} has records that are no dead letters, such as offset ${stranger} of partition ${each}; say --force to delete them too\n`,
      )
      return EXIT.conflict
    }
    let deleted = 0
    for (const { partition: each, earliest } of partitions) {
      deleted += (await client.admin.deleteRecords(topic, each, before)) - earliest
    }
    if (options.json) printJson(context, { topic, deleted })
    else context.out(`deleted ${counted(deleted, 'offset')} of ${topic}, those of marks and transactions included\n`)
    return EXIT.done
  })
}
