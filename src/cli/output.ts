import { stripVTControlCharacters, styleText } from 'node:util'
import type { CliContext } from './context.ts'

type Style = Parameters<typeof styleText>[0]

/** The text in a style where the terminal shows colours. */
export function styled(context: CliContext, style: Style, text: string): string {
  return context.colour ? styleText(style, text) : text
}

/** One JSON value on a line of its own. */
export function printJson(context: CliContext, value: unknown): void {
  context.out(`${JSON.stringify(value)}\n`)
}

/** Columns as wide as their widest cell; numbers to the right. */
export function table(context: CliContext, head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cells = rows.map((row) => row.map(String))
  const widths = head.map((title, column) => Math.max(width(title), ...cells.map((row) => width(row[column] ?? ''))))
  const numeric = head.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'))
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => {
        const space = ' '.repeat(Math.max(0, (widths[column] ?? 0) - width(cell)))
        return numeric[column] ? space + cell : cell + space
      })
      .join('  ')
      .trimEnd()
  return `${[styled(context, 'bold', line(head)), ...cells.map(line)].join('\n')}\n`
}

function width(text: string): number {
  return [...stripVTControlCharacters(text)].length
}

/** A size for people: `1.5 GiB`. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}

/** Bytes as text when they are UTF-8 without control characters, else as `base64:…`; null is `null`. */
export function shown(bytes: Buffer | null): string {
  if (bytes === null) return 'null'
  const text = utf8OrNull(bytes)
  return text ?? `base64:${bytes.toString('base64')}`
}

/** The fields of a value in JSON: text where it is text, else base64 under another name. */
export function jsonBytes(name: string, bytes: Buffer | null): Record<string, string | null> {
  if (bytes === null) return { [name]: null }
  const text = decodeUtf8(bytes)
  return text === null ? { [`${name}Base64`]: bytes.toString('base64') } : { [name]: text }
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeUtf8(bytes: Buffer): string | null {
  try {
    return strict.decode(bytes)
  } catch {
    return null
  }
}

function utf8OrNull(bytes: Buffer): string | null {
  const text = decodeUtf8(bytes)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal must not be steered by what a record holds
  return text === null || /[\u0000-\u0008\u000b-\u001f\u007f\u0080-\u009f]/.test(text) ? null : text
}

/** `1 record`, `2 records`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
