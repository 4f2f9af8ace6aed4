import { checkLength, lexFrom, type Token } from './lexer.ts'

/** What can run, and the tokens that it was taken apart into. */
export interface CompleteInput {
  readonly source: string
  readonly tokens: readonly Token[]
}

/** What was entered and did not run yet, line by line. Each line is taken apart once, when it comes. */
export class PendingInput {
  #lines: string[] = []
  /** Of all lines, without an `end` token. */
  #tokens: Token[] = []
  #units = 0
  /** Code points, as positions count. */
  #points = 0
  /** Of the last `;` among the tokens. */
  #lastEnd = -1

  get isEmpty(): boolean {
    return this.#tokens.length === 0
  }

  get source(): string {
    return this.#lines.join('\n')
  }

  clear(): void {
    this.#lines = []
    this.#tokens = []
    this.#units = 0
    this.#points = 0
    this.#lastEnd = -1
  }

  /**
   * Another line. Takes everything up to the last `;` out, if there is one; what is behind it stays, as if it had been entered by itself.
   * Throws MqlError for what the lexer refuses; the line is among `source` then.
   */
  add(line: string): CompleteInput | null {
    const before = this.#units
    this.#lines.push(line)
    this.#units += line.length + 1
    checkLength(this.#units - 1)
    const tokens = lexFrom(line, { line: this.#lines.length, column: 1, position: this.#points + 1 }, before)
    for (const token of tokens) {
      if (token.kind === 'end') this.#points = token.place.position
      else this.#tokens.push(token)
      if (token.kind === 'symbol' && token.text === ';') this.#lastEnd = this.#tokens.length - 1
    }
    if (this.isEmpty) this.clear()
    return this.#takeComplete()
  }

  #takeComplete(): CompleteInput | null {
    const last = this.#tokens[this.#lastEnd]
    if (last === undefined) return null
    const { source } = this
    const { line, column, position } = last.place
    const place = { line, column: column + 1, position: position + 1 }
    const tokens: Token[] = [...this.#tokens.slice(0, this.#lastEnd + 1), { kind: 'end', text: '', raw: '', place, end: last.end }]
    this.clear()
    this.add(source.slice(last.end).trimStart())
    return { source, tokens }
  }
}
