import { MoonMQError } from '../../core/errors.ts'
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

const KNOWN = OFFSETS_HWM_EXACT | OFFSETS_LSO_KNOWN | OFFSETS_LOCAL

/** LIST_OFFSETS: bounds of every partition, and with a time the first offset at or after it. */
export const listOffsets: Handler<'LIST_OFFSETS'> = {
  op: 'LIST_OFFSETS',
  handle(call, { topic, mode, timestamp }) {
    if (mode !== undefined && mode !== LIST_OFFSETS_BOUNDS && mode !== LIST_OFFSETS_TIME) {
      throw new MoonMQError('INVALID_REQUEST', { reason: `mode ${mode} is neither 0 (bounds) nor 1 (time)` })
    }
    const entries = call.broker.topics.get(topic).partitions.map(({ partition }) => {
      const { earliest, logEndOffset, highWatermark, lastStableOffset } = call.broker.offsets.bounds(call.context, topic, partition)
      return { partition, earliest, latest: logEndOffset, highWatermark, lso: lastStableOffset, flags: KNOWN }
    })
    if (timestamp === undefined) return reply(call, 'OFFSETS', { entries })
    return Promise.all(entries.map((entry) => forTime(call, topic, entry, timestamp))).then((forTimes) =>
      reply(call, 'OFFSETS', { entries, forTimes }),
    )
  },
}

async function forTime(
  call: Call,
  topic: string,
  entry: { partition: number; latest: number },
  timestamp: UInt64,
): Promise<{ partition: number; offset: number; flags: number }> {
  const { partition, latest } = entry
  // No record has a time beyond the safe integers.
  const found =
    typeof timestamp === 'bigint'
      ? null
      : await call.broker.offsets.forTimestamp(call.context, topic, partition, timestamp, 'read_uncommitted')
  return found === null ? { partition, offset: latest, flags: 0 } : { partition, offset: found.offset, flags: OFFSETS_FOUND }
}
