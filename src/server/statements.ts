import { connect } from '../client/index.ts'
import type { Clock } from '../core/clock.ts'
import { asMoonMQError, ERRORS, MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import type { Random } from '../core/random.ts'
import type { StatementAnswer, StatementRequest, Statements } from '../http/statements.ts'
import type { NetConnection } from '../io/net.ts'
import { VirtualNet } from '../io/virtual-net.ts'
import type { Parsed } from '../mql/ast.ts'
import { ClientOperations } from '../mql/client-operations.ts'
import { MqlError } from '../mql/errors.ts'
import { Executor } from '../mql/executor.ts'
import { jsonText } from '../mql/format.ts'
import type { ConnectTo, Operations } from '../mql/operations.ts'
import { parse } from '../mql/parser.ts'
import type { ResultLimits, ScanLimits } from '../mql/select.ts'

export interface ServerStatementsDeps {
  /** Takes a connection of this process for the native door, as this principal. */
  readonly accept: (connection: NetConnection, principal: string) => void
  readonly clock: Clock
  readonly random: Random
}

export interface StatementLimits {
  /** Of all statements of an input together. */
  readonly maxMs: number
  /** Of one statement. */
  readonly scan: ScanLimits
  readonly result: ResultLimits
  /** Of the results of an input, as JSON: none runs behind the one that goes beyond. */
  readonly maxAnswerBytes: number
}

const DEFAULT_LIMITS: StatementLimits = {
  maxMs: 60_000,
  scan: { maxRecords: 1_000_000, maxBytes: 256 * MIB, maxMs: 20_000 },
  result: { maxRows: 10_000, maxBytes: 4 * MIB, maxMs: 30_000 },
  maxAnswerBytes: 8 * MIB,
}

/** Where the client of a session finds the broker, on a network of their own. */
const INSIDE = { host: 'inside', port: 9092 }
const TIMEOUT_MS = 30_000

/**
 * Statements for somebody who stands at another door: a client of the native door over a connection within the process, which is logged in
 * as that principal. So every request is checked as if it came from outside. A session lasts for one input.
 */
export class ServerStatements implements Statements {
  readonly #deps: ServerStatementsDeps
  readonly #limits: StatementLimits

  constructor(deps: ServerStatementsDeps, limits: StatementLimits = DEFAULT_LIMITS) {
    this.#deps = deps
    this.#limits = limits
  }

  async run(principal: string, request: StatementRequest, signal: AbortSignal): Promise<StatementAnswer> {
    let statements: readonly Parsed[]
    try {
      statements = parse(request.source, { lastMayEnd: true })
    } catch (error) {
      if (!(error instanceof MqlError)) throw error
      return { status: 400, body: JSON.stringify({ error: 'SYNTAX', message: error.message, ...error.place }) }
    }
    const { clock } = this.#deps
    const { maxMs } = this.#limits
    const late = new AbortController()
    const timer = clock.setTimer(maxMs, () => late.abort(), { keepAlive: true })
    // Who waits too long is told so, and not that somebody gave it up.
    const told = (error: unknown) =>
      late.signal.aborted ? new MoonMQError('REQUEST_TIMED_OUT', { timeoutMs: maxMs }) : asMoonMQError(error)
    try {
      return await this.#runAll(principal, statements, request.stopOnError, AbortSignal.any([signal, late.signal]), told)
    } catch (error) {
      const failure = told(error)
      return { status: ERRORS[failure.code].http, body: failureText(failure) }
    } finally {
      timer.cancel()
    }
  }

  async #runAll(
    principal: string,
    statements: readonly Parsed[],
    stopOnError: boolean,
    signal: AbortSignal,
    told: (error: unknown) => MoonMQError,
  ): Promise<StatementAnswer> {
    const { clock } = this.#deps
    const { scan, result, maxAnswerBytes } = this.#limits
    const session: ConnectTo = { ...INSIDE, user: principal, password: '' }
    const connector = (to: ConnectTo) => this.#connect(principal, to, signal)
    await using executor = new Executor({ connect: connector, clock }, { session, scan, result })
    await executor.open(signal)
    const results: string[] = []
    let status = 200
    let length = 0
    for (const { statement } of statements) {
      if (statement.kind === 'quit') break
      const isFull = length >= maxAnswerBytes
      try {
        if (isFull) throw tooLarge(maxAnswerBytes)
        results.push(jsonText(await executor.run(statement, signal)))
      } catch (error) {
        const failure = told(error)
        if (status === 200) status = ERRORS[failure.code].http
        results.push(failureText(failure))
        if (stopOnError || isFull || signal.aborted) break
      }
      length += results.at(-1)?.length ?? 0
    }
    return { status, body: `{"results":[${results.join(',')}]}` }
  }

  async #connect(principal: string, to: ConnectTo, signal: AbortSignal): Promise<Operations> {
    if (to.host !== INSIDE.host || to.port !== INSIDE.port || to.user !== principal || to.password !== '') {
      throw new MoonMQError('INVALID_REQUEST', {
        reason: 'statements here run on this broker, as who asks: CONNECT elsewhere with moonmq sql',
      })
    }
    const { accept, clock, random } = this.#deps
    const net = new VirtualNet({ clock })
    await net.listen(INSIDE, (connection) => accept(connection, principal))
    const client = await connect({ address: INSIDE, net, clock, random, name: 'moonmq-http', timeoutMs: TIMEOUT_MS, signal })
    return new ClientOperations({ client, clock, random }, 'this broker')
  }
}

function tooLarge(maxBytes: number): MoonMQError {
  return new MoonMQError('INVALID_REQUEST', {
    reason: `the answer has ${maxBytes} bytes already: this statement and those behind it were not run`,
  })
}

function failureText({ code, message }: MoonMQError): string {
  return JSON.stringify({ error: code, message })
}
