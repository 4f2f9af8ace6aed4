import type { ByteReader } from '../core/reader.ts'
import type { ByteWriter } from '../core/writer.ts'
import { apiData, hasFlexibleHeader } from './messages.ts'
import { bad, skipTags } from './primitives.ts'

/** What comes before every request's body. The client id is an int16 string in every version. */
export interface RequestHeader {
  readonly apiKey: number
  readonly apiVersion: number
  readonly correlationId: number
  readonly clientId: string | null
}

/**
 * Reads the header and leaves the reader at the body. For a key or version that the definitions do not know the reader stays after the
 * client id: what follows cannot be understood and must not be read. Throws BAD_FRAME.
 */
export function readRequestHeader(reader: ByteReader): RequestHeader {
  const apiKey = reader.int16()
  const apiVersion = reader.int16()
  const correlationId = reader.int32()
  const length = reader.int16()
  if (length < -1) throw bad(`a client id of ${length} bytes`)
  const clientId = length < 0 ? null : reader.utf8(length)
  const versions = apiData(apiKey)?.versions
  const known = versions !== undefined && apiVersion <= versions[1]
  if (known && hasFlexibleHeader(apiKey, apiVersion, 'request')) skipTags(reader)
  return { apiKey, apiVersion, correlationId, clientId }
}

export function writeRequestHeader(writer: ByteWriter, header: RequestHeader): void {
  writer.int16(header.apiKey)
  writer.int16(header.apiVersion)
  writer.int32(header.correlationId)
  if (header.clientId === null) writer.int16(-1)
  else {
    const length = Buffer.byteLength(header.clientId)
    writer.int16(length)
    writer.utf8(header.clientId, length)
  }
  if (hasFlexibleHeader(header.apiKey, header.apiVersion, 'request')) writer.uvarint(0)
}

/** The ApiVersions response has no tag section in any version, so that it can be read before the broker is known (KIP-511). */
export function writeResponseHeader(writer: ByteWriter, apiKey: number, apiVersion: number, correlationId: number): void {
  writer.int32(correlationId)
  if (hasFlexibleHeader(apiKey, apiVersion, 'response')) writer.uvarint(0)
}

/** Returns the correlation id and leaves the reader at the body. */
export function readResponseHeader(reader: ByteReader, apiKey: number, apiVersion: number): number {
  const correlationId = reader.int32()
  if (hasFlexibleHeader(apiKey, apiVersion, 'response')) skipTags(reader)
  return correlationId
}
