import { Readable } from 'node:stream'
import type { CliContext } from '../../src/cli/context.ts'
import { run } from '../../src/cli/main.ts'

export interface CliRun {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs a command in this process as if it were called in `cwd`; `input` is its standard input. */
export async function cliIn(
  cwd: string,
  argv: readonly string[],
  { env = {}, input = '' }: { env?: CliContext['env']; input?: string } = {},
): Promise<CliRun> {
  let out = ''
  let err = ''
  const context: CliContext = {
    out: (text) => {
      out += text
    },
    err: (text) => {
      err += text
    },
    stdin: Readable.from([input]),
    stdinIsTerminal: false,
    errIsTerminal: false,
    colour: false,
    env,
    cwd,
    signal: new AbortController().signal,
  }
  const code = await run(context, argv)
  return { code, out, err }
}
