import type { TopicSettingValue } from '../../client/types.ts'
import { type ConnectOptions, withClient } from '../connect.ts'
import type { CliContext } from '../context.ts'
import { EXIT, UsageError } from '../context.ts'
import { printJson, styled, table } from '../output.ts'
import { parseSettings } from '../parse.ts'

export interface TopicConfigOptions extends ConnectOptions {
  readonly json?: boolean
  readonly unset: readonly string[]
  readonly dryRun?: boolean
  readonly explain?: boolean
}

/** Shows every setting of a topic, or changes some while it is used. */
export function topicConfig(context: CliContext, name: string, pairs: readonly string[], options: TopicConfigOptions): Promise<number> {
  const set = parseSettings(pairs)
  const isChange = pairs.length > 0 || options.unset.length > 0
  if (options.dryRun && !isChange) throw new UsageError('--dry-run needs a change: KEY=VALUE or --unset KEY')
  const both = options.unset.find((key) => Object.hasOwn(set, key))
  if (both !== undefined) throw new UsageError(`${both} cannot be set and unset at once`)
  return withClient(context, options, async (client) => {
    if (!isChange) {
      show(context, await client.admin.describeTopicConfig(name), options)
      return EXIT.done
    }
    const { unset, dryRun = false } = options
    const changed = await client.admin.alterTopicConfig(name, { set, unset, validateOnly: dryRun })
    if (options.json) printJson(context, { topic: name, changed, dryRun })
    else context.out(told(name, changed, dryRun))
    return EXIT.done
  })
}

function told(name: string, changed: readonly string[], dryRun: boolean): string {
  if (changed.length === 0) return `topic ${name} has these settings already\n`
  return `${dryRun ? `would change on topic ${name}` : `changed on topic ${name}`}: ${changed.join(', ')}\n`
}

function show(context: CliContext, settings: readonly TopicSettingValue[], options: TopicConfigOptions): void {
  if (options.json) {
    for (const setting of settings) printJson(context, setting)
  } else if (options.explain) {
    for (const each of settings) {
      const origin = `${fromText(each)}, default ${shownValue(each.default)}${each.fixed ? ', chosen when the topic is made' : ''}`
      context.out(`${styled(context, 'bold', each.name)}=${each.value}  (${origin})\n  ${each.documentation}\n`)
    }
  } else {
    context.out(
      table(
        context,
        ['SETTING', 'VALUE', 'FROM'],
        settings.map((each) => [each.name, shownValue(each.value), fromText(each)]),
      ),
    )
  }
}

function shownValue(value: string): string {
  return value === '' ? '(empty)' : value
}

function fromText({ source, from, name }: TopicSettingValue): string {
  return from === name || source === 'default' ? source : `${source}: ${from}`
}
