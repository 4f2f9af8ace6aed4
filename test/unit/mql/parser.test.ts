import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Statement } from '../../../src/mql/ast.ts'
import { MqlError, renderError } from '../../../src/mql/errors.ts'
import { HELP } from '../../../src/mql/help.ts'
import { KEYWORDS, lex } from '../../../src/mql/lexer.ts'
import { parse, STATEMENT_WORDS } from '../../../src/mql/parser.ts'

function one(source: string): Statement {
  const parsed = parse(source)
  assert.equal(parsed.length, 1, source)
  return (parsed[0] as { statement: Statement }).statement
}

function refused(source: string): MqlError {
  try {
    parse(source)
  } catch (error) {
    assert.ok(error instanceof MqlError, String(error))
    return error
  }
  return assert.fail(`taken: ${source}`)
}

const column = (source: string, path: (string | number)[] = [], title = source) => ({ source, name: '', path, title })

const SELECT = { kind: 'select', count: false, partitions: null, where: null, from: null, to: null, limit: null }

/** Every form of every statement. */
const STATEMENTS: readonly (readonly [string, object])[] = [
  ['CONNECT', { kind: 'connect', host: null, port: null, user: null, password: null }],
  ['connect to box port 9 user ada password "p;w" host other', { kind: 'connect', host: 'other', port: 9, user: 'ada', password: 'p;w' }],
  ["CONNECT '::1' PORT 1 PORT 2", { kind: 'connect', host: '::1', port: 2, user: null, password: null }],
  ['DISCONNECT', { kind: 'disconnect' }],
  ['CREATE TOPIC t', { kind: 'create-topic', name: 't', partitions: 1, config: {} }],
  ['create topic 007 partitions 3', { kind: 'create-topic', name: '007', partitions: 3, config: {} }],
  [
    "CREATE TOPIC 'topic' SET retention.ms = -1, cleanup.policy = 'compact,delete', retention.ms = 5",
    { kind: 'create-topic', name: 'topic', partitions: 1, config: { 'retention.ms': '5', 'cleanup.policy': 'compact,delete' } },
  ],
  ['CREATE GROUP g SUBSCRIBE a, b', { kind: 'join', group: 'g', topics: ['a', 'b'] }],
  ['JOIN GROUP g ON a', { kind: 'join', group: 'g', topics: ['a'] }],
  ['JOIN GROUP g TO a', { kind: 'join', group: 'g', topics: ['a'] }],
  ['LIST TOPICS', { kind: 'list-topics' }],
  ['SHOW TOPIC', { kind: 'list-topics' }],
  ['LIST GROUP', { kind: 'membership' }],
  ['SHOW GROUPS', { kind: 'list-groups' }],
  ['SHOW OFFSETS FROM t', { kind: 'show-offsets', topic: 't', group: null }],
  ['LIST OFFSETS FROM t GROUP g', { kind: 'show-offsets', topic: 't', group: 'g' }],
  ['DESCRIBE TOPIC t', { kind: 'describe-topic', name: 't' }],
  ['DESCRIBE t', { kind: 'describe-topic', name: 't' }],
  ['DESCRIBE GROUP g', { kind: 'describe-group', group: 'g' }],
  [
    'ALTER TOPIC t SET a = 1, b = x SET c = y UNSET d, e',
    { kind: 'alter-topic', name: 't', set: { a: '1', b: 'x', c: 'y' }, unset: ['d', 'e'] },
  ],
  ['ALTER TOPIC t UNSET a', { kind: 'alter-topic', name: 't', set: {}, unset: ['a'] }],
  ['ALTER TOPIC t PARTITIONS 7', { kind: 'grow-topic', name: 't', partitions: 7 }],
  ['DROP TOPIC t', { kind: 'drop-topic', name: 't' }],
  ['DROP GROUP g', { kind: 'drop-group', group: 'g' }],
  ['PRODUCE INTO t VALUE v', { kind: 'produce', topic: 't', key: null, value: 'v', headers: [], partition: null }],
  [
    "PRODUCE INTO t VALUE 'it''s' KEY \"a\"\"b\" HEADER h '1' HEADER 2 x PARTITION 4 KEY k",
    {
      kind: 'produce',
      topic: 't',
      key: 'k',
      value: "it's",
      headers: [
        { key: 'h', value: '1' },
        { key: '2', value: 'x' },
      ],
      partition: 4,
    },
  ],
  ['FETCH FROM t', { kind: 'fetch', topic: 't', group: '', limit: 100 }],
  ['FETCH FROM t GROUP g LIMIT 0', { kind: 'fetch', topic: 't', group: 'g', limit: 0 }],
  ['SUBSCRIBE t', { kind: 'subscribe', topic: 't', group: '', timeoutSeconds: 5, limit: null }],
  ['SUBSCRIBE TO t GROUP g TIMEOUT 2 LIMIT 9', { kind: 'subscribe', topic: 't', group: 'g', timeoutSeconds: 2, limit: 9 }],
  ['COMMIT t PARTITION 0 OFFSET 9007199254740991', { kind: 'commit', topic: 't', partition: 0, offset: 9007199254740991 }],
  ['COMMIT transaction PARTITION 0 OFFSET 1', { kind: 'commit', topic: 'transaction', partition: 0, offset: 1 }],
  ['NACK t PARTITION 1 OFFSET 2', { kind: 'nack', topic: 't', partition: 1, offset: 2, reason: '' }],
  ["NACK t PARTITION 1 OFFSET 2 REASON 'no way'", { kind: 'nack', topic: 't', partition: 1, offset: 2, reason: 'no way' }],
  ['LEAVE', { kind: 'leave' }],
  ['LEAVE GROUP', { kind: 'leave' }],
  ['HEARTBEAT', { kind: 'heartbeat' }],
  ['BEGIN', { kind: 'begin', name: null }],
  ['BEGIN TRANSACTION AS nightly', { kind: 'begin', name: 'nightly' }],
  ['COMMIT', { kind: 'end', commit: true }],
  ['COMMIT TRANSACTION', { kind: 'end', commit: true }],
  ['ROLLBACK', { kind: 'end', commit: false }],
  ['ROLLBACK TRANSACTION', { kind: 'end', commit: false }],
  ['HELP', { kind: 'help', topic: null }],
  ['help select', { kind: 'help', topic: 'SELECT' }],
  ['EXIT', { kind: 'quit' }],
  ['quit', { kind: 'quit' }],
  ['SELECT COUNT(*) FROM t', { ...SELECT, count: true, columns: [], topic: 't' }],
  ['SELECT size FROM count', { ...SELECT, columns: [column('size')], topic: 'count' }],
  [
    'SELECT *, value AS v FROM t',
    {
      ...SELECT,
      columns: [...['partition', 'offset', 'timestamp', 'key', 'value', 'headers'].map((each) => column(each)), column('value', [], 'v')],
      topic: 't',
    },
  ],
  [
    "SELECT Key.a-b, value.x.y[2].z['a b'].\"c d\", header.moonmq.dlq.reason, header['x y'], time FROM t PARTITION 0, 2",
    {
      ...SELECT,
      columns: [
        column('key', ['a-b'], 'Key.a-b'),
        column('value', ['x', 'y', 2, 'z', 'a b', 'c d'], 'value.x.y[2].z[\'a b\']."c d"'),
        { source: 'header', name: 'moonmq.dlq.reason', path: [], title: 'header.moonmq.dlq.reason' },
        { source: 'header', name: 'x y', path: [], title: "header['x y']" },
        column('timestamp', [], 'time'),
      ],
      topic: 't',
      partitions: [0, 2],
    },
  ],
  [
    "SELECT key FROM t LIMIT 5 TO '2026-01-31T12:00:00Z' FROM 10m FROM OFFSET 7",
    {
      ...SELECT,
      columns: [column('key')],
      topic: 't',
      limit: 5,
      from: { kind: 'offset', offset: 7 },
      to: { kind: 'time', timestampMs: 1769860800000 },
    },
  ],
  [
    'SELECT key FROM t FROM 3 TO LATEST',
    { ...SELECT, columns: [column('key')], topic: 't', from: { kind: 'offset', offset: 3 }, to: { kind: 'latest' } },
  ],
  [
    'SELECT key FROM t FROM EARLIEST TO TIMESTAMP 5',
    { ...SELECT, columns: [column('key')], topic: 't', from: { kind: 'earliest' }, to: { kind: 'time', timestampMs: 5 } },
  ],
  ['SELECT key FROM t FROM TIME 2h', { ...SELECT, columns: [column('key')], topic: 't', from: { kind: 'age', ageMs: 7_200_000 } }],
]

test('every statement, in every form', () => {
  for (const [source, expected] of STATEMENTS) assert.deepEqual(one(`${source};`), expected, source)
})

test('conditions: precedence, negation, lists, numbers with sign and fraction', () => {
  const where = (text: string) => (one(`SELECT key FROM t WHERE ${text};`) as { where: object }).where
  const compare = (source: string, op: string, value: unknown) => ({ kind: 'compare', column: column(source), op, value })
  assert.deepEqual(where("key = 'a' OR key = 'b' AND NOT offset >= 3"), {
    kind: 'or',
    parts: [
      compare('key', '=', 'a'),
      { kind: 'and', parts: [compare('key', '=', 'b'), { kind: 'not', part: compare('offset', '>=', 3) }] },
    ],
  })
  assert.deepEqual(where("(key = 'a' OR key != 'b') AND key IS NOT NULL"), {
    kind: 'and',
    parts: [
      { kind: 'or', parts: [compare('key', '=', 'a'), compare('key', '<>', 'b')] },
      { kind: 'not', part: { kind: 'null', column: column('key') } },
    ],
  })
  assert.deepEqual(where('value NOT IN (-1.5, 2e3, TRUE, null)'), {
    kind: 'not',
    part: { kind: 'in', column: column('value'), values: [-1.5, 2000, true, null] },
  })
  assert.deepEqual(where("timestamp BETWEEN 2026-01-31 AND '2026-02-01'"), {
    kind: 'and',
    parts: [compare('timestamp', '>=', 1769817600000), compare('timestamp', '<=', 1769904000000)],
  })
  assert.deepEqual(where("value LIKE 'a%' and key contains 'x'"), {
    kind: 'and',
    parts: [
      { kind: 'like', column: column('value'), pattern: 'a%' },
      { kind: 'contains', column: column('key'), text: 'x' },
    ],
  })
})

test('words of the first version are keywords, later ones are names wherever a name can stand', () => {
  for (const word of KEYWORDS) assert.match(refused(`DROP TOPIC ${word};`).message, /is a keyword: quote it/, word)
  for (const word of ['select', 'where', 'offsets', 'transaction', 'set', 'describe', 'count', 'null', 'a.b-c', '1st', '_x']) {
    assert.deepEqual(one(`DROP TOPIC ${word};`), { kind: 'drop-topic', name: word })
  }
})

test('empty statements, comments, several on a line, places', () => {
  const parsed = parse(';; -- nothing; here\n  LIST TOPICS ; -- é\n\tHELP;;')
  assert.deepEqual(
    parsed.map(({ statement, place }) => [statement.kind, place]),
    [
      ['list-topics', { line: 2, column: 3, position: 23 }],
      ['help', { line: 3, column: 2, position: 43 }],
    ],
  )
  assert.deepEqual(parse('LIST TOPICS', { lastMayEnd: true }).length, 1)
  assert.deepEqual(parse(' -- only a comment'), [])
})

/** Input, and where and how it is refused. */
const REFUSED: readonly (readonly [string, number, number, RegExp])[] = [
  ['LIST TOPICS', 1, 12, /expected ";" at the end of the statement, found the end of the input/],
  ['LIST TOPICS LIST', 1, 13, /expected ";" or another part of the statement, found the keyword LIST/],
  ['SELCT 1;', 1, 1, /expected a statement such as SELECT, found "SELCT"/],
  ["'list' topics;", 1, 1, /expected a statement \(HELP lists them\), found the string 'list'/],
  ['PRODUCE INTO t KEY k;', 1, 21, /expected VALUE, found ";"/],
  ['PRODUCE INTO t VALUE 5;', 1, 22, /expected a value, found the number "5"/],
  ['LIST TOPICS;\nFETCH t;', 2, 7, /expected FROM, found "t"/],
  ['COMMIT t PARTITION 0 OFFSET 9007199254740992;', 1, 29, /must be from 0 to 9007199254740991/],
  ['CREATE TOPIC t PARTITIONS 0;', 1, 27, /must be from 1 to 100000/],
  ['FETCH FROM t LIMIT 1 GROUP g;', 1, 22, /found the keyword GROUP/],
  ["DROP TOPIC '𝄞𝄞' x;", 1, 17, /found "x"/],
  ['SELECT what FROM t;', 1, 8, /expected a column/],
  ['SELECT value..a FROM t;', 1, 8, /"value..a" has an empty step/],
  ['SELECT offset.a FROM t;', 1, 8, /offset has no parts/],
  ['SELECT value[x] FROM t;', 1, 14, /expected a number or a name in quotes/],
  ['SELECT key FROM t WHERE key NOT = 1;', 1, 33, /expected IN, BETWEEN, LIKE or CONTAINS/],
  ['SELECT key FROM t WHERE key = - x;', 1, 33, /expected a number/],
  ['SELECT key FROM t WHERE key = x;', 1, 31, /expected a value: a string in quotes/],
  ["SELECT key FROM t WHERE timestamp > 'soon';", 1, 37, /"soon" is no time/],
  ['SELECT key FROM t FROM yesterday;', 1, 24, /"yesterday" is no time/],
  [`SELECT key FROM t WHERE ${'('.repeat(66)}`, 1, 90, /more than 64 parentheses/],
  [`SELECT key FROM t WHERE ${'NOT '.repeat(66)}`, 1, 285, /more than 64 parentheses or NOTs/],
  ['ALTER TOPIC t SET a = 1 UNSET a;', 1, 32, /a cannot be set and unset at once/],
  ['CONNECT PORT 70000;', 1, 14, /must be from 1 to 65535/],
]

test('a mistake is told with its place and what would be right', () => {
  for (const [source, line, at, message] of REFUSED) {
    const error = refused(source)
    assert.match(error.message, message, source)
    assert.deepEqual([error.place.line, error.place.column], [line, at], source)
    assert.equal(error.isLexical, false)
  }
})

test('an open string and a strange character are lexical mistakes at their own place', () => {
  const open = refused("LIST TOPICS;\n  PRODUCE INTO é VALUE 'it''s\n';")
  assert.deepEqual([open.place, open.isLexical], [{ line: 2, column: 16, position: 29 }, true])
  const inside = refused("PRODUCE INTO t VALUE 'it''s\n';")
  assert.deepEqual([inside.place, inside.isLexical], [{ line: 1, column: 22, position: 22 }, true])
  assert.match(inside.message, /the string is not closed/)
  assert.match(refused('LIST \u0007;').message, /the character U\+0007 means nothing here/)
  assert.match(refused('\\q').message, /means nothing here: QUIT; leaves the console/)
  assert.match(refused('?').message, /"\?" means nothing here: HELP; shows/)
  assert.match(refused('LIST 𝄞;').message, /"𝄞" means nothing here/)
})

test('the caret stands under the column, also after tabs and characters of two units', () => {
  const source = "LIST TOPICS;\n\tDROP TOPIC '𝄞' x;\r\n"
  assert.equal(
    renderError(refused(source), source),
    `expected ";" or another part of the statement, found "x" (line 2, column 17)\n  \tDROP TOPIC '𝄞' x;\n  \t               ^\n`,
  )
  const end = 'LIST TOPICS'
  assert.equal(renderError(refused(end), end).split('\n')[2], `  ${' '.repeat(11)}^`)
})

test('the caret: emoji, combining characters, wide ones, CRLF, control characters, and a line that is too long to show', () => {
  const carets: readonly (readonly [source: string, column: number, shown: string, caret: string])[] = [
    ["DROP TOPIC '😀' x;", 16, "DROP TOPIC '😀' x;", `${' '.repeat(16)}^`],
    // Two code points, one cell.
    ["DROP TOPIC 'e\u0301' x;", 17, "DROP TOPIC 'e\u0301' x;", `${' '.repeat(15)}^`],
    ["DROP TOPIC '日本' x;", 17, "DROP TOPIC '日本' x;", `${' '.repeat(18)}^`],
    ['HELP;\r\n\tDROP TOPIC a\tb;\r\nHELP;\r\n', 15, '\tDROP TOPIC a\tb;', `\t${' '.repeat(12)}\t^`],
    ["DROP TOPIC '\u001b[2J' x;", 19, "DROP TOPIC '·[2J' x;", `${' '.repeat(18)}^`],
    [`DROP TOPIC '${'y'.repeat(500)}' x ${'z'.repeat(500)};`, 515, `…${'y'.repeat(78)}' x ${'z'.repeat(78)}…`, `${' '.repeat(81)}^`],
    [`LIST${' '.repeat(300)}`, 305, `…${' '.repeat(80)}`, `${' '.repeat(81)}^`],
  ]
  for (const [source, at, shown, caret] of carets) {
    const error = refused(source)
    assert.equal(error.place.column, at, source)
    assert.deepEqual(renderError(error, source).split('\n').slice(1, 3), [`  ${shown}`, `  ${caret}`], source)
  }
})

test('the table of help: its examples parse, and every statement is in it', () => {
  const kinds = new Set<string>()
  for (const { example } of HELP) kinds.add(one(example).kind)
  assert.equal(kinds.size, new Set(STATEMENTS.map(([source]) => one(`${source};`).kind)).size)
  for (const word of STATEMENT_WORDS)
    assert.ok(
      HELP.some(({ usage }) => new RegExp(`\\b${word}\\b`).test(usage)),
      word,
    )
})

test('tokens keep what was written', () => {
  assert.deepEqual(
    lex("Select 'a''b'<=-7 x.y").map(({ kind, text, raw }) => [kind, text, raw]),
    [
      ['word', 'Select', 'Select'],
      ['string', "a'b", "'a''b'"],
      ['symbol', '<=', '<='],
      ['symbol', '-', '-'],
      ['number', '7', '7'],
      ['word', 'x.y', 'x.y'],
      ['end', '', ''],
    ],
  )
})
