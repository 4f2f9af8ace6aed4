import { MoonMQError } from '../core/errors.ts'
import { buildBatch } from './builder.ts'

/** Kafka's control record types: the second int16 of a control record's key. */
const CONTROL_TYPE = {
  abort: 0,
  commit: 1,
  leaderChange: 2,
  snapshotHeader: 3,
  snapshotFooter: 4,
  kraftVersion: 5,
  voters: 6,
} as const

export type ControlKind = keyof typeof CONTROL_TYPE

const KINDS = Object.keys(CONTROL_TYPE) as ControlKind[]

/** The key of a control record: int16 version 0, int16 type. */
export function controlKey(kind: ControlKind): Buffer {
  const key = Buffer.alloc(4)
  key.writeInt16BE(CONTROL_TYPE[kind], 2)
  return key
}

/** What a control record's key says; undefined for a type of a later Kafka, which readers skip. Throws INVALID_RECORD. */
export function readControlKind(key: Buffer | null): ControlKind | undefined {
  if (key === null || key.length < 4)
    throw new MoonMQError('INVALID_RECORD', { reason: 'a control record needs a key of at least 4 bytes' })
  const version = key.readInt16BE(0)
  if (version < 0) throw new MoonMQError('INVALID_RECORD', { reason: `control record version ${version} is impossible` })
  return KINDS[key.readInt16BE(2)]
}

/** The end of a transaction in one partition (KIP-98): a batch of its own that takes one offset. */
export interface EndTxnMarker {
  readonly commit: boolean
  readonly producerId: number
  readonly producerEpoch: number
  readonly coordinatorEpoch: number
  readonly timestampMs: number
}

export function buildEndTxnMarker(marker: EndTxnMarker, place: { baseOffset?: number; leaderEpoch?: number } = {}): Buffer {
  const value = Buffer.alloc(6)
  value.writeInt32BE(marker.coordinatorEpoch, 2)
  return buildBatch([{ key: controlKey(marker.commit ? 'commit' : 'abort'), value, timestampMs: marker.timestampMs }], {
    ...place,
    producerId: marker.producerId,
    producerEpoch: marker.producerEpoch,
    transactional: true,
    control: true,
  })
}

/** The coordinator epoch in a marker's value: int16 version, int32 epoch. Throws INVALID_RECORD. */
export function readCoordinatorEpoch(value: Buffer | null): number {
  if (value === null || value.length < 6)
    throw new MoonMQError('INVALID_RECORD', { reason: 'a transaction marker needs a value of at least 6 bytes' })
  const version = value.readInt16BE(0)
  if (version < 0) throw new MoonMQError('INVALID_RECORD', { reason: `transaction marker version ${version} is impossible` })
  return value.readInt32BE(2)
}
