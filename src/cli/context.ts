import type { Readable } from 'node:stream'
import { asMoonMQError, type ErrorCode, firstError, MoonMQError } from '../core/errors.ts'
import { type SystemError, systemCode, systemReason } from '../io/system-error.ts'

/** What a command may touch: passed in, so that a test runs it without a process. */
export interface CliContext {
  /** Data goes here, nothing else. */
  out(text: string): void
  /** Resolves when the reader of the output has kept up: for commands that print without end. Undefined: at once. */
  drained?(): Promise<void> | undefined
  /** Progress, hints and errors. */
  err(text: string): void
  readonly stdin: Readable
  readonly stdinIsTerminal: boolean
  readonly errIsTerminal: boolean
  readonly colour: boolean
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** Fires at the first interrupt. */
  readonly signal: AbortSignal
}

/** How a command ends; documented in `moonmq help`. */
export const EXIT = { done: 0, failed: 1, usage: 2, notFound: 3, unreachable: 5, conflict: 6, interrupted: 130 } as const

/** A mistake in how the command was called: exit 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

const EXIT_BY_CODE: Partial<Record<ErrorCode, number>> = {
  TOPIC_MISSING: EXIT.notFound,
  PARTITION_MISSING: EXIT.notFound,
  GROUP_MISSING: EXIT.notFound,
  CONNECT_FAILED: EXIT.unreachable,
  CONNECTION_CLOSED: EXIT.unreachable,
  REQUEST_TIMED_OUT: EXIT.unreachable,
  TOPIC_EXISTS: EXIT.conflict,
  GROUP_NOT_EMPTY: EXIT.conflict,
  DATA_FOLDER_LOCKED: EXIT.conflict,
  SETTING_INVALID: EXIT.usage,
  ABORTED: EXIT.interrupted,
}

/** What to do next, where the error itself cannot know it. */
const HINTS: Partial<Record<ErrorCode, string>> = {
  CONNECT_FAILED: 'Is the broker running? "moonmq start" starts one; --broker HOST:PORT names another.',
  TOPIC_MISSING: 'Topics are made with: moonmq topic create NAME',
  GROUP_MISSING: 'The groups that there are: moonmq group list',
  GROUP_NOT_EMPTY: 'Stop its members first; who they are: moonmq group describe GROUP',
  DATA_DAMAGED: 'With the broker stopped, "moonmq log repair DATA-FOLDER" says what can be saved, and changes nothing without --yes.',
}

/** What to do about it, as a line of its own; nothing where the error says all. */
export function hintFor(code: ErrorCode): string {
  const hint = HINTS[code]
  return hint === undefined ? '' : `${hint}\n`
}

export function exitCode(code: ErrorCode): number {
  return EXIT_BY_CODE[code] ?? EXIT.failed
}

/** Runs a command and turns what it throws into a message and an exit code. */
export async function guarded(context: CliContext, run: () => Promise<number>): Promise<number> {
  try {
    return await run()
  } catch (thrown) {
    const error = firstError(thrown)
    if (context.signal.aborted) return EXIT.interrupted
    if (error instanceof UsageError) {
      context.err(`${error.message}\n`)
      return EXIT.usage
    }
    if (!(error instanceof MoonMQError) && systemCode(error) !== null) {
      const { path } = error as Partial<SystemError>
      context.err(`moonmq: ${path === undefined ? '' : `${path}: `}${systemReason(error)}\n`)
      return EXIT.failed
    }
    const known = asMoonMQError(error)
    context.err(`moonmq: ${known.message} (${known.code})\n${hintFor(known.code)}`)
    return exitCode(known.code)
  }
}
