import type { ByteReader } from '../core/reader.ts'
import type { ByteWriter } from '../core/writer.ts'

/** Messages of one API at one version. */
export interface MessageCodec {
  /** The request has the flexible header (KIP-482): a tag section after the client id. */
  readonly flexibleRequestHeader: boolean
  readonly flexibleResponseHeader: boolean
  /** Throws BAD_FRAME. `records` fields are views of the bytes. */
  decodeRequest(reader: ByteReader): unknown
  /** `records` fields are linked, not copied. */
  encodeResponse(writer: ByteWriter, response: unknown): void
}

/** Where the door gets its codecs from. Asked once for each API and version that is used. */
export interface KafkaCodecs {
  codec(key: number, version: number): MessageCodec
}
