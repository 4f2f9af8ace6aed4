import type { Client, ClientRecord, PartitionDescription } from '../../client/types.ts'
import { MoonMQError } from '../../core/errors.ts'
import { parseWhen } from '../../core/when.ts'
import { markedOffset, type Provenance, provenanceOf } from '../../record/dead-letter.ts'
import { UsageError } from '../context.ts'
import { parseWhole } from '../parse.ts'

/** A dead letter as it stands in its topic. */
export interface Letter {
  readonly record: ClientRecord
  readonly from: Provenance
}

export interface FilterOptions {
  readonly reason?: string
  readonly group?: string
  readonly key?: string
  readonly source?: string
  readonly partition?: string
  readonly offsets?: string
  readonly since?: string
  readonly until?: string
}

export interface LetterFilter {
  readonly partition: number | null
  matches(letter: Letter): boolean
}

interface OffsetSpan {
  readonly first: number
  readonly last: number
}

/** Throws UsageError. */
export function parseFilter(options: FilterOptions, nowMs: number): LetterFilter {
  const partition = options.partition === undefined ? null : parseWhole(options.partition, '--partition', 0, 100_000)
  const spans = options.offsets === undefined ? null : parseSpans(options.offsets)
  const since = parseTime(options.since, '--since', nowMs)
  const until = parseTime(options.until, '--until', nowMs)
  const { reason, group, key, source } = options
  return {
    partition,
    matches({ record, from }) {
      if (reason !== undefined && !from.reason.includes(reason)) return false
      if (group !== undefined && from.group !== group) return false
      if (source !== undefined && from.topic !== source) return false
      if (key !== undefined && record.key?.toString() !== key) return false
      if (spans?.some(({ first, last }) => record.offset >= first && record.offset <= last) === false) return false
      return (since === null || record.timestampMs >= since) && (until === null || record.timestampMs < until)
    },
  }
}

/** `3,10-20`. */
function parseSpans(text: string): OffsetSpan[] {
  return text.split(',').map((each) => {
    const found = /^(\d+)(?:-(\d+))?$/.exec(each.trim())
    const first = Number(found?.[1])
    const last = Number(found?.[2] ?? found?.[1])
    if (found === null || !(first <= last)) throw new UsageError(`--offsets ${text}: expected offsets and ranges such as 3,10-20`)
    return { first, last }
  })
}

function parseTime(text: string | undefined, option: string, nowMs: number): number | null {
  if (text === undefined) return null
  const when = parseWhen(text)
  if (when === null) throw new UsageError(`${option} ${text}: expected a time such as 2026-01-31T12:00:00Z, or an age such as 10m`)
  return 'ageMs' in when ? nowMs - when.ageMs : when.timestampMs
}

/** The letters of one partition that were not sent back, in order. Reads it twice: what was sent back is told behind the letters. */
export async function* lettersIn(client: Client, topic: string, partition: number): AsyncGenerator<Letter> {
  const marked = new Set<number>()
  const reading = { topic, partitions: [partition], isolation: 'read_committed' } as const
  let end = -1
  for await (const { headers, offset } of client.reader(reading)) {
    const mark = headers.length === 0 ? null : markedOffset(headers)
    if (mark !== null) marked.add(mark)
    end = offset
  }
  if (end < 0) return
  for await (const record of client.reader(reading)) {
    if (record.offset > end) return
    const from = marked.has(record.offset) ? null : provenanceOf(record.headers)
    if (from !== null) yield { record, from }
  }
}

/** The offset of the first record below `before` that is neither a letter nor the mark of one, or null. */
export async function strangerIn(client: Client, topic: string, partition: number, before: number): Promise<number | null> {
  for await (const { headers, offset } of client.reader({ topic, partitions: [partition], isolation: 'read_committed' })) {
    if (offset >= before) return null
    if (provenanceOf(headers) === null && markedOffset(headers) === null) return offset
  }
  return null
}

/** Partitions of the topic that are meant: all, or the one. Throws PARTITION_MISSING. */
export async function partitionsOf(client: Client, topic: string, partition: number | null): Promise<readonly PartitionDescription[]> {
  const { partitions } = await client.admin.describeTopic(topic)
  if (partition === null) return partitions
  const found = partitions.find((each) => each.partition === partition)
  if (found === undefined) throw new MoonMQError('PARTITION_MISSING', { topic, partition })
  return [found]
}
