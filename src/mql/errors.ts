/** A place in the input. Lines, columns and positions count from 1, columns and positions in code points. */
export interface Place {
  readonly line: number
  readonly column: number
  readonly position: number
}

/** The input is no MQL: nothing of it was run. */
export class MqlError extends Error {
  override readonly name = 'MqlError'
  readonly place: Place
  /** Lexical errors end the line that they are in: nothing that follows could make it right. */
  readonly isLexical: boolean

  constructor(message: string, place: Place, isLexical = false) {
    super(message)
    this.place = place
    this.isLexical = isLexical
  }
}

/** The message, the line of the source, and a caret under the column. */
export function renderError(error: MqlError, source: string): string {
  const { line, column } = error.place
  const text = source.split('\n')[line - 1] ?? ''
  // Tabs stay tabs, so that the caret stands under its column however wide they are shown.
  const before = [...text].slice(0, column - 1).map((point) => (point === '\t' ? '\t' : ' '))
  return `${error.message} (line ${line}, column ${column})\n  ${text.replace(/\r$/, '')}\n  ${before.join('')}^\n`
}
