import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { formatAddress } from '../../config/address.ts'
import { readFailpoints } from '../../config/failpoints.ts'
import type { Settings } from '../../config/keys.ts'
import { loadConfig } from '../../config/load.ts'
import { SystemClock } from '../../core/clock.ts'
import type { Logger } from '../../core/logger.ts'
import { NodeLoader } from '../../io/loader.ts'
import { ProcessLog } from '../../obs/logger.ts'
import { MetricsRegistry } from '../../obs/metrics.ts'
import { Scrape } from '../../obs/scrape.ts'
import { BrokerServer, dataFolder } from '../../server/broker-server.ts'
import { DEFAULT_POOL_SIZE, thisMachine } from '../../server/machine.ts'
import { onStopSignals } from '../../server/signals.ts'
import { VERSION } from '../../server/version.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { readTextFile, removeFile, writeFileAtOnce } from '../files.ts'
import { printJson, styled } from '../output.ts'
import { parseHostPort } from '../parse.ts'

const HELP = `usage: moonmq start [options]

  --listen HOST:PORT    where clients connect, both protocols on one port (default 127.0.0.1:9092; port 0 = any free one)
  --http HOST:PORT      metrics, health and statistics (default 127.0.0.1:9090), or "off"
  --data DIR            data folder (default ./moonmq-data)
  --memory              keep everything in memory; nothing survives the stop
  --config FILE         settings file (default ./moonmq.json when it is there)
  --ready-file FILE     written when clients can connect, removed at the end
  --json                print the ready line as JSON
  --help                print this

Settings come from the defaults, then moonmq.json, moonmq.<environment>.json, MOONMQ_ variables, then these options.
docs/CONFIG.md has them all; "moonmq config" shows those in force.
`

const OPTIONS = {
  listen: { type: 'string' },
  http: { type: 'string' },
  data: { type: 'string' },
  memory: { type: 'boolean' },
  config: { type: 'string' },
  'ready-file': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

type StartValues = { [K in keyof typeof OPTIONS]?: (typeof OPTIONS)[K]['type'] extends 'string' ? string : boolean }

/** Starts the broker and runs until a signal or a failure ends it. Exit 0 after an ordered stop. */
export async function start(context: CliContext, argv: readonly string[]): Promise<number> {
  const values = parse(argv)
  if (values.help) {
    context.out(HELP)
    return EXIT.done
  }
  const { settings, warnings, files } = await loadConfig({
    readText: (path) => readTextFile(resolve(context.cwd, path)),
    env: context.env,
    flags: flags(values),
    configFile: values.config ?? null,
  })
  const clock = new SystemClock()
  await using processLog = new ProcessLog(
    { clock },
    {
      level: settings.logging.level,
      file: settings.logging.file,
      stderr: settings.logging.logToStderr,
      format: context.errIsTerminal ? 'text' : 'json',
      colour: context.colour,
    },
  )
  const log = processLog.logger
  for (const warning of warnings) log.warn('config.ignored', warning)
  if (files.length > 0) log.info('config.read', `settings from ${files.join(', ')}`)
  const started = await startServer(context, settings, processLog)
  return run(context, started, log, values)
}

async function startServer(
  context: CliContext,
  settings: Settings,
  processLog: ProcessLog,
): Promise<{ server: BrokerServer; settings: Settings }> {
  const log = processLog.logger
  const poolSize = Number(context.env['UV_THREADPOOL_SIZE']) || DEFAULT_POOL_SIZE
  const failures = readFailpoints(context.env)
  for (const { name, nth, errorCode } of failures) {
    const what = errorCode === null ? 'dies' : `is given ${errorCode}`
    log.warn(
      'test.failpoint',
      `MOONMQ_FAILPOINT is set: this broker ${what} at moment ${name}, time ${nth}; never set it where data matters`,
    )
  }
  const machine = thisMachine({ poolSize, memoryBytes: settings.server.memory ? Number.POSITIVE_INFINITY : null, log, failures })
  const registry = new MetricsRegistry()
  const scrape = new Scrape({ loader: new NodeLoader(), registry }, { processMetrics: true })
  const server = await BrokerServer.start({ machine, log, logLevels: processLog, metrics: registry, scrape: () => scrape.text() }, settings)
  return { server, settings }
}

async function run(
  context: CliContext,
  { server, settings }: { server: BrokerServer; settings: Settings },
  log: Logger,
  values: StartValues,
): Promise<number> {
  const signals = onStopSignals({
    stop: (signal) => {
      log.info('server.stopping', `${signal}: stopping; once more to stop at once`)
      server
        .close()
        .catch((error: unknown) =>
          log.error('server.stop_failed', 'the stop was not in order; the next start recovers', { error: String(error) }),
        )
    },
    force: (signal) => process.exit(signal === 'SIGINT' ? EXIT.interrupted : 143),
    hangup: () => log.info('server.hangup', 'hangup ignored: there is nothing to reload yet'),
  })
  const readyFile = values['ready-file'] === undefined ? null : resolve(context.cwd, values['ready-file'])
  try {
    const facts = readyFacts(server, settings)
    if (readyFile !== null) await writeFileAtOnce(readyFile, `${JSON.stringify(facts)}\n`)
    if (values.json) printJson(context, facts)
    else context.out(banner(context, facts))
    log.info('server.ready', `MoonMQ ${VERSION} serves ${facts.listeners.map(formatAddress).join(', ')}`, { readyMs: facts.readyMs })
    const failure = await server.stopped
    if (failure !== null) log.error('server.failed', `stopped: ${failure.message}`, { code: failure.code })
    else log.info('server.stopped', 'stopped in order')
    return failure === null ? EXIT.done : EXIT.failed
  } finally {
    signals.dispose()
    await server.close()
    if (readyFile !== null) await removeFile(readyFile)
  }
}

interface ReadyFacts {
  readonly event: 'server.ready'
  readonly version: string
  readonly pid: number
  readonly readyMs: number
  readonly listeners: readonly {
    readonly name: string
    readonly host: string
    readonly port: number
    readonly protocols: readonly string[]
  }[]
  readonly http: { readonly host: string; readonly port: number } | null
  readonly data: string | null
}

function readyFacts(server: BrokerServer, settings: Settings): ReadyFacts {
  return {
    event: 'server.ready',
    version: VERSION,
    pid: process.pid,
    readyMs: Math.round(process.uptime() * 1000),
    listeners: server.listeners.map(({ name, address, protocols }) => ({ name, ...address, protocols })),
    http: server.httpAddress,
    data: settings.server.memory ? null : dataFolder(settings),
  }
}

function banner(context: CliContext, facts: ReadyFacts): string {
  const label = (text: string) => styled(context, 'dim', text.padEnd(9))
  const local = facts.listeners[0]?.port === 9092 ? '' : ` -b ${facts.listeners[0] === undefined ? '' : formatAddress(facts.listeners[0])}`
  return [
    `${styled(context, 'bold', `MoonMQ ${facts.version}`)} ready in ${facts.readyMs} ms`,
    ...facts.listeners.map((each) => `  ${label('clients')} ${formatAddress(each)} (${each.protocols.join(' and ')} protocol)`),
    `  ${label('http')} ${facts.http === null ? 'off' : `http://${formatAddress(facts.http)}`}`,
    `  ${label('data')} ${facts.data ?? 'in memory, gone at the stop'}`,
    'try:',
    `  npx moonmq topic create hello${local} && npx moonmq produce hello${local} moon:hi`,
    `  npx moonmq consume hello${local}`,
    '',
  ].join('\n')
}

function parse(argv: readonly string[]): StartValues {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, strict: true, allowPositionals: false }).values
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n\n${HELP}`)
  }
}

function flags(values: StartValues): { flag: string; path: string; value: unknown }[] {
  const list: { flag: string; path: string; value: unknown }[] = []
  const add = (flag: string, path: string, value: unknown) => list.push({ flag, path, value })
  if (values.listen !== undefined) {
    const { host, port } = parseHostPort(values.listen, '--listen')
    add('--listen', 'server.host', host)
    add('--listen', 'server.port', port)
  }
  if (values.http === 'off') add('--http', 'http.port', null)
  else if (values.http !== undefined) {
    const { host, port } = parseHostPort(values.http, '--http')
    add('--http', 'http.host', host)
    add('--http', 'http.port', port)
  }
  if (values.data !== undefined) add('--data', 'server.dataDir', values.data)
  if (values.memory) add('--memory', 'server.memory', true)
  return list
}
