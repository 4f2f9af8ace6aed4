import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Statement } from '../../../src/mql/ast.ts'
import { HELP } from '../../../src/mql/help.ts'
import { parse } from '../../../src/mql/parser.ts'
import { named, readGrammar, sentences } from '../../support/ebnf.ts'

/** The grammar of the language, first as its first version had it, then what was added. */
const GRAMMAR = readGrammar(`
  input       = { [ statement ] ";" } ;
  statement   = connect | disconnect | create | list | produce | fetch | subscribe | commit | join | leave | heartbeat | help | quit
              | describe | alter | drop | nack | begin | end | select ;
  connect     = "CONNECT" [ "TO" ] [ text ] { "HOST" text | "PORT" number | "USER" text | "PASSWORD" text } ;
  disconnect  = "DISCONNECT" ;
  create      = "CREATE" ( "TOPIC" name [ "PARTITIONS" number ] [ "SET" settings ] | "GROUP" name membership ) ;
  membership  = ( "SUBSCRIBE" | "ON" | "TO" ) name { "," name } ;
  list        = ( "LIST" | "SHOW" ) ( "TOPICS" | "TOPIC" | "GROUP" | "GROUPS" | "OFFSETS" "FROM" name [ "GROUP" name ] ) ;
  produce     = "PRODUCE" "INTO" name { recordpart } "VALUE" text { recordpart } ;
  recordpart  = "KEY" text | "VALUE" text | "HEADER" name text | "PARTITION" number ;
  fetch       = "FETCH" "FROM" name [ "GROUP" name ] [ "LIMIT" number ] ;
  subscribe   = "SUBSCRIBE" [ "TO" ] name [ "GROUP" name ] [ "TIMEOUT" number ] [ "LIMIT" number ] ;
  commit      = "COMMIT" name "PARTITION" number "OFFSET" number ;
  join        = "JOIN" "GROUP" name membership ;
  leave       = "LEAVE" [ "GROUP" ] ;
  heartbeat   = "HEARTBEAT" ;
  help        = "HELP" [ keyword | word ] ;
  quit        = "EXIT" | "QUIT" ;
  name        = word | string | number ;
  text        = string | word ;
  settings    = setting { "," setting } ;
  setting     = name "=" [ "-" ] number | name "=" name ;
  describe    = "DESCRIBE" [ "TOPIC" ] name | "DESCRIBE" "GROUP" name ;
  alter       = "ALTER" "TOPIC" name ( "PARTITIONS" number | change { change } ) ;
  change      = "SET" settings | "UNSET" other { "," other } ;
  drop        = "DROP" ( "TOPIC" | "GROUP" ) name ;
  nack        = "NACK" name "PARTITION" number "OFFSET" number [ "REASON" text ] ;
  begin       = "BEGIN" [ "TRANSACTION" ] [ "AS" name ] ;
  end         = ( "COMMIT" | "ROLLBACK" ) [ "TRANSACTION" ] ;
  select      = "SELECT" ( "COUNT" "(" "*" ")" | item { "," item } ) "FROM" name [ "PARTITION" number { "," number } ] { selectpart } ;
  selectpart  = "WHERE" condition | "FROM" bound | "TO" bound | "LIMIT" number ;
  item        = "*" | column [ "AS" name ] ;
  column      = "partition" | "offset" | "timestamp" | "size" | "headers" | header | json ;
  header      = "header" "[" string "]" | dotted ;
  json        = ( "key" | "value" ) { "." name | "[" number "]" | "[" string "]" } ;
  bound       = "EARLIEST" | "LATEST" | [ "OFFSET" ] number | [ "TIME" ] time | "TIMESTAMP" number ;
  condition   = conjunction { "OR" conjunction } ;
  conjunction = test { "AND" test } ;
  test        = column comparison | "NOT" test | "(" condition ")" ;
  comparison  = comparator literal | "IS" [ "NOT" ] "NULL" | [ "NOT" ] ( list-of | between | "LIKE" text | "CONTAINS" text ) ;
  comparator  = "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" ;
  list-of     = "IN" "(" literal { "," literal } ")" ;
  between     = "BETWEEN" literal "AND" literal ;
  literal     = string | [ "-" ] number | "TRUE" | "FALSE" | "NULL" ;
`)

/** What the lexer makes. */
const LEAVES = {
  word: ['orders-eu.v2'],
  string: ["'it''s; -- 😀'", '"a ""b"" c"'],
  number: ['7'],
  keyword: ['TOPIC'],
  other: ['segment.ms'],
  dotted: ['header.moonmq.dlq.reason'],
  time: ["'2026-01-31T12:00:00Z'", '10m'],
}

/** Rules that are part of a statement, and a statement to find them in. */
const WITHIN: Readonly<Record<string, { readonly statement: string; readonly opened: readonly string[] }>> = {
  membership: { statement: 'join', opened: ['membership'] },
  recordpart: { statement: 'produce', opened: ['recordpart'] },
  name: { statement: 'drop', opened: ['name'] },
  text: { statement: 'nack', opened: ['text'] },
  settings: { statement: 'create', opened: ['settings'] },
  setting: { statement: 'create', opened: ['settings', 'setting'] },
  change: { statement: 'alter', opened: ['change'] },
  selectpart: { statement: 'select', opened: ['selectpart'] },
  item: { statement: 'select', opened: ['item'] },
  column: { statement: 'select', opened: ['item', 'column'] },
  header: { statement: 'select', opened: ['item', 'column', 'header'] },
  json: { statement: 'select', opened: ['item', 'column', 'json'] },
  bound: { statement: 'select', opened: ['selectpart', 'bound'] },
  condition: { statement: 'select', opened: ['selectpart', 'condition'] },
  conjunction: { statement: 'select', opened: ['selectpart', 'condition', 'conjunction'] },
}
/** Deeper than a whole SELECT is worth: written behind `SELECT key FROM t WHERE`. */
const CONDITIONS: Readonly<Record<string, readonly string[]>> = {
  test: ['test'],
  comparison: ['comparison'],
  comparator: ['comparison', 'comparator'],
  'list-of': ['comparison', 'list-of'],
  between: ['comparison', 'between', 'literal'],
  literal: ['comparison', 'literal'],
}

const KINDS: Readonly<Record<string, readonly Statement['kind'][]>> = {
  connect: ['connect'],
  disconnect: ['disconnect'],
  create: ['create-topic', 'join'],
  list: ['list-topics', 'membership', 'list-groups', 'show-offsets'],
  produce: ['produce'],
  fetch: ['fetch'],
  subscribe: ['subscribe'],
  commit: ['commit'],
  join: ['join'],
  leave: ['leave'],
  heartbeat: ['heartbeat'],
  help: ['help'],
  quit: ['quit'],
  describe: ['describe-topic', 'describe-group'],
  alter: ['grow-topic', 'alter-topic'],
  drop: ['drop-topic', 'drop-group'],
  nack: ['nack'],
  begin: ['begin'],
  end: ['end'],
  select: ['select'],
}

/** Parses to one statement; also in small letters, spread over lines with comments, and without blanks around symbols. */
function statementOf(sentence: string): Statement {
  const forms = [
    `${sentence};`,
    `${sentence
      .replaceAll(' ', ' -- c\n\t')
      .replaceAll(/'it.*?😀'/gs, "'x'")
      .replaceAll(/"a.*?c"/gs, "'x'")}\r\n;`,
  ]
  const [first] = forms.map((form) => {
    try {
      const parsed = parse(form)
      assert.equal(parsed.length, 1, form)
      return (parsed[0] as { statement: Statement }).statement
    } catch (error) {
      return assert.fail(`${form}: ${String(error)}`)
    }
  })
  return first as Statement
}

test('every rule of the grammar is a statement or has its place in one', () => {
  const tried = new Set(['input', 'statement', ...Object.keys(KINDS), ...Object.keys(WITHIN), ...Object.keys(CONDITIONS)])
  assert.deepEqual([...GRAMMAR.keys()].sort(), [...tried].sort())
  assert.deepEqual([...named(GRAMMAR, 'statement')].sort(), Object.keys(KINDS).sort())
})

test('every alternative, option and repetition of every statement parses to a statement of its kind', () => {
  for (const [rule, kinds] of Object.entries(KINDS)) {
    const seen = new Set(sentences(GRAMMAR, LEAVES, rule).map((sentence) => statementOf(sentence).kind))
    assert.deepEqual([...seen].sort(), [...kinds].sort(), rule)
  }
})

test('every alternative, option and repetition of the parts of statements parses', () => {
  for (const [rule, { statement, opened }] of Object.entries(WITHIN)) {
    const made = sentences(GRAMMAR, LEAVES, statement, opened)
    const plain = sentences(GRAMMAR, LEAVES, statement, opened.slice(0, -1))
    assert.ok(made.length > plain.length || rule === 'settings', `${rule}: ${made.length} sentences, ${plain.length} without it`)
    for (const sentence of made) assert.ok(KINDS[statement]?.includes(statementOf(sentence).kind), sentence)
  }
  for (const [rule, opened] of Object.entries(CONDITIONS)) {
    const made = sentences(GRAMMAR, LEAVES, 'test', opened)
    assert.ok(made.length > sentences(GRAMMAR, LEAVES, 'test', opened.slice(0, -1)).length || rule === 'test', rule)
    for (const condition of made) assert.equal(statementOf(`SELECT key FROM t WHERE ${condition}`).kind, 'select')
  }
})

test('an input is any number of statements, empty ones too', () => {
  for (const input of ['', ';', ';;', ' \n', '-- only', 'QUIT;', 'HELP;;QUIT;', ';HELP;']) {
    const wanted = (input.match(/HELP|QUIT/g) ?? []).length
    assert.equal(parse(input).length, wanted, JSON.stringify(input))
  }
})

test('every statement of the grammar is in the table of help, and the other way round', () => {
  const first = (text: string) => text.match(/^\(?([A-Z]+(?: \| [A-Z]+)*)/)?.[1]?.split(' | ') ?? []
  const ofHelp = new Set(HELP.flatMap(({ usage }) => first(usage)))
  const ofGrammar = new Set(
    Object.keys(KINDS).flatMap((rule) => sentences(GRAMMAR, LEAVES, rule).map((each) => each.split(' ')[0] as string)),
  )
  assert.deepEqual([...ofGrammar].sort(), [...ofHelp].sort())
})
