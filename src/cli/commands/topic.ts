import type { PartitionDescription, TopicDescription } from '../../client/types.ts'
import { topicSetting } from '../../config/topic-settings.ts'
import { isCode } from '../../core/errors.ts'
import { type ConnectOptions, withClient } from '../connect.ts'
import type { CliContext } from '../context.ts'
import { EXIT, UsageError } from '../context.ts'
import { counted, printJson, styled, table } from '../output.ts'
import { parseSettings, parseWhole } from '../parse.ts'

export interface TopicOptions extends ConnectOptions {
  readonly json?: boolean
}

export interface CreateOptions extends TopicOptions {
  readonly partitions?: string
  readonly config: readonly string[]
  readonly ifNotExists?: boolean
}

export function createTopic(context: CliContext, name: string, options: CreateOptions): Promise<number> {
  const asked = options.partitions === undefined ? undefined : parseWhole(options.partitions, '--partitions', 1, 100_000)
  const config = parseSettings(options.config)
  return withClient(context, options, async (client) => {
    let created = true
    try {
      await client.admin.createTopic(name, { ...(asked === undefined ? {} : { partitions: asked }), config })
    } catch (error) {
      if (!options.ifNotExists || !isCode(error, 'TOPIC_EXISTS')) throw error
      created = false
    }
    const partitions = (await client.admin.describeTopic(name)).partitions.length
    if (options.json) printJson(context, { topic: name, partitions, created })
    else context.out(created ? `created topic ${name} with ${counted(partitions, 'partition')}\n` : `topic ${name} exists already\n`)
    for (const key of Object.keys(config)) {
      if (topicSetting(key)?.inForce === false) context.err(`note: ${key} is stored and has no effect in this version\n`)
    }
    return EXIT.done
  })
}

export function listTopics(context: CliContext, options: TopicOptions): Promise<number> {
  return withClient(context, options, async (client) => {
    const topics = await client.admin.listTopics()
    if (options.json) for (const topic of topics) printJson(context, { topic: topic.name, partitions: topic.partitions })
    else if (topics.length === 0) context.err('no topics yet; make one with: moonmq topic create NAME\n')
    else
      context.out(
        table(
          context,
          ['TOPIC', 'PARTITIONS'],
          topics.map((topic) => [topic.name, topic.partitions]),
        ),
      )
    return EXIT.done
  })
}

export function describeTopic(context: CliContext, name: string, options: TopicOptions): Promise<number> {
  return withClient(context, options, async (client) => {
    const topic = await client.admin.describeTopic(name)
    if (options.json) printJson(context, { ...topic, config: Object.fromEntries(topic.config) })
    else context.out(description(context, topic))
    return EXIT.done
  })
}

function description(context: CliContext, topic: TopicDescription): string {
  const settings = [...topic.config].map(([key, value]) => `  ${key}=${value}\n`).join('')
  const offline = (partition: number) => [partition, 'offline', '-', '-', '-', '-']
  const online = (p: PartitionDescription) => [
    p.partition,
    p.earliest,
    p.logEndOffset,
    p.highWatermark,
    p.lastStableOffset,
    p.logEndOffset - p.earliest,
  ]
  const rows = topic.partitions.map((p) => (p.earliest < 0 ? offline(p.partition) : online(p)))
  return [
    `${styled(context, 'bold', topic.name)}  id ${topic.id}, ${counted(topic.partitions.length, 'partition')}\n`,
    settings === '' ? 'settings: all defaults\n' : `settings:\n${settings}`,
    table(context, ['PARTITION', 'START', 'END', 'HIGH WATERMARK', 'LAST STABLE', 'OFFSETS'], rows),
  ].join('')
}

export interface DeleteOptions extends TopicOptions {
  readonly yes?: boolean
}

export function deleteTopic(context: CliContext, name: string, options: DeleteOptions): Promise<number> {
  if (!options.yes) throw new UsageError(`this deletes topic ${name} and its records for good; say --yes to do it`)
  return withClient(context, options, async (client) => {
    await client.admin.deleteTopic(name)
    if (options.json) printJson(context, { topic: name, deleted: true })
    else context.out(`deleted topic ${name}\n`)
    return EXIT.done
  })
}

export interface GrowOptions extends TopicOptions {
  readonly partitions: string
}

export function growTopic(context: CliContext, name: string, options: GrowOptions): Promise<number> {
  const total = parseWhole(options.partitions, '--partitions', 1, 100_000)
  return withClient(context, options, async (client) => {
    await client.admin.createPartitions(name, total)
    if (options.json) printJson(context, { topic: name, partitions: total })
    else context.out(`topic ${name} has ${counted(total, 'partition')}; keys may map to other partitions from now on\n`)
    return EXIT.done
  })
}
