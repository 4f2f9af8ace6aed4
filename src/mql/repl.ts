import { MoonMQError } from '../core/errors.ts'
import type { Parsed } from './ast.ts'
import { MqlError, renderError } from './errors.ts'
import type { Executor } from './executor.ts'
import type { Result } from './format.ts'
import { HELP } from './help.ts'
import { KEYWORDS } from './lexer.ts'
import { parse, parseTokens, SOFT_WORDS } from './parser.ts'
import { PendingInput } from './pending-input.ts'

export interface ReplOutput {
  result(result: Result): void | Promise<void>
  /** A statement that failed, or input that is no MQL; `rendered` is for people. */
  failed(error: unknown, rendered: string): void
}

export type LineOutcome = 'ready' | 'more' | 'quit'

/** Of a whole input: whether a statement of it failed, or it was none; and whether it said QUIT. */
export interface InputOutcome {
  readonly failed: boolean
  readonly quit: boolean
}

/** Names for the completion are asked for again after so long. */
const NAMES_MAX_AGE_MS = 5_000
const NAME_CHARACTERS = /^[A-Za-z_][A-Za-z0-9_.-]*$/

/** A console without its terminal: takes lines, runs what ends with `;`, and knows what may come next. */
export class Repl {
  readonly #executor: Executor
  readonly #output: ReplOutput
  readonly #nowMs: () => number
  readonly #pending = new PendingInput()
  #names: { readonly topics: readonly string[]; readonly groups: readonly string[]; readonly atMs: number } | null = null

  constructor(deps: { readonly executor: Executor; readonly output: ReplOutput; readonly nowMs: () => number }) {
    this.#executor = deps.executor
    this.#output = deps.output
    this.#nowMs = deps.nowMs
  }

  get prompt(): string {
    return this.#pending.isEmpty ? 'mq> ' : '..> '
  }

  /** Forgets what was begun. */
  discard(): void {
    this.#pending.clear()
  }

  /** Runs up to the last `;` that has been seen; the rest waits for more. A mistake in the input throws all of it away, before any of it runs. */
  async line(line: string, signal: AbortSignal): Promise<LineOutcome> {
    const complete = this.#tried(
      () => this.#pending.add(line),
      () => this.#pending.source,
    )
    if (complete !== null) {
      const { source, tokens } = complete
      const statements = this.#tried(
        () => parseTokens(source, tokens),
        () => source,
      )
      if (statements !== null && (await this.#runAll(statements, signal)).quit) return 'quit'
    }
    return this.#pending.isEmpty ? 'ready' : 'more'
  }

  /** A whole input: a file, or what `-c` says. */
  async all(
    source: string,
    signal: AbortSignal,
    options: { readonly lastMayEnd: boolean; readonly stopOnError: boolean },
  ): Promise<InputOutcome> {
    const statements = this.#tried(
      () => parse(source, options),
      () => source,
    )
    return statements === null ? { failed: true, quit: false } : this.#runAll(statements, signal, options.stopOnError)
  }

  /** What is left without `;` at the end of the input is no statement. */
  end(): boolean {
    const { source } = this.#pending
    return (
      this.#tried(
        () => parse(source),
        () => source,
      )?.length === 0
    )
  }

  /** Null: it is no MQL, which has been told, and what was begun is thrown away. */
  #tried<T>(read: () => T, source: () => string): T | null {
    try {
      return read()
    } catch (error) {
      if (!(error instanceof MqlError)) throw error
      this.#output.failed(error, renderError(error, source()))
      this.#pending.clear()
      return null
    }
  }

  async #runAll(statements: readonly Parsed[], signal: AbortSignal, stopOnError = false): Promise<InputOutcome> {
    let failed = false
    for (const { statement } of statements) {
      if (statement.kind === 'quit') return { failed, quit: true }
      try {
        await this.#output.result(await this.#executor.run(statement, signal))
        if (signal.aborted) return { failed: true, quit: false }
      } catch (error) {
        failed = true
        this.#output.failed(error, renderFailure(error))
        if (stopOnError || signal.aborted) break
      }
    }
    return { failed, quit: false }
  }

  /** The candidates for the word before the cursor, and that word: keywords, and the names that can stand there. */
  async complete(line: string, signal: AbortSignal): Promise<[candidates: string[], word: string]> {
    const word = /[^\s,;()=]*$/.exec(line)?.[0] ?? ''
    const before = `${this.#pending.source} ${line.slice(0, line.length - word.length)}`
    const words = candidateWords(before)
    const isLower = word !== '' && word === word.toLowerCase()
    const keywords = words.filter((each) => each.startsWith(word.toUpperCase())).map((each) => (isLower ? each.toLowerCase() : each))
    const names = (await this.#namesFor(before, signal)).filter((each) => each.startsWith(word))
    return [[...names, ...keywords], word]
  }

  async #namesFor(before: string, signal: AbortSignal): Promise<string[]> {
    const last = before.trim().split(/\s+/).at(-1)?.toUpperCase() ?? ''
    const isGroup = last === 'GROUP'
    const isTopic = TOPIC_FOLLOWS.has(last) || last.endsWith(',')
    if (!isGroup && !isTopic) return []
    const { topics, groups } = await this.#loadNames(signal)
    return (isGroup ? groups : topics).map((name) => (needsQuotes(name) ? `'${name}'` : name))
  }

  async #loadNames(signal: AbortSignal): Promise<{ topics: readonly string[]; groups: readonly string[] }> {
    const known = this.#names
    if (known !== null && this.#nowMs() - known.atMs < NAMES_MAX_AGE_MS) return known
    const { operations } = this.#executor
    if (operations === null) return { topics: [], groups: [] }
    // Completion is a help: without the broker, or the right to ask it, there are no names.
    const [topics, groups] = await Promise.all([
      operations.listTopics(signal).catch(() => []),
      operations.listGroups(signal).catch(() => []),
    ])
    this.#names = { topics: topics.map(({ name }) => name), groups: groups.map(({ group }) => group), atMs: this.#nowMs() }
    return this.#names
  }
}

const TOPIC_FOLLOWS = new Set(['TOPIC', 'FROM', 'INTO', 'ON', 'TO', 'SUBSCRIBE', 'COMMIT', 'NACK', 'DESCRIBE'])

/** Words of the statements that begin as the input does; at the beginning of one, every first word. */
function candidateWords(before: string): string[] {
  const first = /([A-Za-z]+)[^;]*$/.exec(before.slice(before.lastIndexOf(';') + 1))?.[1]?.toUpperCase()
  if (first === undefined) return unique(HELP.flatMap(({ usage }) => usage.match(/^\(?[A-Z]+( \| [A-Z]+)*/)?.[0].match(/[A-Z]+/g) ?? []))
  const own = HELP.filter(({ words, usage }) => words.includes(first) && new RegExp(`^\\(?[A-Z |]*\\b${first}\\b`).test(usage))
  const words = own.flatMap(({ usage }) => usage.match(/[A-Z]{2,}/g) ?? [])
  const more = first === 'SELECT' ? [...SOFT_WORDS.slice(SOFT_WORDS.indexOf('WHERE')), 'KEY', 'VALUE', 'OFFSET', 'PARTITION'] : []
  return unique([...words, ...more]).filter((word) => word !== 'NAME')
}

function unique(words: readonly string[]): string[] {
  return [...new Set(words)].sort()
}

function needsQuotes(name: string): boolean {
  return !NAME_CHARACTERS.test(name) || KEYWORDS.has(name.toUpperCase())
}

function renderFailure(error: unknown): string {
  if (error instanceof MoonMQError) return `${error.message} (${error.code})\n`
  return `${error instanceof Error ? error.message : String(error)}\n`
}
