import { styleText } from 'node:util'
import { jsonBytes, shown, tableText } from '../core/text.ts'
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
  return tableText(head, rows, (text) => styled(context, 'bold', text))
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
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

/** `1 record`, `2 records`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

export { jsonBytes, shown }
