import { resolve } from 'node:path'
import { loadConfig } from '../../config/load.ts'
import { shownSettings } from '../../config/show.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { readTextFile } from '../files.ts'
import { printJson, styled, table } from '../output.ts'

export interface ConfigOptions {
  readonly config?: string
  readonly all?: boolean
  readonly json?: boolean
}

/** The settings that a start here and now would use. Without `--all` only those that something sets. */
export async function showConfig(context: CliContext, action: string, options: ConfigOptions): Promise<number> {
  if (action !== 'show') throw new UsageError(`moonmq config ${action}: the one action is show`)
  const loaded = await loadConfig({
    readText: (path) => readTextFile(resolve(context.cwd, path)),
    env: context.env,
    flags: [],
    configFile: options.config ?? null,
  })
  for (const warning of loaded.warnings) context.err(`moonmq: ${warning}\n`)
  const rows = shownSettings(loaded).filter((row) => options.all || options.json || row.source !== 'default')
  if (options.json) {
    for (const row of rows) printJson(context, row)
    return EXIT.done
  }
  const files = loaded.files.length === 0 ? 'no settings file' : loaded.files.join(', ')
  context.err(styled(context, 'dim', `environment ${loaded.environment}, ${files}\n`))
  if (rows.length === 0) context.err('everything has its default; --all shows them\n')
  else
    context.out(
      table(
        context,
        ['SETTING', 'VALUE', 'FROM'],
        rows.map((row) => [row.key, text(row.value), row.from]),
      ),
    )
  return EXIT.done
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
