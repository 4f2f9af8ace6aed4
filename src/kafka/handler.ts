import type { RequestContext } from '../broker/context.ts'
import type { BrokerPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import type { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { NetAddress } from '../io/net.ts'
import type { Input } from '../schema/compile.ts'
import type { FetchSessions } from './fetch-sessions.ts'
import type { LentMemory } from './lent-memory.ts'

/**
 * How to write a handler: one file `handlers/NN-name.ts` for each API, NN its key with two digits. The file begins with a comment
 * that says what the API does here and which KIPs it follows, and exports one constant made with `api`:
 *
 *     export const heartbeat = api<HeartbeatRequest, HeartbeatResponse>({
 *       key: 12,
 *       name: 'Heartbeat',
 *       versions: [0, 4],
 *       omissions: [],
 *       async handle(call, request) {
 *         await call.broker.groups.heartbeat(call.context, { group: request.groupId, … })
 *         return { throttleTimeMs: 0, errorCode: 0 }
 *       },
 *       refuse: (error) => ({ throttleTimeMs: 0, errorCode: kafkaCode(error) }),
 *     })
 *
 * Requests are the plain objects of `schema`: every field is there, those that the version lacks hold their defaults. Responses may
 * leave fields out, and what they name outside of their version is dropped where the schema allows it. `handle` translates, calls the broker and
 * nothing more: rules live in `broker`. Add the constant to the list in `handlers/index.ts`; the offer of ApiVersions and the table of
 * docs/KAFKA.md follow from it.
 */
export interface KafkaApi<Request, Response> {
  readonly key: number
  readonly name: string
  /** Lowest and highest version that is answered. Every other one closes the connection (KIP-511 excepts ApiVersions). */
  readonly versions: readonly [number, number]
  /** Lowest version in the offer, where clients look for one that is not answered. */
  readonly offeredFrom?: number
  /** Versions up to `max` are answered too where the broker has this setting: what Kafka offers to those who ask for it. */
  readonly optional?: { readonly max: number; readonly setting: string }
  /** What of the API is left out here, one sentence each: printed in docs/KAFKA.md. */
  readonly omissions: readonly string[]
  /** Requests of a connection run one after another: the next one starts when this answer is there, unless it is `Later`. */
  handle(call: KafkaCall, request: Request): Answer<Input<Response>> | Promise<Answer<Input<Response>>>
  /** The response that carries the error of the request as a whole, where `handle` throws. Null: the connection is closed instead. */
  refuse(error: MoonMQError, request: Request, call: KafkaCall): Input<Response> | null
}

/** The answer itself, an answer that comes after the next request may have begun, or none at all (acks 0). */
export type Answer<Response> = Response | Later<Response> | typeof NO_ANSWER

/** The effects of the request are in order; its answer follows. For Produce alone (DESIGN section 4). The promise never rejects. */
export class Later<Response> {
  readonly response: Promise<Response>

  constructor(response: Promise<Response>) {
    this.response = response
  }
}

export const NO_ANSWER: unique symbol = Symbol('no answer')

/** One request, as its handler sees it. */
export interface KafkaCall {
  readonly version: number
  readonly context: RequestContext
  readonly broker: BrokerPorts
  /** Where clients of this connection reach the broker. */
  readonly advertised: NetAddress
  readonly clock: Clock
  readonly log: Logger
  /** The versions that are offered, for ApiVersions. */
  readonly offer: readonly ApiRange[]
  /** Record bytes that answers hold; Fetch alone reads and moves it. */
  readonly lent: LentMemory
  /** What clients fetch again and again; for Fetch alone. */
  readonly sessions: FetchSessions
  /** Calls `run` once the socket has taken the answer, or the connection is gone: where a handler gives back memory that it lent. */
  afterSent(run: () => void): void
}

export interface ApiRange {
  readonly key: number
  readonly name: string
  readonly min: number
  readonly max: number
}

/** A handler whose message types are known to itself only: how the table holds it. */
export type AnyApi = KafkaApi<unknown, unknown>

/** Checks the handler against its message types and hands it over as the table holds it. */
export function api<Request, Response>(definition: KafkaApi<Request, Response>): AnyApi {
  // The codec makes the request by the schema of the same key that the types were generated from.
  return definition as unknown as AnyApi
}

/** Kafka's code of an error. */
export function kafkaCode(error: MoonMQError | null): number {
  return error === null ? 0 : error.row.kafka
}

/** The same for versions whose clients know a producer that was fenced only by its epoch. */
export function fencedCode(error: MoonMQError | null, version: number, knownSince: number): number {
  const code = kafkaCode(error)
  return code === PRODUCER_FENCED && version < knownSince ? INVALID_PRODUCER_EPOCH : code
}

const PRODUCER_FENCED = 90
const INVALID_PRODUCER_EPOCH = 47

/** The API with the versions that the broker's settings switch on. */
export function withOptional(each: AnyApi, settings: ReadonlyMap<string, string>): AnyApi {
  if (each.optional === undefined || settings.get(each.optional.setting) !== 'true') return each
  return { ...each, versions: [each.versions[0], each.optional.max] }
}
