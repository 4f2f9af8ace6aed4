/** Every statement: the table that HELP, the completion and the grammar of docs/MQL.md are made from. */
export interface HelpEntry {
  /** What HELP finds it by, in capitals. */
  readonly words: readonly string[]
  /** Grammar, as in docs/MQL.md. */
  readonly usage: string
  readonly says: string
  readonly example: string
}

export const HELP: readonly HelpEntry[] = [
  {
    words: ['CREATE', 'TOPIC', 'TOPICS', 'PARTITIONS'],
    usage: 'CREATE TOPIC name [PARTITIONS number] [SET setting = value {, setting = value}]',
    says: 'Makes a topic; one partition unless told otherwise.',
    example: 'CREATE TOPIC orders PARTITIONS 3 SET retention.ms = 3600000;',
  },
  {
    words: ['LIST', 'SHOW', 'TOPICS'],
    usage: '(LIST | SHOW) TOPICS',
    says: 'Topics and how many partitions each has.',
    example: 'LIST TOPICS;',
  },
  {
    words: ['DESCRIBE', 'TOPIC'],
    usage: 'DESCRIBE [TOPIC] name',
    says: 'Partitions with their offsets, and what was set.',
    example: 'DESCRIBE orders;',
  },
  {
    words: ['ALTER', 'TOPIC', 'SET', 'UNSET'],
    usage: 'ALTER TOPIC name {SET setting = value {, setting = value} | UNSET setting {, setting}}',
    says: 'Changes settings while the topic is used, all or none; UNSET goes back to the default.',
    example: "ALTER TOPIC orders SET cleanup.policy = 'compact,delete' UNSET retention.ms;",
  },
  {
    words: ['ALTER', 'TOPIC', 'PARTITIONS'],
    usage: 'ALTER TOPIC name PARTITIONS number',
    says: 'Raises the number of partitions. Keys may map to other partitions from then on.',
    example: 'ALTER TOPIC orders PARTITIONS 6;',
  },
  {
    words: ['DROP', 'TOPIC'],
    usage: 'DROP TOPIC name',
    says: 'Deletes a topic and its records for good, without asking.',
    example: 'DROP TOPIC orders;',
  },
  {
    words: ['SHOW', 'LIST', 'OFFSETS'],
    usage: '(SHOW | LIST) OFFSETS FROM name [GROUP name]',
    says: 'Bounds of every partition; with a group where it is and how far behind.',
    example: 'SHOW OFFSETS FROM orders GROUP billing;',
  },
  {
    words: ['PRODUCE', 'INTO', 'KEY', 'VALUE', 'HEADER'],
    usage: 'PRODUCE INTO name {KEY text | VALUE text | HEADER name text | PARTITION number}',
    says: 'Stores one record and prints where. VALUE must be there; the partition is chosen by the key unless one is named.',
    example: 'PRODUCE INTO orders KEY ada VALUE \'{"item": "lamp"}\' HEADER trace \'a-1\';',
  },
  {
    words: ['SELECT', 'WHERE', 'FROM', 'TO', 'LIMIT', 'AND', 'OR', 'NOT', 'LIKE', 'CONTAINS', 'IN', 'BETWEEN', 'COUNT'],
    usage:
      'SELECT (COUNT(*) | item {, item}) FROM name [PARTITION number {, number}]\n' +
      '       {WHERE condition | FROM bound | TO bound | LIMIT number}',
    says:
      'Reads without a group and commits nothing: records between two bounds, merged by time, that fit the condition. 100 rows unless LIMIT says ' +
      'otherwise, and bounded in records, bytes and time that it looks at: it says when and where it stopped early. Records of open and aborted ' +
      'transactions are left out (read committed), which `moonmq consume` and client libraries show unless they are told otherwise.',
    example: "SELECT offset, key, value.item FROM orders WHERE value.pieces > 10 AND header.trace LIKE 'a-%' FROM 1h LIMIT 20;",
  },
  {
    words: ['FETCH', 'FROM', 'GROUP', 'LIMIT'],
    usage: 'FETCH FROM name [GROUP name] [LIMIT number]',
    says:
      'Reads as a group from where it is; what is delivered counts as read. The group is the one with the empty name unless given. ' +
      'Records of open and aborted transactions are left out.',
    example: 'FETCH FROM orders GROUP billing LIMIT 10;',
  },
  {
    words: ['SUBSCRIBE', 'TIMEOUT', 'GROUP', 'LIMIT'],
    usage: 'SUBSCRIBE [TO] name [GROUP name] [TIMEOUT number] [LIMIT number]',
    says:
      'Collects records as they come, until TIMEOUT seconds (5) pass without one, or LIMIT are there; Ctrl-C shows what came by then. ' +
      'Records of open and aborted transactions are left out.',
    example: 'SUBSCRIBE TO orders GROUP billing TIMEOUT 2;',
  },
  {
    words: ['COMMIT', 'PARTITION', 'OFFSET'],
    usage: 'COMMIT name PARTITION number OFFSET number',
    says: 'Stores the next offset to deliver to the group that was fetched last; within a transaction together with it.',
    example: 'COMMIT orders PARTITION 0 OFFSET 42;',
  },
  {
    words: ['NACK', 'REASON'],
    usage: 'NACK name PARTITION number OFFSET number [REASON text]',
    says: 'Says that a record which was fetched cannot be processed: it comes again, and at last becomes a dead letter.',
    example: "NACK orders PARTITION 0 OFFSET 41 REASON 'no such customer';",
  },
  {
    words: ['JOIN', 'CREATE', 'GROUP', 'ON', 'TO', 'SUBSCRIBE'],
    usage: '(JOIN | CREATE) GROUP name (SUBSCRIBE | ON | TO) name {, name}',
    says: 'Makes this session a member of the group, and prints the partitions that it is given.',
    example: 'JOIN GROUP billing ON orders, refunds;',
  },
  {
    words: ['LEAVE', 'GROUP'],
    usage: 'LEAVE [GROUP]',
    says: 'Ends the membership.',
    example: 'LEAVE GROUP;',
  },
  {
    words: ['HEARTBEAT'],
    usage: 'HEARTBEAT',
    says: 'Tells the group that the member is alive. The console does so by itself while it is open.',
    example: 'HEARTBEAT;',
  },
  {
    words: ['LIST', 'SHOW', 'GROUP'],
    usage: '(LIST | SHOW) GROUP',
    says: 'The membership of this session.',
    example: 'SHOW GROUP;',
  },
  {
    words: ['LIST', 'SHOW', 'GROUPS'],
    usage: '(LIST | SHOW) GROUPS',
    says: 'Every group, of every kind.',
    example: 'SHOW GROUPS;',
  },
  {
    words: ['DESCRIBE', 'GROUP'],
    usage: 'DESCRIBE GROUP name',
    says: 'Members with their partitions, and the offsets of the group.',
    example: 'DESCRIBE GROUP billing;',
  },
  {
    words: ['DROP', 'GROUP'],
    usage: 'DROP GROUP name',
    says: 'Deletes a group without members, and its offsets.',
    example: 'DROP GROUP billing;',
  },
  {
    words: ['BEGIN', 'TRANSACTION', 'AS'],
    usage: 'BEGIN [TRANSACTION] [AS name]',
    says: 'What is produced and committed from here on counts all together or not at all. A name fences earlier producers of the name.',
    example: 'BEGIN TRANSACTION AS nightly;',
  },
  {
    words: ['COMMIT', 'TRANSACTION'],
    usage: 'COMMIT [TRANSACTION]',
    says: 'Ends the transaction: all of it counts.',
    example: 'COMMIT TRANSACTION;',
  },
  {
    words: ['ROLLBACK', 'TRANSACTION'],
    usage: 'ROLLBACK [TRANSACTION]',
    says: 'Ends the transaction: nothing of it counts.',
    example: 'ROLLBACK;',
  },
  {
    words: ['CONNECT', 'HOST', 'PORT', 'USER', 'PASSWORD'],
    usage: 'CONNECT [TO] [text] {HOST text | PORT number | USER text | PASSWORD text}',
    says: 'Closes the connection and makes another one. What is not said stays as it was.',
    example: "CONNECT TO '127.0.0.1' PORT 9092;",
  },
  {
    words: ['DISCONNECT'],
    usage: 'DISCONNECT',
    says: 'Closes the connection.',
    example: 'DISCONNECT;',
  },
  {
    words: ['HELP'],
    usage: 'HELP [word]',
    says: 'This list, or what there is about a word.',
    example: 'HELP SELECT;',
  },
  {
    words: ['EXIT', 'QUIT'],
    usage: 'EXIT | QUIT',
    says: 'Leaves the console.',
    example: 'QUIT;',
  },
]

/** Parts of SELECT that need more words than a line. */
export const SELECT_PARTS: readonly (readonly [name: string, grammar: string])[] = [
  ['item', '* | column [AS name]'],
  [
    'column',
    'partition | offset | timestamp | size | headers | header.NAME | header[string] | (key | value) {.name | [number] | [string]}',
  ],
  ['bound', "EARLIEST | LATEST | [OFFSET] number | [TIME] '2026-01-31T12:00:00Z' | [TIME] 10m | TIMESTAMP number"],
  ['condition', 'conjunction {OR conjunction}'],
  ['conjunction', 'test {AND test}'],
  ['test', 'NOT test | ( condition ) | column comparison'],
  [
    'comparison',
    '(= | <> | != | < | <= | > | >=) literal | IS [NOT] NULL | [NOT] (IN ( literal {, literal} ) | BETWEEN literal AND literal | LIKE text | CONTAINS text)',
  ],
  ['literal', 'string | [-] number | TRUE | FALSE | NULL'],
]

/** The overview, or everything about a word; null when nothing is known of it. */
export function helpText(word: string | null): string | null {
  if (word === null) {
    const lines = HELP.map(({ usage }) => `  ${usage.replaceAll('\n', '\n  ')};`)
    return `Statements end with ";". HELP SELECT; tells more about one.\n${lines.join('\n')}\n`
  }
  const found = HELP.filter(({ words, usage }) => words.includes(word) && (usage.startsWith(word) || usage.includes(word)))
  if (found.length === 0) return null
  const entries = found.map(({ usage, says, example }) => `${usage};\n  ${says}\n  ${example}\n`)
  const parts = found.some(({ usage }) => usage.startsWith('SELECT')) ? SELECT_PARTS.map(([name, text]) => `  ${name} = ${text}`) : []
  return `${entries.join('\n')}${parts.length === 0 ? '' : `\n${parts.join('\n')}\n`}`
}
