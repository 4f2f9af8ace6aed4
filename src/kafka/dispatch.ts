import { MoonMQError } from '../core/errors.ts'
import { ByteReader } from '../core/reader.ts'
import { ByteWriter } from '../core/writer.ts'
import type { Steps } from '../schema/compile.ts'
import { skipTags } from '../schema/primitives.ts'
import { type MessageCodec, messageCodec } from './codec.ts'
import type { AnyApi, ApiRange } from './handler.ts'
import { describeSkipped } from './skipped.ts'

const API_VERSIONS_KEY = 18
/** Kafka's UNSUPPORTED_VERSION. */
const UNSUPPORTED_VERSION = 35
/** Bytes of a client id that are kept; longer ones are cut, the header allows 32 KiB. */
const CLIENT_ID_MAX_BYTES = 255

/** One version of one API: its handler and its codec, found once. */
export interface Route {
  readonly api: AnyApi
  readonly version: number
  readonly codec: MessageCodec
}

/** A request whose header and body were read. */
export interface DecodedRequest {
  readonly route: Route
  readonly correlationId: number
  readonly clientId: string
  readonly body: unknown
}

/** ApiVersions in a version that is not known: answered in the layout of version 0 (KIP-511). */
export interface Downgrade {
  readonly route: null
  readonly correlationId: number
}

/** The table of handlers: decodes requests and encodes answers. Holds no state of a connection. */
export class Dispatch {
  readonly offer: readonly ApiRange[]
  readonly apis: readonly AnyApi[]
  readonly #routes = new Map<number, Route>()
  readonly #apis = new Map<number, AnyApi>()

  constructor(apis: readonly AnyApi[]) {
    this.apis = [...apis].sort((left, right) => left.key - right.key)
    for (const api of this.apis) this.#apis.set(api.key, api)
    this.offer = this.apis.map((api) => ({
      key: api.key,
      name: api.name,
      min: api.offeredFrom ?? api.versions[0],
      max: api.versions[1],
    }))
  }

  /**
   * Reads the header and the body. Throws BAD_FRAME for bytes that are no such request, and UNSUPPORTED_VERSION or UNKNOWN_OP where
   * the broker does not know how to answer: the connection is closed then, since an answer in a guessed layout is worse.
   */
  decode(frame: Buffer): DecodedRequest | Downgrade {
    const reader = new ByteReader(frame)
    const head = this.#head(reader)
    // What stands behind the body is left alone, as Kafka does: librdkafka 2.16 sends three bytes too many with Metadata 13 for all topics.
    return head.route === null ? head : { ...head, body: head.route.codec.decodeRequest(reader) }
  }

  /** The same in steps, for a frame that may name very many things. */
  *decodeInSteps(frame: Buffer): Steps<DecodedRequest | Downgrade> {
    const reader = new ByteReader(frame)
    const head = this.#head(reader)
    return head.route === null ? head : { ...head, body: yield* head.route.codec.decodeRequestInSteps(reader) }
  }

  #head(reader: ByteReader): Omit<DecodedRequest, 'body'> | Downgrade {
    const key = reader.int16()
    const version = reader.int16()
    const correlationId = reader.int32()
    const route = this.#route(key, version)
    if (route === null) return { route, correlationId }
    const clientId = readClientId(reader)
    if (route.codec.flexibleRequestHeader) skipTags(reader)
    return { route, correlationId, clientId }
  }

  /** The frame of an answer, its length in front. */
  encode(route: Route, correlationId: number, response: unknown): Buffer[] {
    const writer = answerWriter(route, correlationId)
    route.codec.encodeResponse(writer, response)
    return framed(writer)
  }

  /** The same in steps, for an answer that names very many things. */
  *encodeInSteps(route: Route, correlationId: number, response: unknown): Steps<Buffer[]> {
    const writer = answerWriter(route, correlationId)
    yield* route.codec.encodeResponseInSteps(writer, response)
    return framed(writer)
  }

  /** The answer to ApiVersions in an unknown version: error 35 and the whole offer, laid out as version 0 with header 0. */
  encodeDowngrade(correlationId: number): Buffer[] {
    const writer = new ByteWriter()
    writer.int32(10 + 6 * this.offer.length)
    writer.int32(correlationId)
    writer.int16(UNSUPPORTED_VERSION)
    writer.int32(this.offer.length)
    for (const range of this.offer) {
      writer.int16(range.key)
      writer.int16(range.min)
      writer.int16(range.max)
    }
    return writer.finish()
  }

  #route(key: number, version: number): Route | null {
    const known = this.#routes.get(key * 65536 + version)
    if (known !== undefined) return known
    const api = this.#apis.get(key)
    if (api === undefined) throw new MoonMQError('UNKNOWN_OP', { op: describeSkipped(key) })
    const [min, max] = api.versions
    if (version < min || version > max) {
      if (key === API_VERSIONS_KEY) return null
      throw new MoonMQError('UNSUPPORTED_VERSION', { api: api.name, version, supported: `${min}-${max}` })
    }
    const route = { api, version, codec: messageCodec(key, version) }
    this.#routes.set(key * 65536 + version, route)
    return route
  }
}

function answerWriter(route: Route, correlationId: number): ByteWriter {
  const writer = new ByteWriter()
  writer.int32(0)
  writer.int32(correlationId)
  if (route.codec.flexibleResponseHeader) writer.uvarint(0)
  return writer
}

function framed(writer: ByteWriter): Buffer[] {
  const size = writer.length - 4
  const parts = writer.finish()
  ;(parts[0] as Buffer).writeInt32BE(size, 0)
  return parts
}

/** Nullable string with an int16 length in every header version. */
function readClientId(reader: ByteReader): string {
  const length = reader.int16()
  if (length < -1) throw new MoonMQError('BAD_FRAME', { reason: `client id of ${length} bytes` })
  if (length <= 0) return ''
  const at = reader.take(length)
  return reader.bytes.toString('utf8', at, at + Math.min(length, CLIENT_ID_MAX_BYTES))
}
