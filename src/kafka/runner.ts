import type { RequestContext } from '../broker/context.ts'
import type { BrokerPorts } from '../broker/ports.ts'
import type { Clock } from '../core/clock.ts'
import { asMoonMQError } from '../core/errors.ts'
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
      this.#answered(answer, call, request, reply)
    } catch (error) {
      this.#failed(error, call, request, reply)
    }
    return null
  }

  async #await(answer: Promise<Answer<unknown>>, call: KafkaCall, request: DecodedRequest, reply: OpenReply): Promise<void> {
    try {
      this.#answered(await answer, call, request, reply)
    } catch (error) {
      this.#failed(error, call, request, reply)
    }
  }

  #answered(answer: Answer<unknown>, call: KafkaCall, request: DecodedRequest, reply: OpenReply): void {
    if (answer === NO_ANSWER) {
      this.#host.ready(reply, [])
      return
    }
    if (!(answer instanceof Later)) {
      this.#encode(answer, request, reply)
      return
    }
    answer.response.then(
      (response) => {
        this.#encode(response, request, reply)
        this.#host.resume()
      },
      (error: unknown) => {
        this.#failed(error, call, request, reply)
        this.#host.resume()
      },
    )
  }

  /** Never throws: an answer that cannot be written is a fault of ours, and the client is not left waiting for it. */
  #encode(response: unknown, request: DecodedRequest, reply: OpenReply): void {
    const { clock, dispatch, instruments, log } = this.#deps
    const { api, version } = request.route
    let parts: readonly Buffer[]
    try {
      parts = dispatch.encode(request.route, request.correlationId, response)
    } catch (error) {
      const fields = { ...this.#host.fields(), version, stack: stack(error) }
      log.error('kafka.answer_failed', `the ${api.name} answer cannot be written: ${message(error)}`, fields)
      this.#host.ready(reply, [])
      this.#host.lose('answer_failed')
      return
    }
    this.#host.ready(reply, parts)
    instruments.answered(api.name, clock.monotonicMs() - reply.startedMs)
  }

  #failed(cause: unknown, call: KafkaCall, request: DecodedRequest, reply: OpenReply): void {
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
    if (response !== null) {
      this.#encode(response, request, reply)
      return
    }
    log.debug('kafka.request_refused', `connection closed after ${api.name}: ${error.message}`, this.#host.fields())
    this.#host.ready(reply, [])
    this.#host.lose('request_refused')
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function stack(error: unknown): string | undefined {
  return error instanceof Error ? error.stack : undefined
}
