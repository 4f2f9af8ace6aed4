import type { PartitionRecords } from '../../broker/ports.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { IsolationLevel } from '../../core/types.ts'
import { toWire } from '../../wire/errors.ts'
import { MAX_FETCH_BYTES, MAX_FETCH_RECORDS, MAX_READ_PART_BYTES, MAX_READ_WAIT_MS } from '../../wire/limits.ts'
import type { Message } from '../../wire/messages.ts'
import { ISOLATION_READ_COMMITTED, START_EARLIEST, START_LATEST, START_OFFSET, START_TIME } from '../../wire/opcodes.ts'
import { readRecordBytes } from '../../wire/records.ts'
import { type Answer, type Call, type Handler, reply } from '../session.ts'
import { openTopic } from './topic-rules.ts'

type Wanted = Message<'READ'>['partitions'][number]
type Part = Message<'READ_RESULT'>['partitions'][number]
type Place = { readonly partition: number; readonly offset: number }

/** READ (extension): partitions of a topic without a group, waiting on all of them at once. Nothing is committed. */
export const read: Handler<'READ'> = {
  op: 'READ',
  async handle(call, message) {
    const { topic, partitions: wanted } = message
    openTopic(call, topic)
    const isolation = message.isolation === ISOLATION_READ_COMMITTED ? 'read_committed' : 'read_uncommitted'
    const places: Place[] = []
    const refused = new Map<number, Part>()
    checkOnce(wanted)
    const overhead = wanted.length * PART_BYTES
    const room = answerBytes(call) - overhead
    if (room <= 0) throw tooMany(wanted.length)
    const find = async (each: Wanted, index: number) => {
      try {
        places.push({ partition: each.partition, offset: await startOf(call, topic, each, isolation) })
      } catch (error) {
        refused.set(index, refusal(each, asMoonMQError(error)))
      }
    }
    await inTurns(call.clock, wanted, find, 1)
    if (places.length === 0) return result(call, [...refused.values()])
    const got = await call.broker.records.readTopic(call.context, {
      topic,
      partitions: places,
      isolation,
      maxRecords: Math.min(Math.max(1, message.maxRecords), MAX_FETCH_RECORDS),
      maxBytes: Math.min(Math.max(1, message.maxBytes), room),
      maxWaitMs: refused.size > 0 ? 0 : Math.min(message.maxWaitMs, MAX_READ_WAIT_MS),
      maxPartBytes: largestRecord(call),
      recordBytes: readRecordBytes,
      maxRecordBytes: largestRecord(call) - overhead,
    })
    try {
      let next = 0
      return result(
        call,
        wanted.map((_, index) => refused.get(index) ?? part(got.partitions[next++])),
      )
    } finally {
      // The frame is a copy.
      got.release()
    }
  },
}

/** A partition that is named over and over would be read as often for one small request. */
function checkOnce(wanted: readonly Wanted[]): void {
  const seen = new Set<number>()
  for (const { partition } of wanted) {
    if (seen.has(partition)) throw new MoonMQError('INVALID_REQUEST', { reason: `partition ${partition} is named more than once` })
    seen.add(partition)
  }
}

/** Throws INVALID_REQUEST, PARTITION_MISSING. */
export async function startOf(call: Call, topic: string, wanted: Wanted, isolation: IsolationLevel): Promise<number> {
  const { partition, start, value } = wanted
  const bounds = call.broker.offsets.bounds(call.context, topic, partition)
  const end = isolation === 'read_committed' ? bounds.lastStableOffset : bounds.highWatermark
  switch (start) {
    case START_OFFSET:
      return value
    case START_EARLIEST:
      return bounds.earliest
    case START_LATEST:
      return end
    case START_TIME:
      return (await call.broker.offsets.forTimestamp(call.context, topic, partition, value, isolation))?.offset ?? end
    default:
      throw new MoonMQError('INVALID_REQUEST', { reason: `start ${start} is not one of 0 offset, 1 earliest, 2 latest, 3 time` })
  }
}

function refusal(wanted: Wanted, error: MoonMQError): Part {
  const { code, name, message } = toWire(error)
  const unknown = { nextOffset: -1, earliest: -1, highWatermark: -1, lastStable: -1, records: [] }
  return { partition: wanted.partition, code, errorName: name, errorMessage: message, ...unknown }
}

/** What a part of an answer takes beside its records. */
const PART_BYTES = 64

function tooMany(partitions: number): MoonMQError {
  return new MoonMQError('INVALID_REQUEST', { reason: `an answer about ${partitions} partitions is too long; ask for fewer at once` })
}

/** Most bytes of records in one answer: with what may be queued before it (a quarter), less than may be pending. */
export function answerBytes({ options }: Call): number {
  return Math.min(MAX_FETCH_BYTES, Math.floor(options.maxPendingBytes / 2))
}

/** Of what may be pending: the largest answer, when a quarter is queued already. */
const LARGEST_SHARE = 0.7

/** What fits a frame, and the queue of a client that has not taken all of the answer before (a quarter of it at most). */
export function largestRecord(call: Call): number {
  return Math.min(MAX_READ_PART_BYTES, Math.floor(call.options.maxPendingBytes * LARGEST_SHARE))
}

function part(got: PartitionRecords | undefined): Part {
  if (got === undefined) throw new MoonMQError('INTERNAL', { reason: 'a read without one of its partitions' })
  const { partition, error, nextOffset, highWatermark, records } = got
  const bounds = { nextOffset, earliest: got.logStartOffset, highWatermark, lastStable: got.lastStableOffset, records }
  if (error === null) return { partition, code: 0, ...bounds }
  const { code, name, message } = toWire(error)
  return { partition, code, errorName: name, errorMessage: message, ...bounds }
}

function result(call: Call, partitions: readonly Part[]): Answer {
  let bytes = 4
  for (const each of partitions) {
    bytes += PART_BYTES + 3 * (each.errorMessage?.length ?? 0)
    for (const record of each.records) bytes += readRecordBytes(record)
  }
  if (bytes > call.options.maxPendingBytes * LARGEST_SHARE) throw tooMany(partitions.length)
  return reply(call, 'READ_RESULT', { partitions }, bytes)
}
