import { cellsOf } from '../core/text.ts'

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

/** Of a longer line so many code points around the place are shown. */
const MAX_SHOWN_POINTS = 160

/** The message, the line of the source, and a caret under the column. */
export function renderError(error: MqlError, source: string): string {
  const { line, column } = error.place
  const points = [...(source.split('\n')[line - 1] ?? '').replace(/\r$/, '')]
  const first = points.length <= MAX_SHOWN_POINTS ? 0 : Math.max(0, column - 1 - MAX_SHOWN_POINTS / 2)
  const end = first + MAX_SHOWN_POINTS
  const cut = (isCut: boolean) => (isCut ? '…' : '')
  const shown = points.slice(first, end).map(harmless)
  // Tabs stay tabs, so that the caret stands under its column however wide they are shown.
  const before = shown.slice(0, column - 1 - first).map((point) => (point === '\t' ? '\t' : ' '.repeat(cellsOf(point))))
  const text = `${cut(first > 0)}${shown.join('')}${cut(end < points.length)}`
  return `${error.message} (line ${line}, column ${column})\n  ${text}\n  ${first > 0 ? ' ' : ''}${before.join('')}^\n`
}

/** A terminal must not be steered by what somebody pasted into it. */
function harmless(point: string): string {
  const code = point.codePointAt(0) ?? 0
  return point !== '\t' && (code < 0x20 || (code >= 0x7f && code < 0xa0)) ? '\u00b7' : point
}
