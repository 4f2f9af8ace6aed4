import { createInterface } from 'node:readline'
import { connect } from '../../client/index.ts'
import { SystemClock } from '../../core/clock.ts'
import { asMoonMQError } from '../../core/errors.ts'
import { SystemRandom } from '../../core/random.ts'
import { ClientOperations } from '../../mql/client-operations.ts'
import { MqlError } from '../../mql/errors.ts'
import { Executor } from '../../mql/executor.ts'
import { jsonLines, type Result, textResult } from '../../mql/format.ts'
import type { Connector } from '../../mql/operations.ts'
import { Repl, type ReplOutput } from '../../mql/repl.ts'
import type { ScanLimits } from '../../mql/select.ts'
import { brokerAddress, type ConnectOptions } from '../connect.ts'
import { type CliContext, EXIT, exitCode, UsageError } from '../context.ts'
import { readTextFile } from '../files.ts'
import { styled } from '../output.ts'
import { parseHostPort, parseWhole } from '../parse.ts'
import { converse } from '../sql/terminal.ts'

export interface SqlOptions extends ConnectOptions {
  readonly command: readonly string[]
  readonly file?: string
  readonly user: string
  readonly stopOnError?: boolean
  readonly scanRecords?: string
  readonly scanBytes?: string
  readonly scanSeconds?: string
  readonly json?: boolean
}

/** The console: statements from `-c`, a file, standard input, or a person at a terminal. */
export async function sql(context: CliContext, options: SqlOptions): Promise<number> {
  if (options.command.length > 0 && options.file !== undefined) throw new UsageError('give statements by --command or by --file, not both')
  const { host, port } = parseHostPort(brokerAddress(context, options), '--broker')
  const session = { host, port, user: options.user, password: context.env['MOONMQ_PASSWORD'] ?? '' }
  const clock = new SystemClock()
  await using executor = new Executor({ connect: connector(options), clock }, { session, scan: scanLimits(options) })
  const output = new Output(context, options.json === true)
  const repl = new Repl({ executor, output, nowMs: () => clock.monotonicMs() })
  const isPerson = options.command.length === 0 && options.file === undefined && context.stdinIsTerminal
  try {
    await executor.open(context.signal)
    if (isPerson) context.err(`connected to ${executor.operations?.target}; HELP; lists the statements, QUIT; leaves\n`)
  } catch (error) {
    // A person may say CONNECT; a script has nobody to ask.
    if (!isPerson) throw error
    context.err(`moonmq: ${asMoonMQError(error).message}\nsay CONNECT TO 'HOST:PORT'; or QUIT;\n`)
  }
  if (isPerson) await converse(context, repl)
  else await runScript(context, repl, options, output)
  return output.code
}

async function runScript(context: CliContext, repl: Repl, options: SqlOptions, output: Output): Promise<void> {
  const { signal } = context
  const stopOnError = options.stopOnError === true
  for (const command of options.command) {
    const { failed, quit } = await repl.all(command, signal, { lastMayEnd: true, stopOnError })
    if (quit || (failed && stopOnError)) return
  }
  if (options.command.length > 0) return
  if (options.file !== undefined) {
    const source = await readTextFile(options.file)
    if (source === null) throw new UsageError(`${options.file} does not exist`)
    await repl.all(source, signal, { lastMayEnd: false, stopOnError })
    return
  }
  for await (const line of createInterface({ input: context.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    if ((await repl.line(line, signal)) === 'quit') return
    if (stopOnError && output.code !== EXIT.done) return
  }
  repl.end()
}

class Output implements ReplOutput {
  code: number = EXIT.done
  readonly #context: CliContext
  readonly #json: boolean

  constructor(context: CliContext, json: boolean) {
    this.#context = context
    this.#json = json
  }

  async result(result: Result): Promise<void> {
    const { out, err } = this.#context
    if (this.#json) {
      for (const line of jsonLines(result)) out(`${line}\n`)
      // Facts say the same as the notes; beside a table notes tell what the rows do not.
      if (result.facts === null) for (const note of result.notes) err(`${note}\n`)
    } else out(textResult(result, (head) => styled(this.#context, 'bold', head)))
    await this.#context.drained?.()
  }

  failed(error: unknown, rendered: string): void {
    const isSyntax = error instanceof MqlError
    if (this.code === EXIT.done) this.code = isSyntax ? EXIT.usage : exitCode(asMoonMQError(error).code)
    if (this.#json) {
      const { message } = error instanceof Error ? error : new Error(String(error))
      const where = isSyntax ? { error: 'SYNTAX', message, ...error.place } : { error: asMoonMQError(error).code, message }
      this.#context.out(`${JSON.stringify(where)}\n`)
    }
    this.#context.err(`moonmq: ${rendered}`)
  }
}

function connector(options: SqlOptions): Connector {
  const timeoutMs = options.timeout === undefined ? 10_000 : parseWhole(options.timeout, '--timeout', 1, 3600) * 1000
  return async ({ host, port, user, password }, signal) => {
    const address = port === null ? host : { host, port }
    const client = await connect({ address, name: 'moonmq-sql', timeoutMs, signal, username: user, password })
    const target = port === null ? host : `${host.includes(':') ? `[${host}]` : host}:${port}`
    return new ClientOperations({ client, clock: new SystemClock(), random: new SystemRandom() }, target)
  }
}

function scanLimits({ scanRecords, scanBytes, scanSeconds }: SqlOptions): Partial<ScanLimits> {
  return {
    ...(scanRecords === undefined ? {} : { maxRecords: parseWhole(scanRecords, '--scan-records', 1) }),
    ...(scanBytes === undefined ? {} : { maxBytes: parseWhole(scanBytes, '--scan-bytes', 1) }),
    ...(scanSeconds === undefined ? {} : { maxMs: parseWhole(scanSeconds, '--scan-seconds', 1, 86_400) * 1000 }),
  }
}
