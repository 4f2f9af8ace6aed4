import type { Client, GroupDescription, GroupOffset, StartPosition, TopicOffsets } from '../../client/types.ts'
import { SystemClock } from '../../core/clock.ts'
import { isCode, MoonMQError } from '../../core/errors.ts'
import { type ConnectOptions, withClient } from '../connect.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { counted, printJson, styled, table } from '../output.ts'
import { parseFrom, parseWhole } from '../parse.ts'

interface GroupOptions extends ConnectOptions {
  readonly json?: boolean
}

/** What a broker that speaks version 1 alone does not say. */
const UNKNOWN = '-'
const STORE_AT_ONCE = 10_000

/** `moonmq group list`: every group, of every kind. */
export function listGroups(context: CliContext, options: GroupOptions): Promise<number> {
  return withClient(context, options, async (client) => {
    const groups = []
    for (const { group, kind, state, members } of await client.admin.listGroups()) {
      const found = await client.admin.describeGroup(group).catch(nullIfMissing)
      // It was deleted since the list was made.
      if (found !== null) groups.push({ group, kind, state, members, topics: topicsOf(found) })
    }
    if (options.json) for (const group of groups) printJson(context, group)
    else if (groups.length === 0) context.err('no groups\n')
    else {
      const rows = groups.map(({ group, kind = UNKNOWN, state, members, topics }) => [group, kind, state, members, topics.join(', ')])
      context.out(table(context, ['GROUP', 'KIND', 'STATE', 'MEMBERS', 'TOPICS'], rows))
    }
    return EXIT.done
  })
}

function nullIfMissing(error: unknown): null {
  if (isCode(error, 'GROUP_MISSING')) return null
  throw error
}

/** Topics that it has offsets of or that its members were given. */
function topicsOf({ members, offsets }: GroupDescription): string[] {
  return [...new Set([...offsets, ...members.flatMap(({ assignment }) => assignment)].map(({ topic }) => topic))].sort()
}

interface Place {
  readonly topic: string
  readonly partition: number
  readonly committed: number | null
  /** The high watermark, or null while the partition cannot be served or is gone. */
  readonly end: number | null
  readonly lag: number | null
  readonly member: string | null
}

/** `moonmq group describe`: members, and of each partition where the group is and how far behind. */
export function describeGroup(context: CliContext, group: string, options: GroupOptions): Promise<number> {
  return withClient(context, options, async (client) => {
    const found = await client.admin.describeGroup(group)
    const { state, kind, epoch, members } = found
    const places = await placesOf(client, found)
    if (options.json) {
      printJson(context, { group, kind, state, epoch, members, offsets: places })
      return EXIT.done
    }
    const what = [...(kind === undefined ? [] : [kind]), state, counted(members.length, 'member')].join(', ')
    context.out(`${styled(context, 'bold', group)}  ${what}\n`)
    if (members.length > 0) {
      const rows = members.map(({ memberId, clientId = '', clientHost = '', assignment }) => [
        memberId,
        clientId,
        clientHost,
        assignment.map(({ topic, partitions }) => `${topic}: ${partitions.join(' ')}`).join(', '),
      ])
      context.out(table(context, ['MEMBER', 'CLIENT', 'HOST', 'PARTITIONS'], rows))
    }
    if (places.length > 0) {
      const rows = places.map(({ topic, partition, committed, end, lag, member }) => [
        topic,
        partition,
        committed ?? UNKNOWN,
        end ?? UNKNOWN,
        lag ?? UNKNOWN,
        member ?? UNKNOWN,
      ])
      context.out(table(context, ['TOPIC', 'PARTITION', 'COMMITTED', 'END', 'LAG', 'MEMBER'], rows))
    }
    return EXIT.done
  })
}

/** Partitions that the group has an offset of or that are a member's, in order. */
async function placesOf(client: Client, group: GroupDescription): Promise<Place[]> {
  const owners = new Map<string, string>()
  const places = new Map<string, { topic: string; partition: number }>()
  const committed = new Map<string, number>()
  for (const { topic, partition, offset } of group.offsets) {
    places.set(`${topic}-${partition}`, { topic, partition })
    committed.set(`${topic}-${partition}`, offset)
  }
  for (const { memberId, assignment } of group.members) {
    for (const { topic, partitions } of assignment) {
      for (const partition of partitions) {
        owners.set(`${topic}-${partition}`, memberId)
        places.set(`${topic}-${partition}`, { topic, partition })
      }
    }
  }
  const bounds = new Map<string, readonly TopicOffsets[]>()
  for (const topic of topicsOf(group)) bounds.set(topic, (await boundsOf(client, topic)) ?? [])
  const inOrder = [...places].sort(([, a], [, b]) => (a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1))
  return inOrder.map(([key, { topic, partition }]) => {
    const known = bounds.get(topic)?.find((each) => each.partition === partition)
    const end = known === undefined || known.highWatermark < 0 ? null : known.highWatermark
    const at = committed.get(key) ?? null
    const lag = end === null || at === null ? null : Math.max(0, end - Math.max(at, known?.earliest ?? 0))
    return { topic, partition, committed: at, end, lag, member: owners.get(key) ?? null }
  })
}

/** Null for a topic that is gone: offsets of it may be there still. */
async function boundsOf(client: Client, topic: string, timestampMs?: number): Promise<readonly TopicOffsets[] | null> {
  try {
    return await client.admin.listOffsets(topic, timestampMs === undefined ? {} : { timestampMs })
  } catch (error) {
    if (isCode(error, 'TOPIC_MISSING')) return null
    throw error
  }
}

export interface DeleteGroupOptions extends GroupOptions {
  readonly yes?: boolean
}

export function deleteGroup(context: CliContext, group: string, options: DeleteGroupOptions): Promise<number> {
  if (!options.yes) throw new UsageError(`this deletes group ${group} and its offsets for good; say --yes to do it`)
  return withClient(context, options, async (client) => {
    await client.admin.deleteGroup(group)
    if (options.json) printJson(context, { group, deleted: true })
    else context.out(`deleted group ${group}\n`)
    return EXIT.done
  })
}

export interface ResetOptions extends GroupOptions {
  readonly topic: readonly string[]
  readonly partition?: string
  readonly to?: string
  readonly toOffset?: string
  readonly shiftBy?: string
  readonly dryRun?: boolean
  readonly yes?: boolean
}

type Target = StartPosition | { readonly shiftBy: number }

interface Move extends GroupOffset {
  readonly before: number | null
}

/** `moonmq group reset-offsets`: says where the group would go on, and with --yes makes it so. */
export function resetOffsets(context: CliContext, group: string, options: ResetOptions): Promise<number> {
  const target = targetOf(options)
  const partition = options.partition === undefined ? null : parseWhole(options.partition, '--partition')
  if (partition !== null && options.topic.length !== 1) throw new UsageError('--partition needs one --topic')
  if (options.yes && options.dryRun) throw new UsageError('--yes and --dry-run exclude each other')
  return withClient(context, options, async (client) => {
    const found = await client.admin.describeGroup(group).catch(nullIfMissing)
    if (found === null && options.topic.length === 0) throw new MoonMQError('GROUP_MISSING', { group })
    if (found?.kind === 'share') {
      throw MoonMQError.withText(
        'INVALID_REQUEST',
        `"${group}" is a share group: it keeps what was acknowledged, not an offset to go on from`,
      )
    }
    if (found !== null && found.members.length > 0) throw new MoonMQError('GROUP_NOT_EMPTY', { group })
    const moves: Move[] = []
    const chosen = options.topic.length > 0 ? options.topic : [...new Set(found?.offsets.map(({ topic }) => topic))].sort()
    for (const topic of chosen) moves.push(...(await movesIn(client, { group, topic, partition, offsets: found?.offsets ?? [] }, target)))
    if (options.yes) {
      for (let at = 0; at < moves.length; at += STORE_AT_ONCE) {
        const some = moves.slice(at, at + STORE_AT_ONCE)
        await client.admin.storeOffsets(
          group,
          some.map(({ topic, partition, offset }) => ({ topic, partition, offset })),
        )
      }
    }
    printMoves(context, group, moves, options)
    return EXIT.done
  })
}

function targetOf({ to, toOffset, shiftBy }: ResetOptions): Target {
  if ([to, toOffset, shiftBy].filter((each) => each !== undefined).length !== 1) {
    throw new UsageError('say where to: one of --to earliest|latest|TIME|AGE, --to-offset N, --shift-by N')
  }
  if (to !== undefined) return parseFrom(to, new SystemClock().nowMs(), '--to')
  if (toOffset !== undefined) return { offset: parseWhole(toOffset, '--to-offset') }
  const shift = /^[+-]?\d+$/.test(shiftBy ?? '') ? Number(shiftBy) : Number.NaN
  if (!Number.isSafeInteger(shift)) throw new UsageError(`--shift-by ${shiftBy}: expected a whole number such as -10 or 5`)
  return { shiftBy: shift }
}

interface Chosen {
  readonly group: string
  readonly topic: string
  readonly partition: number | null
  readonly offsets: readonly GroupOffset[]
}

async function movesIn(client: Client, { group, topic, partition, offsets }: Chosen, target: Target): Promise<Move[]> {
  const timestampMs = typeof target === 'object' && 'timestampMs' in target ? target.timestampMs : undefined
  const bounds = await client.admin.listOffsets(topic, timestampMs === undefined ? {} : { timestampMs })
  const chosen = partition === null ? bounds : bounds.filter((each) => each.partition === partition)
  if (chosen.length === 0) throw new MoonMQError('PARTITION_MISSING', { topic, partition: partition ?? 0 })
  return chosen.map((each) => {
    const before = offsets.find((known) => known.topic === topic && known.partition === each.partition)?.offset ?? null
    if (each.highWatermark < 0) throw new MoonMQError('STORAGE_FAILED', { topic, partition: each.partition, reason: 'it is offline' })
    if (before === null && typeof target === 'object' && 'shiftBy' in target) {
      throw new UsageError(
        `group ${group} has no offset of ${topic}-${each.partition} that could be shifted; --to and --to-offset need none`,
      )
    }
    return { topic, partition: each.partition, before, offset: offsetFor(target, each, before ?? 0) }
  })
}

/** Within what the partition holds, as every consumer would find it. */
function offsetFor(target: Target, { earliest, highWatermark, forTime }: TopicOffsets, before: number): number {
  if (target === 'earliest') return earliest
  if (target === 'latest') return highWatermark
  // When every record is older, what comes next is what is wanted.
  const wanted = 'timestampMs' in target ? (forTime ?? highWatermark) : 'shiftBy' in target ? before + target.shiftBy : target.offset
  return Math.min(Math.max(wanted, earliest), highWatermark)
}

function printMoves(context: CliContext, group: string, moves: readonly Move[], options: ResetOptions): void {
  const done = options.yes === true
  if (options.json) {
    for (const { topic, partition, before, offset } of moves) printJson(context, { group, topic, partition, before, after: offset, done })
    return
  }
  const rows = moves.map(({ topic, partition, before, offset }) => [topic, partition, before ?? UNKNOWN, offset])
  context.out(table(context, ['TOPIC', 'PARTITION', 'BEFORE', 'AFTER'], rows))
  if (done) context.out(`set ${counted(moves.length, 'offset')} of group ${group}\n`)
  else context.err('nothing was changed; say --yes to do it\n')
}
