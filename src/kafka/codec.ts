import type { ByteReader } from '../core/reader.ts'
import type { ByteWriter } from '../core/writer.ts'
import type { Input, Steps } from '../schema/compile.ts'
import { type ApiName, apiInfo, hasFlexibleHeader, requestCodec, responseCodec } from '../schema/messages.ts'

/** Messages of one API at one version. */
export interface MessageCodec {
  /** The request has the flexible header (KIP-482): a tag section after the client id. */
  readonly flexibleRequestHeader: boolean
  readonly flexibleResponseHeader: boolean
  /** Throws BAD_FRAME. `records` fields are views of the bytes. */
  decodeRequest(reader: ByteReader): unknown
  decodeRequestInSteps(reader: ByteReader): Steps<unknown>
  /** Large `records` fields are linked, not copied. */
  encodeResponse(writer: ByteWriter, response: unknown): void
  encodeResponseInSteps(writer: ByteWriter, response: unknown): Steps<void>
}

/** The codec of an API that the schemas know; throws UNSUPPORTED_VERSION for another version than theirs. */
export function messageCodec(key: number, version: number): MessageCodec {
  const name = (apiInfo(key)?.name ?? `key ${key}`) as ApiName
  const request = requestCodec(name, version)
  const response = responseCodec(name, version)
  return {
    flexibleRequestHeader: hasFlexibleHeader(key, version, 'request'),
    flexibleResponseHeader: hasFlexibleHeader(key, version, 'response'),
    decodeRequest: (reader) => request.decode(reader),
    decodeRequestInSteps: (reader) => request.decodeInSteps(reader),
    // The table of handlers pairs each response with the name that its types were generated from.
    encodeResponse: (writer, body) => response.encode(writer, body as Input<unknown> as never),
    encodeResponseInSteps: (writer, body) => response.encodeInSteps(writer, body as Input<unknown> as never),
  }
}
