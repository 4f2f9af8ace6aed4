/** Fields of a record batch header, magic 2 (61 bytes). `sizeBytes` is the whole batch: batch length + 12. */
export interface BatchHeader {
  readonly baseOffset: number
  readonly sizeBytes: number
  readonly leaderEpoch: number
  readonly magic: number
  readonly crc: number
  readonly attributes: number
  readonly lastOffsetDelta: number
  readonly baseTimestampMs: number
  readonly maxTimestampMs: number
  readonly producerId: number
  readonly producerEpoch: number
  readonly baseSequence: number
  readonly recordCount: number
}
