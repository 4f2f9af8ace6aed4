import { stripVTControlCharacters } from 'node:util'

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The bytes as text, or null when they are no UTF-8. */
export function decodeUtf8(bytes: Buffer): string | null {
  try {
    return strict.decode(bytes)
  } catch {
    return null
  }
}

/** As much of the text as fits into so many bytes of UTF-8. */
export function cutUtf8(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  return bytes.length <= maxBytes ? text : new TextDecoder().decode(bytes.subarray(0, maxBytes), { stream: true })
}

/** Bytes as text when they are UTF-8 without control characters, else as `base64:…`; null is `null`. */
export function shown(bytes: Buffer | null): string {
  if (bytes === null) return 'null'
  const text = decodeUtf8(bytes)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal must not be steered by what a record holds
  const isPlain = text !== null && !/[\u0000-\u0008\u000b-\u001f\u007f\u0080-\u009f]/.test(text)
  return isPlain ? text : `base64:${bytes.toString('base64')}`
}

/** The fields of a value in JSON: text where it is text, else base64 under another name. */
export function jsonBytes(name: string, bytes: Buffer | null): Record<string, string | null> {
  if (bytes === null) return { [name]: null }
  const text = decodeUtf8(bytes)
  return text === null ? { [`${name}Base64`]: bytes.toString('base64') } : { [name]: text }
}

/** Columns as wide as their widest cell; numbers to the right. `style` may colour the head. */
export function tableText(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  style: (head: string) => string = (text) => text,
): string {
  const cells = rows.map((row) => row.map(String))
  const widths = head.map((title, column) => cells.reduce((most, row) => Math.max(most, width(row[column] ?? '')), width(title)))
  const numeric = head.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'))
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => {
        const space = ' '.repeat(Math.max(0, (widths[column] ?? 0) - width(cell)))
        return numeric[column] ? space + cell : cell + space
      })
      .join('  ')
      .trimEnd()
  return `${[style(line(head)), ...cells.map(line)].join('\n')}\n`
}

const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|^\p{Emoji_Presentation}/u
const MARK = /^[\p{Mn}\p{Me}\p{Cf}]/u

/** Cells of a terminal that a code point takes: none for a mark upon the one before, two for what is wide. */
export function cellsOf(point: string): number {
  if (point < '\u0300') return 1
  return MARK.test(point) ? 0 : WIDE.test(point) ? 2 : 1
}

function width(text: string): number {
  let cells = 0
  for (const point of stripVTControlCharacters(text)) cells += cellsOf(point)
  return cells
}
