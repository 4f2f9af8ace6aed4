import type { IncomingMessage, ServerResponse } from 'node:http'
import { isLoopback } from '../config/address.ts'
import { KIB } from '../core/limits.ts'
import type { StatementAnswer, StatementRequest, Statements } from './statements.ts'

/** Longest body of a request. */
const MAX_BODY_BYTES = 64 * KIB
/** Requests that run statements at the same time. */
const MAX_RUNNING = 8
/** Nobody logs in at this door. */
const ANONYMOUS = 'User:ANONYMOUS'

/**
 * `POST /mql`: runs statements, on a listener that only this machine reaches. A page from elsewhere that a person here has open gets nowhere: it
 * cannot send JSON without being asked for its origin, and neither another origin nor another host's name is taken.
 */
export class MqlEndpoint {
  readonly #statements: Statements
  readonly #isLocal: boolean
  readonly #running = new Set<Promise<StatementAnswer>>()
  readonly #stop = new AbortController()

  constructor(statements: Statements, options: { readonly host: string }) {
    this.#statements = statements
    this.#isLocal = isLoopback(options.host)
  }

  /** Those that run are given up. */
  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.allSettled(this.#running)
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<StatementAnswer> {
    const refusal = this.#refusal(request)
    if (refusal !== null) return refusal
    const body = await bodyOf(request)
    if (body === null) return refused(413, `a body has at most ${MAX_BODY_BYTES} bytes`)
    const wanted = parseBody(body)
    if (typeof wanted === 'string') return refused(400, wanted)
    // Counted after the body is there: who sends slowly takes nobody's place.
    if (this.#running.size >= MAX_RUNNING) return refused(429, `${MAX_RUNNING} requests run statements already; try again later`)
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const running = this.#statements.run(ANONYMOUS, wanted, AbortSignal.any([gone.signal, this.#stop.signal]))
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  #refusal({ method, headers }: IncomingMessage): StatementAnswer | null {
    if (!this.#isLocal) {
      return refused(403, 'statements run only where http.host is a loopback address: nobody logs in to this listener. Use moonmq sql')
    }
    if (method !== 'POST') return refused(405, 'only POST is served here')
    const host = headers.host ?? ''
    if (!isLoopback(hostName(host))) return refused(403, `the host ${JSON.stringify(host)} is not this machine's own name: use 127.0.0.1`)
    if (headers.origin !== undefined && headers.origin !== `http://${host}`) return refused(403, 'pages of another origin may not ask here')
    const type = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
    if (type !== 'application/json') return refused(415, 'the body must be application/json')
    return null
  }
}

function refused(status: number, message: string): StatementAnswer {
  return { status, body: JSON.stringify({ error: status === 429 ? 'RATE_LIMITED' : 'INVALID_REQUEST', message }) }
}

/** Of a Host header, without the port and the brackets of IPv6. */
function hostName(host: string): string {
  const found = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::\d+)?$/.exec(host)
  return found?.[1] ?? found?.[2] ?? ''
}

/** Null: it is too long. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return null
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > MAX_BODY_BYTES) return null
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** What is asked, or what is wrong with it. */
function parseBody(body: Buffer): StatementRequest | string {
  let given: unknown
  try {
    given = JSON.parse(body.toString('utf8'))
  } catch {
    return 'the body is no JSON'
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return 'the body must be an object: {"statement": "LIST TOPICS"}'
  const { statement, stopOnError = false, ...others } = given as Record<string, unknown>
  if (typeof statement !== 'string') return '"statement" must be a text: {"statement": "LIST TOPICS"}'
  if (typeof stopOnError !== 'boolean') return '"stopOnError" must be true or false'
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) return `${JSON.stringify(unknown)} is not known here; there are "statement" and "stopOnError"`
  return { source: statement, stopOnError }
}
