import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SeededRandom } from '../../src/core/random.ts'
import { MqlError, renderError } from '../../src/mql/errors.ts'
import { HELP } from '../../src/mql/help.ts'
import { KEYWORDS, lex } from '../../src/mql/lexer.ts'
import { parse, SOFT_WORDS } from '../../src/mql/parser.ts'
import { matching, RecordView } from '../../src/mql/where.ts'
import { fakeRecord } from '../support/fake-operations.ts'
import { type FuzzTarget, fuzz, pick } from '../support/fuzz.ts'

/**
 * The console language: examples cut and joined, words in any order, characters of every plane. Whatever comes is statements, or a
 * mistake whose place lies in the input; nothing else leaves the parser. Tokens are the input again, and conditions judge any record.
 */
const EXAMPLES = HELP.map(({ example }) => example)
const WORDS = [
  ...KEYWORDS,
  ...SOFT_WORDS,
  'orders',
  "'it''s'",
  '"x"',
  '7',
  '2e3',
  '10m',
  '2026-01-31',
  'value.a',
  'header.b',
  'a.b-c',
  '(',
  ')',
  ',',
  '=',
  '<>',
  '[',
  ']',
  '-',
  ';',
  '*',
  '.',
]
const STRANGE = ['\n', '\t', '\r\n', '𝄞', 'é', '\u0000', '\ud800', "'", '"', '--', '-- x\n', '\\', '￿', '/', '+', '¼']

function anyInput(random: SeededRandom): string {
  const parts: string[] = []
  for (let count = 1 + random.below(12); count > 0; count--) {
    const dice = random.below(10)
    if (dice < 6) parts.push(pick(random, WORDS))
    else if (dice < 8) {
      const example = pick(random, EXAMPLES)
      parts.push(
        example.slice(
          random.below(4) === 0 ? random.below(example.length) : 0,
          random.below(4) === 0 ? random.below(example.length) : undefined,
        ),
      )
    } else if (dice === 8) parts.push(pick(random, STRANGE))
    else parts.push(random.bytes(random.below(12)).toString('utf8'))
  }
  return parts.join(random.below(5) === 0 ? '' : ' ')
}

const RECORDS = [
  fakeRecord(0, '{"a":[{"b":-1.5}],"c":null,"d":true,"__proto__":{"x":1}}', { headers: [{ key: 'b', value: null }] }),
  fakeRecord(1, 'no json', { key: null }),
  fakeRecord(2, null, { timestampMs: 2 ** 53 }),
  fakeRecord(3, Buffer.from([0xff, 0xfe])),
]

function check(source: string): void {
  const tokens = lex(source)
  for (const token of tokens) assert.equal(source.slice(token.end - token.raw.length, token.end), token.raw)
  for (const { statement } of parse(source, { lastMayEnd: true })) {
    if (statement.kind !== 'select') continue
    for (const record of RECORDS) {
      const view = new RecordView(record)
      if (statement.where !== null) assert.equal(typeof matching(statement.where, view, { isOver: false }).next().value, 'boolean')
      for (const column of statement.columns) view.get(column)
    }
  }
}

const TARGET: FuzzTarget<string> = {
  name: 'console language',
  make: anyInput,
  run: (source) => {
    try {
      check(source)
    } catch (error) {
      if (!(error instanceof MqlError)) throw error
      const { line, column, position } = error.place
      const lines = source.split('\n')
      assert.ok(line >= 1 && line <= lines.length, `line ${line}`)
      assert.ok(column >= 1 && column <= [...(lines[line - 1] ?? '')].length + 1, `column ${column}`)
      assert.ok(position >= 1 && position <= [...source].length + 1, `position ${position}`)
      assert.ok(renderError(error, source).split('\n').length >= 4)
      throw error
    }
  },
  isExpected: (error) => error instanceof MqlError,
  show: (source) => JSON.stringify(source),
}

test('any input is statements or a mistake with its place', async () => {
  const { accepted } = await fuzz(TARGET)
  assert.ok(accepted > 0)
})
