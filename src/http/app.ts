import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Metrics } from '../core/counters.ts'
import { MoonMQError } from '../core/errors.ts'
import type { Logger } from '../core/logger.ts'
import type { Resource } from '../core/types.ts'
import { MqlEndpoint } from './mql-endpoint.ts'
import type { Statements } from './statements.ts'

/** State of one thing that must be well for the broker to serve. */
export interface HealthCheck {
  readonly name: string
  readonly ok: boolean
  readonly detail: string
}

/** What the HTTP listener shows; `server` supplies it. */
export interface HttpSources {
  /** Prometheus text, version 0.0.4. */
  metrics(): Promise<string>
  /** Whether requests are served now. */
  checks(): readonly HealthCheck[]
  /** The object of `/stats`. */
  stats(): unknown
}

export interface HttpOptions {
  readonly host: string
  readonly port: number
  readonly version: string
  /** Asked for as `Authorization: Bearer …` by all but `/health`; null = nobody is asked. */
  readonly bearerToken: string | null
}

export interface HttpDeps {
  readonly log: Logger
  readonly metrics: Metrics
  readonly sources: HttpSources
  readonly statements: Statements
}

const MAX_HEADER_BYTES = 8 * 1024
const TIME_LIMIT_MS = 5000

interface Answer {
  readonly status: number
  readonly type: string
  readonly body: string
  /** Methods that the path has; GET and HEAD unless given. */
  readonly allow?: string
}

const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * The HTTP door: metrics, health and statistics by GET, statements by POST, one answer a connection.
 * `/health` answers as long as the event loop turns; `/ready` says whether clients should come.
 */
export class HttpDoor implements Resource {
  readonly #server: Server
  readonly #mql: MqlEndpoint
  readonly address: { readonly host: string; readonly port: number }

  private constructor(server: Server, mql: MqlEndpoint, address: { host: string; port: number }) {
    this.#server = server
    this.#mql = mql
    this.address = address
  }

  static async open(deps: HttpDeps, options: HttpOptions): Promise<HttpDoor> {
    const requests = deps.metrics.counter('moonmq_metrics_http_requests_total')
    const server = createServer({
      maxHeaderSize: MAX_HEADER_BYTES,
      requestTimeout: TIME_LIMIT_MS,
      headersTimeout: TIME_LIMIT_MS,
      connectionsCheckingInterval: 1000,
    })
    server.maxRequestsPerSocket = 1
    const mql = new MqlEndpoint(deps.statements, options)
    server.on('request', (request, response) => {
      requests.add()
      answer(request, response, mql, deps, options)
        .catch((error: unknown) => {
          deps.log.error('http.failed', `${request.url ?? '/'} could not be answered`, { error: String(error) })
          return text(500, 'internal error\n')
        })
        .then((result) => send(request, response, result))
        .catch((error: unknown) => deps.log.debug('http.broken', 'the answer could not be sent', { error: String(error) }))
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) => {
        const reason =
          error.code === 'EADDRINUSE' ? 'the port is in use; choose another with --http HOST:PORT, or --http off' : error.message
        reject(
          new MoonMQError('SETTING_INVALID', { reason: `cannot listen for HTTP on ${options.host}:${options.port}: ${reason}` }, error),
        )
      })
      server.listen({ host: options.host, port: options.port }, resolve)
    })
    const bound = server.address()
    const port = typeof bound === 'object' && bound !== null ? bound.port : options.port
    return new HttpDoor(server, mql, { host: options.host, port })
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await this.#mql.close()
    await closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  mql: MqlEndpoint,
  deps: HttpDeps,
  options: HttpOptions,
): Promise<Answer> {
  const { sources } = deps
  const path = (request.url ?? '/').split('?', 1)[0]
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  if (path === '/health' && isRead) return text(200, 'ok\n')
  if (options.bearerToken !== null && !bears(request.headers.authorization, options.bearerToken)) {
    deps.metrics.counter('moonmq_metrics_http_unauthorized_total').add()
    return text(401, 'a token is needed: Authorization: Bearer TOKEN\n')
  }
  if (path === '/mql') {
    const { status, body } = await mql.answer(request, response)
    return { status, type: JSON_TYPE, body: `${body}\n`, allow: 'POST' }
  }
  if (!isRead) return text(405, 'only GET is served here\n')
  switch (path) {
    case '/':
      return { status: 200, type: 'text/html; charset=utf-8', body: index(options.version) }
    case '/metrics':
      return { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', body: await sources.metrics() }
    case '/ready': {
      const checks = sources.checks()
      const ready = checks.every((check) => check.ok)
      return json(ready ? 200 : 503, { status: ready ? 'ready' : 'not ready', checks })
    }
    case '/stats':
      return json(200, sources.stats())
    default:
      return text(404, 'not found; see /\n')
  }
}

/** Compares digests, so that the time taken tells nothing of the token. */
function bears(header: string | undefined, token: string): boolean {
  const given = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1]
  const digest = (value: string) => createHash('sha256').update(value).digest()
  return given !== undefined && timingSafeEqual(digest(given), digest(token))
}

function text(status: number, body: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', body }
}

function json(status: number, body: unknown): Answer {
  return { status, type: JSON_TYPE, body: `${JSON.stringify(body, null, 2)}\n` }
}

function send(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  const body = Buffer.from(answer.body)
  response.writeHead(answer.status, {
    'Content-Type': answer.type,
    'Content-Length': body.length,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    Connection: 'close',
    ...(answer.status === 401 ? { 'WWW-Authenticate': 'Bearer realm="moonmq"' } : {}),
    ...(answer.status === 405 ? { Allow: answer.allow ?? 'GET, HEAD' } : {}),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

function index(version: string): string {
  const link = (path: string, what: string) => `<li><a href="${path}"><code>${path}</code></a> ${what}</li>`
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>MoonMQ</title>
<body style="font: 16px/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem">
<h1>MoonMQ ${version}</h1>
<ul>
${link('/metrics', 'for Prometheus')}
${link('/stats', 'what the broker holds, as JSON')}
${link('/ready', 'whether clients should come, and if not why')}
${link('/health', 'whether the process answers')}
<li><code>POST /mql</code> runs statements of the console language, on a loopback address</li>
</ul>
</body></html>
`
}
