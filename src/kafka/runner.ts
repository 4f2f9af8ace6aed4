import type { RequestContext } from '../broker/context.ts'
import type { BrokerPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import { asMoonMQError } from '../core/errors.ts'
import { inSteps } from '../core/in-turns.ts'
import type { LogFields, Logger } from '../core/logger.ts'
import type { NetAddress } from '../io/net.ts'
import type { DecodedRequest, Dispatch } from './dispatch.ts'
import type { FetchSessions } from './fetch-sessions.ts'
import { type Answer, type KafkaCall, Later, NO_ANSWER } from './handler.ts'
import type { Instruments } from './instruments.ts'
import type { LentMemory } from './lent-memory.ts'
import type { OpenReply } from './replies.ts'

export interface RunnerDeps {
  readonly broker: BrokerPorts
  readonly clock: Clock
  readonly log: Logger
  readonly dispatch: Dispatch
  readonly instruments: Instruments
  readonly lent: LentMemory
  readonly sessions: FetchSessions
}

/** What the runner asks of its connection. */
export interface RunnerHost {
  readonly advertised: NetAddress
  /** The answer can be sent; without parts there is none. */
  ready(reply: OpenReply, parts: readonly Buffer[]): void
  /** An answer became ready apart from the input: send what can be sent and go on. */
  resume(): void
  /** Close the connection once earlier answers are out. */
  lose(reason: string): void
  fields(): LogFields
}

/** Runs the handlers of one connection and turns what they give, or throw, into answers. Keeps nothing between requests. */
export class RequestRunner {
  readonly #deps: RunnerDeps
  readonly #host: RunnerHost

  constructor(deps: RunnerDeps, host: RunnerHost) {
    this.#deps = deps
    this.#host = host
  }

  /** Null when the next request may start; else a promise that ends then. It never rejects. */
  run(request: DecodedRequest, context: RequestContext, reply: OpenReply): Promise<void> | null {
    const { api, version } = request.route
    const { broker, clock, log, dispatch, instruments, lent, sessions } = this.#deps
    instruments.request(api.name)
    const call: KafkaCall = {
      version,
      context,
      broker,
      advertised: this.#host.advertised,
      clock,
      log,
      offer: dispatch.offer,
      lent,
      sessions,
      afterSent(run) {
        if (reply.afterSent === null) reply.afterSent = [run]
        else reply.afterSent.push(run)
      },
    }
    try {
      const answer = api.handle(call, request.body)
      if (answer instanceof Promise) return this.#await(answer, call, request, reply)
      return this.#answered(answer, call, request, reply)
    } catch (error) {
      return this.#failed(error, call, request, reply)
    }
  }

  async #await(answer: Promise<Answer<unknown>>, call: KafkaCall, request: DecodedRequest, reply: OpenReply): Promise<void> {
    let given: Answer<unknown>
    try {
      given = await answer
    } catch (error) {
      await this.#failed(error, call, request, reply)
      return
    }
    await this.#answered(given, call, request, reply)
  }

  /** Null when the next request may start, as `run` says. */
  #answered(answer: Answer<unknown>, call: KafkaCall, request: DecodedRequest, reply: OpenReply): Promise<void> | null {
    if (answer === NO_ANSWER) {
      this.#host.ready(reply, [])
      return null
    }
    if (!(answer instanceof Later)) return this.#encode(answer, request, reply)
    answer.response.then(
      (response) => this.#resumeAfter(this.#encode(response, request, reply)),
      (error: unknown) => this.#resumeAfter(this.#failed(error, call, request, reply)),
    )
    return null
  }

  #resumeAfter(encoding: Promise<void> | null): void {
    if (encoding === null) this.#host.resume()
    // It never rejects.
    else void encoding.then(() => this.#host.resume())
  }

  /** Never throws or rejects: an answer that cannot be written is a fault of ours, and the client is not left waiting for it. */
  #encode(response: unknown, request: DecodedRequest, reply: OpenReply): Promise<void> | null {
    if (namesMany(response)) return this.#encodeInSteps(response, request, reply)
    try {
      this.#ready(this.#deps.dispatch.encode(request.route, request.correlationId, response), request, reply)
    } catch (error) {
      this.#notWritten(error, request, reply)
    }
    return null
  }

  async #encodeInSteps(response: unknown, request: DecodedRequest, reply: OpenReply): Promise<void> {
    const { clock, dispatch } = this.#deps
    try {
      const encoded = await inSteps(clock, dispatch.encodeInSteps(request.route, request.correlationId, response))
      this.#ready(encoded, request, reply)
    } catch (error) {
      this.#notWritten(error, request, reply)
    }
  }

  #ready(parts: readonly Buffer[], { route }: DecodedRequest, reply: OpenReply): void {
    const { clock, instruments } = this.#deps
    this.#host.ready(reply, parts)
    instruments.answered(route.api.name, clock.monotonicMs() - reply.startedMs)
  }

  #notWritten(error: unknown, { route }: DecodedRequest, reply: OpenReply): void {
    const fields = { ...this.#host.fields(), version: route.version, stack: stack(error) }
    this.#deps.log.error('kafka.answer_failed', `the ${route.api.name} answer cannot be written: ${message(error)}`, fields)
    this.#host.ready(reply, [])
    this.#host.lose('answer_failed')
  }

  #failed(cause: unknown, call: KafkaCall, request: DecodedRequest, reply: OpenReply): Promise<void> | null {
    const { log } = this.#deps
    const error = asMoonMQError(cause)
    const { api, version } = request.route
    if (error.code === 'INTERNAL') {
      const fields = { ...this.#host.fields(), version, stack: stack(error.cause ?? error) }
      log.error('kafka.request_failed', `${api.name} failed: ${error.message}`, fields)
    }
    let response: unknown
    try {
      response = api.refuse(error, request.body, call)
    } catch (second) {
      log.error('kafka.request_failed', `${api.name} has no answer to its failure: ${message(second)}`, this.#host.fields())
      response = null
    }
    if (response !== null) return this.#encode(response, request, reply)
    log.debug('kafka.request_refused', `connection closed after ${api.name}: ${error.message}`, this.#host.fields())
    this.#host.ready(reply, [])
    this.#host.lose('request_refused')
    return null
  }
}

/** Array elements of an answer, in its first levels, from which on it is written in steps. */
const MANY_ELEMENTS = 2048
/** Deep enough for groups, their topics and those topics' partitions. */
const LEVELS = 3

function namesMany(answer: unknown): boolean {
  return countElements(answer as Readonly<Record<string, unknown>>, LEVELS, MANY_ELEMENTS) >= MANY_ELEMENTS
}

/** Stops where there are as many as `enough`. */
function countElements(value: Readonly<Record<string, unknown>>, levels: number, enough: number): number {
  let count = 0
  for (const name in value) {
    const field = value[name]
    if (!Array.isArray(field) || field.length === 0) continue
    count += field.length
    if (levels === 1 || typeof field[0] !== 'object' || Buffer.isBuffer(field[0])) continue
    for (const each of field) {
      if (count >= enough) return count
      count += countElements(each, levels - 1, enough - count)
    }
  }
  return count
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function stack(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined
}
