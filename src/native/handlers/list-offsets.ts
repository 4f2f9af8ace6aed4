import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { UInt64 } from '../../core/int64.ts'
import {
  LIST_OFFSETS_BOUNDS,
  LIST_OFFSETS_TIME,
  OFFSETS_FOUND,
  OFFSETS_HWM_EXACT,
  OFFSETS_LOCAL,
  OFFSETS_LSO_KNOWN,
} from '../../wire/opcodes.ts'
import { type Call, type Handler, reply } from '../session.ts'
import { isStorageFault } from './topic-rules.ts'

const KNOWN = OFFSETS_HWM_EXACT | OFFSETS_LSO_KNOWN | OFFSETS_LOCAL

interface Entry {
  readonly partition: number
  readonly earliest: number
  readonly latest: number
  readonly highWatermark: number
  readonly lso: number
  /** 0: the broker cannot serve the partition now, and the numbers mean nothing. */
  readonly flags: number
}

interface TimeEntry {
  readonly partition: number
  readonly offset: number
  readonly flags: number
}

interface Found {
  readonly entry: Entry
  readonly forTime: TimeEntry | null
  readonly fault: MoonMQError | null
}

/** LIST_OFFSETS: bounds of every partition, and with a time the first offset at or after it. Fails when no partition can be told of. */
export const listOffsets: Handler<'LIST_OFFSETS'> = {
  op: 'LIST_OFFSETS',
  async handle(call, { topic, mode, timestamp }) {
    if (mode !== undefined && mode !== LIST_OFFSETS_BOUNDS && mode !== LIST_OFFSETS_TIME) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `mode ${mode} is neither 0 (bounds) nor 1 (time)` })
    }
    const { partitions } = call.broker.topics.get(topic)
    // A look-up by time reads from the disk: few at a time, so that one request does not hold up the others.
    const found = await inTurns(call.clock, partitions, ({ partition }) => find(call, topic, partition, timestamp), TOGETHER)
    const fault = found.find((each) => each.fault !== null)?.fault ?? null
    if (fault !== null && found.every((each) => each.fault !== null)) throw fault
    const entries = found.map(({ entry }) => entry)
    if (timestamp === undefined) return reply(call, 'OFFSETS', { entries })
    return reply(call, 'OFFSETS', { entries, forTimes: found.flatMap(({ forTime }) => forTime ?? []) })
  },
}

const TOGETHER = 4

/** A partition whose files are damaged must not hide the others. */
async function find(call: Call, topic: string, partition: number, timestamp: UInt64 | undefined): Promise<Found> {
  try {
    const { earliest, logEndOffset, highWatermark, lastStableOffset } = call.broker.offsets.bounds(call.context, topic, partition)
    const entry = { partition, earliest, latest: logEndOffset, highWatermark, lso: lastStableOffset, flags: KNOWN }
    return { entry, forTime: timestamp === undefined ? null : await atTime(call, topic, entry, timestamp), fault: null }
  } catch (error) {
    const fault = asMoonMQError(error)
    if (!isStorageFault(fault)) throw fault
    const entry = { partition, earliest: 0, latest: 0, highWatermark: 0, lso: 0, flags: 0 }
    return { entry, forTime: { partition, offset: 0, flags: 0 }, fault }
  }
}

async function atTime(call: Call, topic: string, { partition, latest }: Entry, timestamp: UInt64): Promise<TimeEntry> {
  // No record has a time beyond the safe integers.
  const found =
    typeof timestamp === 'bigint'
      ? null
      : await call.broker.offsets.forTimestamp(call.context, topic, partition, timestamp, 'read_uncommitted')
  return found === null ? { partition, offset: latest, flags: 0 } : { partition, offset: found.offset, flags: OFFSETS_FOUND }
}
