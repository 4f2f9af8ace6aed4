import { ByteReader } from '../../src/core/reader.ts'
import { ByteWriter } from '../../src/core/writer.ts'
import type { Input } from '../../src/schema/compile.ts'
import { API_KEYS } from '../../src/schema/data.generated.ts'
import { readResponseHeader, writeRequestHeader } from '../../src/schema/headers.ts'
import { type ApiName, apiInfo, requestCodec, responseCodec } from '../../src/schema/messages.ts'
import type { Requests, Responses } from '../../src/schema/types.generated.ts'

/** A request as a client frames it, its length in front. */
export function requestFrame<N extends ApiName>(
  name: N,
  version: number,
  body: Input<Requests[N]>,
  options: { correlationId?: number; clientId?: string | null } = {},
): Buffer {
  const writer = new ByteWriter()
  const { correlationId = 1, clientId = 'test' } = options
  writeRequestHeader(writer, { apiKey: API_KEYS[name], apiVersion: version, correlationId, clientId })
  requestCodec(name, version).encode(writer, body)
  return framed(writer.toBuffer())
}

export function framed(payload: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(payload.length)
  return Buffer.concat([length, payload])
}

/** A request header alone, for versions and keys that no codec knows. */
export function rawRequest(key: number, version: number, rest: Buffer = Buffer.alloc(0), correlationId = 1): Buffer {
  const header = Buffer.alloc(8)
  header.writeInt16BE(key, 0)
  header.writeInt16BE(version, 2)
  header.writeInt32BE(correlationId, 4)
  return framed(Buffer.concat([header, rest]))
}

/** Cuts what a broker sent into frames without their lengths. Throws when bytes are left over. */
export function frames(bytes: Buffer): Buffer[] {
  const found: Buffer[] = []
  let at = 0
  while (at < bytes.length) {
    const length = bytes.readInt32BE(at)
    if (at + 4 + length > bytes.length) throw new Error(`a frame of ${length} bytes is cut short`)
    found.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return found
}

export function readResponse<N extends ApiName>(name: N, version: number, frame: Buffer): { correlationId: number; body: Responses[N] } {
  const reader = new ByteReader(frame)
  const correlationId = readResponseHeader(reader, apiInfo(API_KEYS[name])?.key ?? -1, version)
  const body = responseCodec(name, version).decode(reader)
  reader.expectEnd(`the ${name} response`)
  return { correlationId, body }
}
