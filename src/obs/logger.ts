import { type DestinationStream, destination, type Logger as PinoInstance, pino } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { LogFields, Logger, LogLevel, LogLevels } from '../core/logger.ts'
import type { Resource } from '../core/types.ts'
import { escapeControls, textLine } from './log-line.ts'

export interface LoggerOptions {
  readonly level: LogLevel
  /** File to append to, JSON; '' = none. */
  readonly file: string
  /** Whether standard error gets the log too. It does anyway when the file fails. */
  readonly stderr: boolean
  /** How standard error gets it: text for a terminal, JSON otherwise. */
  readonly format: 'text' | 'json'
  readonly colour: boolean
}

/** A place where lines go. `fail` is called once when it cannot be used any more. */
export interface LogSink {
  write(line: string): void
  /** Hands over what is still held; used at the end. */
  flush(): void
}

/** Opens the two kinds of sink; tests give their own. */
export interface LogSinks {
  stderr(): LogSink
  file(path: string, fail: (error: Error) => void): LogSink
}

/** Lines held for a reader that is slow; what comes beyond is dropped, so that a stuck terminal never stops the broker. */
const MAX_HELD_BYTES = 1024 * 1024

const STDERR = 2

/** Standard error may be a pipe that nobody reads, so writing to it must not wait. A file takes lines at once: none is lost in a crash. */
const SINKS: LogSinks = {
  stderr: () => openSink({ dest: STDERR, sync: false }, () => {}),
  file: (path, fail) => openSink({ dest: path, sync: true, append: true, mkdir: true }, fail),
}

/** The log of the process. It owns its sinks; `close` hands over what they hold. */
export class ProcessLog implements LogLevels, Resource {
  readonly logger: Logger
  readonly #pino: PinoInstance
  readonly #lines: Lines

  constructor(deps: { clock: Clock; sinks?: LogSinks }, options: LoggerOptions) {
    const { clock, sinks = SINKS } = deps
    this.#lines = new Lines(sinks, options)
    this.#pino = pino(
      {
        level: options.level,
        base: null,
        messageKey: 'msg',
        formatters: { level: (label) => ({ level: label }) },
        timestamp: () => `,"time":"${new Date(clock.nowMs()).toISOString()}"`,
      },
      this.#lines,
    )
    this.logger = new PinoLogger(this.#pino)
    this.#lines.open((error) => {
      this.logger.error('log.file', `cannot write the log file ${options.file}; logging to standard error`, { error })
    })
  }

  get level(): LogLevel {
    return this.#pino.level as LogLevel
  }

  set level(level: LogLevel) {
    this.#pino.level = level
  }

  async close(): Promise<void> {
    this.#lines.flush()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Sends each line to its sinks, in the form that each wants. */
class Lines implements DestinationStream {
  readonly #sinks: LogSinks
  readonly #options: LoggerOptions
  #stderr: LogSink | null = null
  #file: LogSink | null = null

  constructor(sinks: LogSinks, options: LoggerOptions) {
    this.#sinks = sinks
    this.#options = options
  }

  open(report: (error: Error) => void): void {
    const { file, stderr } = this.#options
    if (stderr) this.#stderr = this.#sinks.stderr()
    if (file === '') return
    this.#file = this.#sinks.file(file, (error) => {
      this.#file = null
      this.#stderr ??= this.#sinks.stderr()
      report(error)
    })
  }

  write(line: string): void {
    const { format, colour } = this.#options
    // JSON leaves some control characters as they are; outside of strings there are none.
    const json = `${escapeControls(line.trimEnd())}\n`
    this.#file?.write(json)
    this.#stderr?.write(format === 'text' ? textLine(line, colour) : json)
  }

  flush(): void {
    this.#file?.flush()
    this.#stderr?.flush()
  }
}

class PinoLogger implements Logger {
  readonly #pino: PinoInstance

  constructor(instance: PinoInstance) {
    this.#pino = instance
  }

  debug(event: string, text: string, fields?: LogFields): void {
    this.#pino.debug(merged(event, fields), text)
  }

  info(event: string, text: string, fields?: LogFields): void {
    this.#pino.info(merged(event, fields), text)
  }

  warn(event: string, text: string, fields?: LogFields): void {
    this.#pino.warn(merged(event, fields), text)
  }

  error(event: string, text: string, fields?: LogFields): void {
    this.#pino.error(merged(event, fields), text)
  }

  child(fields: LogFields): Logger {
    return new PinoLogger(this.#pino.child(plain(fields)))
  }
}

function merged(event: string, fields: LogFields | undefined): Record<string, unknown> {
  return fields === undefined ? { event } : { event, ...plain(fields) }
}

/** An Error has no JSON of its own. */
function plain(fields: LogFields): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    out[name] = value instanceof Error ? { message: value.message, code: codeOf(value), stack: value.stack } : value
  }
  return out
}

function codeOf(error: Error): unknown {
  return 'code' in error ? error.code : undefined
}

interface SinkOptions {
  readonly dest: number | string
  readonly sync: boolean
  readonly append?: boolean
  readonly mkdir?: boolean
}

function openSink(options: SinkOptions, fail: (error: Error) => void): LogSink {
  let stream: ReturnType<typeof destination> | null = null
  const failed = (error: Error): void => {
    const broken = stream
    stream = null
    // Also takes away its hook on the end of the process.
    broken?.destroy()
    fail(error)
  }
  try {
    stream = destination({ ...options, minLength: 0, maxLength: MAX_HELD_BYTES })
    stream.on('error', (error: Error) => {
      if (stream) failed(error)
    })
  } catch (error) {
    failed(error instanceof Error ? error : new Error(String(error)))
  }
  return {
    write: (line) => {
      stream?.write(line)
    },
    flush: () => {
      try {
        stream?.flushSync()
      } catch {
        // It broke just now: there is nowhere left to say so.
      }
    },
  }
}
