import { systemReason } from '../io/system-error.ts'
import { type CliContext, EXIT } from './context.ts'

/** The context of a real process: the only place of the command line that reads the environment and writes to the streams. */
export function processContext(): CliContext {
  const { stdout, stderr, stdin, env } = process
  // `moonmq consume … | head`: the reader has enough, so the command has done its work.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0)
    stderr.write(`moonmq: the output cannot be written: ${systemReason(error)}\n`)
    process.exit(EXIT.failed)
  })
  const interrupted = new AbortController()
  let stopped = false
  return {
    out: (text) => void stdout.write(text),
    drained: () => (stdout.writableNeedDrain ? new Promise((resolve) => stdout.once('drain', () => resolve())) : undefined),
    err: (text) => void stderr.write(text),
    stdin,
    stdinIsTerminal: stdin.isTTY === true,
    errIsTerminal: stderr.isTTY === true,
    colour: wantsColour(env, stdout.isTTY === true),
    env,
    cwd: process.cwd(),
    get signal() {
      if (!stopped) {
        stopped = true
        process.once('SIGINT', () => {
          interrupted.abort()
          process.once('SIGINT', () => process.exit(130))
        })
        process.once('SIGTERM', () => interrupted.abort())
      }
      return interrupted.signal
    },
  }
}

/** https://no-color.org and FORCE_COLOR, else whether somebody looks at a terminal. */
function wantsColour(env: NodeJS.ProcessEnv, terminal: boolean): boolean {
  if (env['NO_COLOR'] !== undefined && env['NO_COLOR'] !== '') return false
  if (env['FORCE_COLOR'] !== undefined && env['FORCE_COLOR'] !== '') return env['FORCE_COLOR'] !== '0'
  return terminal && env['TERM'] !== 'dumb'
}
