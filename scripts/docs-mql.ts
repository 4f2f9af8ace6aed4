/** docs/MQL.md: prose, with the grammar from the table of src/mql/help.ts. */
import { HELP, SELECT_PARTS } from '../src/mql/help.ts'
import { KEYWORDS } from '../src/mql/lexer.ts'

const HEAD = `# The console language

<!-- Made by scripts/docs-mql.ts from src/mql/help.ts. Do not edit. -->

\`moonmq sql\` is a console for a running broker: topics, records, groups and transactions, in statements that look like SQL.

\`\`\`sh
npx moonmq sql                                                  # a terminal: history, completion with Tab, several lines
npx moonmq sql -c "SELECT key, value.item FROM orders FROM 10m" # statements as an argument; the last ";" may be left out
npx moonmq sql -f script.mql                                    # a file
echo 'LIST TOPICS;' | npx moonmq sql --json                     # standard input; JSON, an object a line
\`\`\`

The broker is \`--broker HOST:PORT\`, else \`MOONMQ_BROKER\`, else 127.0.0.1:9092. \`--user\` and the variable \`MOONMQ_PASSWORD\` log in. The terminal keeps its history in
\`~/.moonmq_history\`, without lines that hold a password. Ctrl-C gives up the statement that runs, else what was begun, else the console.

With \`--json\` a table is an object for each row, and everything else one object for each statement; notes for people go to standard error. A failure is an
object with \`error\` (a name of [ERRORS](ERRORS.md), or \`SYNTAX\` with line, column and position) and \`message\`. Exit codes: 0 when everything worked; 2 for a mistake in
the statements; else that of the first failure, as for every command (\`moonmq help\`). A failed statement does not stop those behind it; \`--stop-on-error\` does.

## Words

- A statement ends with \`;\`. Several may share a line, one may fill many. \`--\` begins a comment to the end of the line.
- Keywords are read without regard to case. A word has letters, digits, \`_\`, and after its first character \`.\` and \`-\`; so \`retention.ms\` and \`orders-eu\` are words.
- A string is in \`'\` or \`"\`, ends on its line, and holds its own quote doubled: \`'it''s'\`. There are no other escapes.
- A number has digits only. A *name* is a word, a string or a number; a *text* is a word or a string.
- A day alone is a word, so FROM 2026-11-30 needs no quotes; a time of day does, for its colons.
- These words are no names unless they are quoted: KEYWORDS.
  Words that later versions brought (\`SELECT\`, \`WHERE\`, \`SET\`, …) are told by where they stand and need no quotes as names.
- Partitions are counted from 0.

## Statements

| statement | what it does |
| --- | --- |
STATEMENTS

Parts of SELECT:

| part | grammar |
| --- | --- |
PARTS

\`{ }\` stands for any number of times, \`[ ]\` for once or not at all, \`|\` for one of them. Clauses within \`{ }\` come in any order, and of two of the same kind the last one counts.

## SELECT

\`\`\`
SELECT offset, timestamp, key, value.customer.name AS customer, header.trace
FROM orders PARTITION 0, 1
WHERE value.pieces > 10 AND header.trace LIKE 'a-%' AND NOT value.paid = TRUE
FROM '2026-11-30T08:00:00Z' TO 10m
LIMIT 20;
\`\`\`

- It reads without a group, commits nothing, and shows records merged by time. The order within a partition is kept.
- \`FROM\` is where reading begins and \`TO\` where it ends, which is not shown any more. A time stands for the first record at or after it in each partition; an age such as
  \`10m\` (\`ms\`, \`s\`, \`m\`, \`h\`, \`d\`) is counted back from now; a number is an offset, the same in every partition. Without them it is everything that is there when the statement begins.
- \`value.a.b[0]\` looks into a value that is JSON; \`value['a b']\` is for names with other characters. \`key\` can be looked into the same way. \`header.NAME\` is the first header of
  that name, the dots of the name included. JSON nested deeper than 1000 is taken for text. A statement names at most 1000 columns.
- What is not there is null. Nothing equals a value of another type, except that text which is a number, as keys and headers have it, is compared with numbers as one.
- \`LIKE\`: \`%\` is any text, \`_\` one character, a backslash before them takes their meaning away. \`CONTAINS\` looks for the text as it is.
- \`COUNT(*)\` counts instead of showing.
- A statement looks at no more than a million records, 256 MiB and 30 seconds (\`--scan-records\`, \`--scan-bytes\`, \`--scan-seconds\`). When that ends it early it says so, and where it
  was in each partition: go on with \`PARTITION p FROM offset\`. Without \`LIMIT\` the first 100 rows are shown.

## Groups

\`FETCH\` and \`SUBSCRIBE\` read as a group, from where it is: what they deliver counts as read. \`COMMIT\` and \`NACK\` are for the group that was fetched last in this console, and
\`NACK\` for records that it delivered. \`JOIN GROUP\` makes the console a member: it then gets the partitions of its share alone, and tells the group by itself that it is alive.

\`SHOW GROUP\` tells what the member may read now, and \`SHOW GROUPS\` every group, whatever client its members use. A member that does not leave is forgotten with its connection.

## Transactions

What is produced and committed between \`BEGIN\` and \`COMMIT\` counts all together or not at all. \`BEGIN AS name\` takes the name of a producer: whoever had it is fenced, and what that one left
open is rolled back. Without a name nobody can fence it. A console that ends without \`COMMIT\` rolls back, and so does the broker after ten minutes. Nothing that the console reads is of an open
transaction, its own included, or of one that was rolled back.

## Over HTTP

\`POST /mql\` on the HTTP listener (\`http.host\`, \`http.port\`) runs statements, for web pages and programs without a client of their own:

\`\`\`sh
curl -s http://127.0.0.1:9090/mql -H 'Content-Type: application/json' -d '{"statement": "SELECT offset, key FROM orders LIMIT 2"}'
{"results":[{"columns":["offset","key"],"rows":[{"offset":0,"key":"ada"},{"offset":1,"key":"bob"}],"notes":[]}]}
\`\`\`

- \`statement\` holds one or more statements; the last \`;\` may be left out. \`"stopOnError": true\` keeps those behind a failed one from running. \`results\` has an object for each that ran:
  \`columns\`, \`rows\` and \`notes\`, or \`facts\` and \`notes\`, or \`error\` and \`message\`. Cells are as with \`--json\`.
- The status is 200 when all of it worked, else that of the first failure ([ERRORS](ERRORS.md)); 400 with \`SYNTAX\`, line, column and position when it is no MQL: then nothing ran.
- A request is a session of its own: \`COMMIT\` and \`NACK\` go with a \`FETCH\` of the same request, a transaction that it leaves open is rolled back, and its membership ends. It cannot CONNECT elsewhere.
- A statement gives way to everything else that the broker does, also within one record and a long condition; its time counts there too. A single row may have 4 MiB, or twice its record.
- Bounds: 64 KiB of request, 60 seconds, 8 requests at a time (then status 429); of one statement 10,000 rows, 4 MiB of records, 20 seconds of scan and 30 seconds of collecting; no
  statement begins when the answer has 8 MiB.
- Statements act as who asks, over a connection within the process that is checked like any other at the native port: nothing can be done here that could not be done there.
- Nobody can log in over HTTP in this version. So statements run only where \`http.host\` is a loopback address, which those of this machine reach who reach its other ports too; elsewhere
  the answer is 403. Where \`server.metricsAuth.token\` is set it is asked for here too. Web pages of other origins get nowhere: the body must be \`application/json\`, \`Host\` a name of this machine
  (\`localhost\`, \`127.0.0.1\`, \`[::1]\`) and \`Origin\`, where there is one, the listener's own.

## Mistakes

All of an input is read before any of it runs: a mistake anywhere discards it. At the terminal an input is everything since the last \`;\` that ran.

\`\`\`
mq> PRODUCE INTO orders KEY ada VALUE 5;
expected a value, found the number "5" (line 1, column 35)
  PRODUCE INTO orders KEY ada VALUE 5;
                                    ^
\`\`\`

Lines and columns count from 1, columns in characters, whatever bytes they take.
`

/** The document as text. */
export function mqlDocument(): string {
  const cell = (text: string) => text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')
  const statements = HELP.map(({ usage, says, example }) => `| \`${cell(usage)}\` | ${cell(says)}<br>\`${cell(example)}\` |`)
  const parts = SELECT_PARTS.map(([name, grammar]) => `| ${name} | \`${cell(grammar)}\` |`)
  const keywords = [...KEYWORDS].map((word) => `\`${word}\``).join(' ')
  // Functions, because a text may hold what `replace` would take for a pattern.
  return HEAD.replace('KEYWORDS', () => keywords)
    .replace('STATEMENTS', () => statements.join('\n'))
    .replace('PARTS', () => parts.join('\n'))
}
