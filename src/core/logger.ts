/** Fields of a log line. Never record values, keys or secrets. */
export type LogFields = Readonly<Record<string, unknown>>

/** What every room logs through; `obs` gives the real one. `event` is a dotted, stable name (`group.rebalanced`). */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** The least level that is logged; it may change while lines are written. */
export interface LogLevels {
  level: LogLevel
}

export interface Logger {
  debug(event: string, text: string, fields?: LogFields): void
  info(event: string, text: string, fields?: LogFields): void
  warn(event: string, text: string, fields?: LogFields): void
  error(event: string, text: string, fields?: LogFields): void
  /** A logger whose lines all carry these fields. */
  child(fields: LogFields): Logger
}

/** Drops everything. */
export const SILENT: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => SILENT,
}
