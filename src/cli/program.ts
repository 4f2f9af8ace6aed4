import { Command, CommanderError } from 'commander'
import { showConfig } from './commands/config.ts'
import { validate } from './commands/validate.ts'
import { showVersion } from './commands/version.ts'
import { type CliContext, EXIT } from './context.ts'

const EXIT_HELP = `
Exit codes: 0 done, 1 failed, 2 called wrongly, 3 not found, 5 cannot reach the broker, 6 conflict, 130 interrupted.
`

/** Every command but `start`. Resolves to the exit code. */
export async function runProgram(context: CliContext, argv: readonly string[]): Promise<number> {
  let code: number = EXIT.done
  const run: Run = async (work) => {
    code = await work
  }
  const program = base(new Command('moonmq'), context)
    .description('MoonMQ: a durable message broker. Without a command it starts the broker.')
    .addHelpText('after', EXIT_HELP)
  program.command('start').description('start the broker; see moonmq start --help')
  base(program.command('validate'), context)
    .description('check a stopped or copied data folder byte by byte')
    .argument('[folder]', 'data folder', './moonmq-data')
    .option('--data <folder>', 'the same, as an option')
    .option('--json', 'print the result as JSON')
    .action((folder: string, options: { data?: string; json?: boolean }) => run(validate(context, options.data ?? folder, options)))
  base(program.command('config'), context)
    .description('show the settings in force, with where each value came from')
    .argument('[action]', 'show', 'show')
    .option('--config <file>', 'settings file')
    .option('--all', 'defaults as well')
    .option('--json', 'print JSON')
    .action((action: string, options) => run(showConfig(context, action, options)))
  base(program.command('version'), context)
    .description('print the version and what it runs on')
    .option('--json', 'print JSON')
    .option('--short', 'the number alone')
    .action((options) => run(showVersion(context, options)))
  try {
    await program.parseAsync([...argv], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage
    throw error
  }
  return code
}

type Run = (work: Promise<number> | number) => Promise<void>

/** A command that throws instead of ending the process and writes where the context says. */
function base(command: Command, context: CliContext): Command {
  return command
    .exitOverride()
    .configureOutput({ writeOut: (text) => context.out(text), writeErr: (text) => context.err(text) })
    .showHelpAfterError('(moonmq help shows the commands)')
}
