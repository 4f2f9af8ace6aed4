import { createReadStream } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { SystemClock } from '../core/clock.ts'
import { chaos } from './commands/chaos.ts'
import { showConfig } from './commands/config.ts'
import { consume } from './commands/consume.ts'
import { demo } from './commands/demo.ts'
import { listLetters, purgeLetters, redriveLetters, showLetters } from './commands/dlq.ts'
import { deleteGroup, describeGroup, listGroups, resetOffsets } from './commands/group.ts'
import { importKafka } from './commands/import.ts'
import { logDump } from './commands/log-dump.ts'
import { logRepair } from './commands/log-repair.ts'
import { produce } from './commands/produce.ts'
import { sql } from './commands/sql.ts'
import { createTopic, deleteTopic, describeTopic, growTopic, listTopics } from './commands/topic.ts'
import { topicConfig } from './commands/topic-config.ts'
import { validate } from './commands/validate.ts'
import { showVersion } from './commands/version.ts'
import { DEFAULT_BROKER } from './connect.ts'
import { type CliContext, EXIT } from './context.ts'

const collect = (value: string, before: readonly string[]) => [...before, value]

const EXIT_HELP = `
Exit codes: 0 done, 1 failed, 2 called wrongly, 3 not found, 5 cannot reach the broker, 6 conflict, 130 interrupted.
The broker is --broker, else MOONMQ_BROKER, else ${DEFAULT_BROKER}.
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
  program.command('start').description('start the broker')
  addTopicCommands(context, program, run)
  addProduce(context, program, run)
  addConsume(context, program, run)
  addSql(context, program, run)
  addGroup(context, program, run)
  addDlq(context, program, run)
  base(program.command('validate'), context)
    .description('check a stopped or copied data folder byte by byte')
    .argument('[folder]', 'data folder', './moonmq-data')
    .option('--data <folder>', 'the same, as an option')
    .option('--progress', 'tell on stderr how far it is, even where that is no terminal')
    .option('--json', 'print the result as JSON')
    .action((folder: string, options: { data?: string; json?: boolean; progress?: boolean }) =>
      run(validate(context, options.data ?? folder, options)),
    )
  addLogCommands(context, program, run)
  addImport(context, program, run)
  base(program.command('demo'), context)
    .description('create a topic, produce by key, consume merged by time, check the bytes at rest')
    .option('-b, --broker <host:port>', 'use this broker instead of a fresh one')
    .option('--data <folder>', 'with --broker: its data folder, to check it at the end')
    .option('--messages <n>', 'how many messages', '30')
    .option('--json', 'print each step as JSON')
    .action((options) => run(demo(context, options)))
  addChaos(context, program, run)
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
    // With --help behind it a word that is no command would be answered with the help of all.
    const isCommand = (word: string) => program.commands.some((each) => each.name() === word || each.aliases().includes(word))
    const [first = ''] = argv
    await program.parseAsync(first.startsWith('-') || isCommand(first) ? [...argv] : [first], { from: 'user' })
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

function connected(command: Command, context: CliContext): Command {
  return base(command, context)
    .option('-b, --broker <host:port>', `broker (default: MOONMQ_BROKER or ${DEFAULT_BROKER})`)
    .option('--timeout <seconds>', 'time for each request', '10')
    .option('--json', 'print JSON, one object a line')
}

function addTopicCommands(context: CliContext, program: Command, run: Run): void {
  const topic = base(program.command('topic'), context).description('create, list, describe, configure, grow and delete topics')
  connected(topic.command('create'), context)
    .description('make a topic')
    .argument('<name>')
    .argument('[key=value...]', 'settings of the topic')
    .option('-p, --partitions <n>', 'number of partitions (default: num.partitions of the broker)')
    .option('-c, --config <key=value>', 'one more setting, repeatable', collect, [])
    .option('--if-not-exists', 'an existing topic is no error')
    .action((name: string, pairs: string[], options) =>
      run(createTopic(context, name, { ...options, config: [...pairs, ...options.config] })),
    )
  connected(topic.command('list'), context)
    .description('topics and how many partitions each has')
    .alias('ls')
    .action((options) => run(listTopics(context, options)))
  connected(topic.command('describe'), context)
    .description('partitions with their offsets, and what was set')
    .argument('<name>')
    .action((name: string, options) => run(describeTopic(context, name, options)))
  connected(topic.command('config'), context)
    .description('show every setting in force and where it comes from, or change some while the topic is used')
    .argument('<name>')
    .argument('[key=value...]', 'settings to change')
    .option('--unset <key>', 'back to the default, repeatable', collect, [])
    .option('--dry-run', 'only say whether it could be done')
    .option('--explain', 'what each setting means')
    .action((name: string, pairs: string[], options) => run(topicConfig(context, name, pairs, options)))
  connected(topic.command('grow'), context)
    .description('raise the number of partitions')
    .argument('<name>')
    .requiredOption('-p, --partitions <n>', 'the new number of partitions')
    .action((name: string, options) => run(growTopic(context, name, options)))
  connected(topic.command('delete'), context)
    .description('delete a topic and its records for good')
    .alias('rm')
    .argument('<name>')
    .option('--yes', 'do it')
    .action((name: string, options) => run(deleteTopic(context, name, options)))
}

function addGroup(context: CliContext, program: Command, run: Run): void {
  const group = base(program.command('group'), context).description('look at groups of consumers, of every kind, and say where they go on')
  connected(group.command('list'), context)
    .description('groups with their kind, state, members and topics')
    .alias('ls')
    .action((options) => run(listGroups(context, options)))
  connected(group.command('describe'), context)
    .description('members, and of each partition what is committed and how far behind the group is')
    .argument('<group>')
    .action((name: string, options) => run(describeGroup(context, name, options)))
  connected(group.command('reset-offsets'), context)
    .description('say where a group without members would go on, and with --yes make it so')
    .argument('<group>')
    .option('-t, --topic <name>', 'of this topic, repeatable (default: all that the group has offsets of)', collect, [])
    .option('-p, --partition <n>', 'with one --topic: of this partition alone')
    .option('--to <where>', 'earliest, latest, a time (2026-01-31T12:00:00Z) or an age (10m)')
    .option('--to-offset <n>', 'this offset, or the nearest that there is')
    .option('--shift-by <n>', 'so many forward, or back: -10')
    .option('--dry-run', 'only say it (the default)')
    .option('--yes', 'do it')
    .action((name: string, options) => run(resetOffsets(context, name, options)))
  connected(group.command('delete'), context)
    .description('delete a group without members, and its offsets')
    .alias('rm')
    .argument('<group>')
    .option('--yes', 'do it')
    .action((name: string, options) => run(deleteGroup(context, name, options)))
}

function addDlq(context: CliContext, program: Command, run: Run): void {
  const dlq = base(program.command('dlq'), context).description('look at dead letters, send them back, delete them (docs/DLQ.md)')
  const filtered = (command: Command) =>
    connected(command, context)
      .argument('<topic>', 'the dead-letter topic')
      .option('--reason <text>', 'letters whose reason contains this')
      .option('--group <group>', 'letters that this group gave up')
      .option('--source <topic>', 'letters that came from this topic')
      .option('-k, --key <key>', 'letters with this key')
      .option('-p, --partition <n>', 'letters of this partition')
      .option('--offsets <list>', 'letters at these offsets, such as 3,10-20')
      .option('--since <time>', 'letters moved since then: 2026-01-31T12:00:00Z, or an age such as 2h')
      .option('--until <time>', 'letters moved before then')
  connected(dlq.command('list'), context)
    .description('how many letters each dead-letter topic holds, and why')
    .alias('ls')
    .argument('[topics...]', 'these topics (default: all that end with the suffix)')
    .option('--suffix <text>', 'what names of dead-letter topics end with', '.dlq')
    .action((topics: string[], options) => run(listLetters(context, topics, options)))
  filtered(dlq.command('show'))
    .description('letters with where they came from')
    .option('-n, --max <n>', 'end after this many', '100')
    .action((topic: string, options) => run(showLetters(context, topic, options)))
  filtered(dlq.command('redrive'))
    .description('send letters back to their topics, each once however often this is called')
    .option('-n, --max <n>', 'at most this many')
    .option('--all', 'every letter')
    .option('--dry-run', 'only count them')
    .action((topic: string, options) => run(redriveLetters(context, topic, options)))
  connected(dlq.command('purge'), context)
    .description('delete letters for good')
    .argument('<topic>', 'the dead-letter topic')
    .option('-p, --partition <n>', 'of this partition alone')
    .option('--before <offset>', 'only those below this offset')
    .option('--yes', 'do it')
    .option('--force', 'also records that are no dead letters')
    .action((topic: string, options) => run(purgeLetters(context, topic, options)))
}

function addLogCommands(context: CliContext, program: Command, run: Run): void {
  const log = base(program.command('log'), context).description('look into the files of a log and repair them, without a broker')
  base(log.command('dump'), context)
    .description('print what files hold: records or batches of logs, entries of indexes, snapshots and checkpoints')
    .argument('<what...>', 'a file, the folder of a partition, or TOPIC-PARTITION in the data folder')
    .option('--data <folder>', 'data folder in which TOPIC-PARTITION is looked for', './moonmq-data')
    .option('--batches', 'a line for each batch instead of each record')
    .option('--from <offset>', 'first offset to show')
    .option('--to <offset>', 'show what lies below this offset')
    .option('-n, --max <n>', 'end after this many lines')
    .option('--hex', 'keys, values and headers as hexadecimal digits')
    .option('--max-value-bytes <n>', 'longer keys, values and headers are cut', '1024')
    .option('--decode <what>', 'auto, none, metadata, offsets, transactions or share: what the records are', 'auto')
    .option('--side-files', 'of a folder the indexes, snapshots and checkpoints too')
    .option('--json', 'print JSON, one object a line')
    .action((what: string[], options) => run(logDump(context, what, options)))
  base(log.command('repair'), context)
    .description('say what damaged files of a stopped broker need, and with --yes do it')
    .argument('[folder]', 'data folder, or the folder of one partition in it')
    .option('--data <folder>', 'data folder (default: ./moonmq-data)')
    .option('--middle <how>', 'damage before the end of a log: gap leaves the offsets of lost records empty, cut ends the log there', 'gap')
    .option('--yes', 'do it; what is taken out is kept in files beside')
    .option('--progress', 'tell on stderr how far it is, even where that is no terminal')
    .option('--json', 'print JSON')
    .action((folder: string | undefined, options) => run(logRepair(context, folder, options)))
}

function addImport(context: CliContext, program: Command, run: Run): void {
  base(program.command('import'), context)
    .description('take topics of a stopped Kafka over: records, offsets, settings, offsets of groups')
    .argument('<from...>', 'folders of Kafka: what log.dirs names, or the folders of partitions')
    .option('-t, --topic <name>', 'this topic, repeatable (default: all but internal ones)', collect, [])
    .option('--data <folder>', 'data folder of a stopped broker, made when it is missing', './moonmq-data')
    .option('--dry-run', 'read and check everything, write nothing')
    .option('--progress', 'tell on stderr how far it is, even where that is no terminal')
    .option('--json', 'print JSON')
    .action((from: string[], options) => run(importKafka(context, from, options)))
}

function addProduce(context: CliContext, program: Command, run: Run): void {
  connected(program.command('produce'), context)
    .description('write records: arguments, a file, or standard input, one a line')
    .argument('<topic>')
    .argument(
      '[records...]',
      'key:value, a value (also a URL or JSON), or a JSON object with "value" and maybe "key", "headers", "partition"',
    )
    .option('-k, --key <key>', 'key of every record')
    .option('-p, --partition <n>', 'partition of every record')
    .option('-H, --header <name:value>', 'header of every record, repeatable', collect, [])
    .option('-f, --file <path>', 'read lines from a file')
    .option('--acks <acks>', 'none, leader or all', 'leader')
    .option('--separator <text>', 'between key and value', ':')
    .option('--raw', 'each line is a value, nothing is taken apart')
    .option('--json-input', 'each line must be a JSON object with "value"')
    .option('-q, --quiet', 'print errors only')
    .action((topic: string, records: string[], options) =>
      run(produce(context, topic, records, { ...options, openFile: (path: string) => createReadStream(path) })),
    )
}

function addSql(context: CliContext, program: Command, run: Run): void {
  connected(program.command('sql'), context)
    .description('the console: statements from --command, a file, standard input, or typed (docs/MQL.md)')
    .option('-c, --command <statements>', 'run these and end, repeatable', collect, [])
    .option('-f, --file <path>', 'run the statements of a file and end')
    .option('-u, --user <name>', 'who logs in; the password is MOONMQ_PASSWORD', 'anonymous')
    .option('--stop-on-error', 'end at the first statement that fails')
    .option('--scan-records <n>', 'records that a SELECT may look at (default 1000000)')
    .option('--scan-bytes <n>', 'bytes that a SELECT may look at (default 268435456)')
    .option('--scan-seconds <n>', 'time that a SELECT may take (default 30)')
    .action((options) => run(sql(context, options)))
}

function addChaos(context: CliContext, program: Command, run: Run): void {
  base(program.command('chaos'), context)
    .description('produce through faults that a seed chooses, read everything back, and compare it with what was acknowledged')
    .option('-b, --broker <host:port>', 'use this broker instead of a fresh one')
    .option('-t, --topic <name>', 'use this topic instead of a new one')
    .option('--seed <n>', 'the same seed does the same (default: a new one)')
    .option('--records <n>', 'how many records', '200')
    .option('-p, --partitions <n>', 'partitions of a new topic', '3')
    .option('--retries <n>', 'how often a record that failed is sent again', '0')
    .option('--at-least-once', 'with a producer that is not idempotent')
    .option('--drop <rate>', 'a record is lost on its way to the broker (default 0.05, as of every fault)')
    .option('--delay <rate>', 'it waits before it is sent')
    .option('--max-delay-ms <n>', 'how long at most', '20')
    .option('--duplicate <rate>', 'it is sent twice')
    .option('--reorder <rate>', 'it is sent behind the next one')
    .option('--corrupt <rate>', 'a bit of its value is another')
    .option('--disconnect <rate>', 'the connection breaks once it is stored, before the acknowledgement')
    .option('--json', 'print the result as JSON')
    .action((options) => run(chaos(context, options)))
}

function addConsume(context: CliContext, program: Command, run: Run): void {
  connected(program.command('consume'), context)
    .description('read records: every partition merged by timestamp, one partition, or as a group')
    .argument('<topic>')
    .option('--all', 'every partition, merged by timestamp (the default)')
    .option('-p, --partition <n>', 'one partition')
    .option('-o, --offset <n>', 'with --partition: where to begin')
    .option('-g, --group <id>', 'go on from the committed offsets of this group and commit what was printed')
    .option('--from <where>', 'earliest, latest, a time (2026-01-31T12:00:00Z) or an age (10m)')
    .option('--follow', 'wait for new records until interrupted')
    .option('-n, --max <n>', 'end after this many records')
    .option(
      '--read-committed',
      'leave out records of open and aborted transactions (without it they are shown, as in Kafka; SELECT and FETCH of sql leave them out)',
    )
    .action((topic: string, options) => run(consume(context, topic, { ...options, nowMs: () => new SystemClock().nowMs() })))
}
