import { type CliContext, EXIT, guarded } from './context.ts'
import { processContext } from './process-context.ts'

/**
 * The command line. `start` is the path that must be quick: it is served without the argument parser that the other commands
 * load. Sets the exit code and lets the process end by itself.
 */
export async function main(): Promise<void> {
  process.exitCode = await run(processContext(), process.argv.slice(2))
}

export async function run(context: CliContext, argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv
  // `help log dump` is `log dump --help`: the parser's own help command knows neither `start` nor what lies a level deeper.
  if (name === 'help' && rest.length > 0) return run(context, [...rest.filter((word) => word !== 'help'), '--help'])
  if (name === undefined || name === 'start' || (name.startsWith('-') && !INFORMATION.has(name))) {
    const { start } = await import('./commands/start.ts')
    return guarded(context, () => start(context, name === 'start' ? rest : argv))
  }
  const { runProgram } = await import('./program.ts')
  return guarded(context, () => runProgram(context, VERSION_OPTIONS.has(name) ? ['version', ...rest] : argv))
}

/** Options that stand alone and start nothing. */
const VERSION_OPTIONS = new Set(['-v', '-V', '--version'])
const INFORMATION = new Set(['-h', '--help', ...VERSION_OPTIONS])

export { EXIT }
