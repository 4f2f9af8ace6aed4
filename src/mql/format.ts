import { jsonBytes, shown, tableText } from '../core/text.ts'

/** A moment: shown as people write it, in JSON as milliseconds since 1970. */
export class Moment {
  readonly timestampMs: number

  constructor(timestampMs: number) {
    this.timestampMs = timestampMs
  }

  toString(): string {
    const date = new Date(this.timestampMs)
    // Timestamps reach beyond what a date can be.
    return Number.isNaN(date.getTime()) ? String(this.timestampMs) : date.toISOString()
  }
}

/** `undefined`: there is nothing, or the record has no such part. */
export type Cell = string | number | boolean | null | undefined | Buffer | Moment | object

/** What a statement brought: a table, or facts about what was done; notes are for people. */
export interface Result {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
  /** Of a statement without a table: what a program would want to know. */
  readonly facts: Readonly<Record<string, unknown>> | null
  readonly notes: readonly string[]
  /** The columns are the person's own: their titles stay as they were written. */
  readonly keepsTitles?: boolean
}

/** Longest cell of a table in code points; JSON has all of it. */
const MAX_CELL_POINTS = 500

/** For a person. */
export function textResult(result: Result, bold: (head: string) => string = (text) => text): string {
  const { columns, rows, notes, keepsTitles = false } = result
  const cells = rows.map((row) => columns.map((_, at) => tableCell(row[at] === undefined && !keepsTitles ? '-' : row[at])))
  const head = keepsTitles ? columns : columns.map((title) => title.replace(/[A-Z]/g, (letter) => ` ${letter}`).toUpperCase())
  return `${columns.length === 0 || rows.length === 0 ? '' : tableText(head, cells, bold)}${notes.map((note) => `${note}\n`).join('')}`
}

function tableCell(cell: Cell): string | number {
  if (typeof cell === 'number') return cell
  const text = plain(cell)
  const flat = /[\n\t]/.test(text) ? text.replaceAll('\n', '\\n').replaceAll('\t', '\\t') : text
  if (flat.length <= MAX_CELL_POINTS) return flat
  const points = [...flat]
  return points.length <= MAX_CELL_POINTS ? flat : `${points.slice(0, MAX_CELL_POINTS - 1).join('')}…`
}

function plain(cell: Cell): string {
  if (cell === undefined) return ''
  if (typeof cell === 'string') return shown(Buffer.from(cell))
  if (Buffer.isBuffer(cell) || cell === null) return shown(cell)
  return cell instanceof Moment || typeof cell !== 'object' ? String(cell) : JSON.stringify(cell, bytesAsText)
}

/** For a program: one JSON object a line, a row each, or the facts. */
export function jsonLines(result: Result): string[] {
  const { columns, facts } = result
  if (columns.length === 0) return facts === null ? [] : [JSON.stringify(facts)]
  return jsonRows(result).map((row) => JSON.stringify(row, bytesAsText))
}

/** For a program that wants all of it: columns in their order and rows, or facts, and the notes. */
export function jsonText(result: Result): string {
  const { columns, facts, notes } = result
  return JSON.stringify(columns.length === 0 ? { facts: facts ?? {}, notes } : { columns, rows: jsonRows(result), notes }, bytesAsText)
}

function jsonRows({ columns, rows }: Result): Record<string, unknown>[] {
  return rows.map((row) => {
    const fields: Record<string, unknown> = {}
    for (const [at, title] of columns.entries()) Object.assign(fields, jsonCell(title, row[at]))
    return fields
  })
}

function jsonCell(title: string, cell: Cell): Record<string, unknown> {
  if (Buffer.isBuffer(cell)) return jsonBytes(title, cell)
  return { [title]: cell instanceof Moment ? cell.timestampMs : (cell ?? null) }
}

/** Bytes within an object, such as the value of a header, as people see them. */
function bytesAsText(this: unknown, key: string, value: unknown): unknown {
  const raw = (this as Record<string, unknown>)[key]
  return Buffer.isBuffer(raw) ? shown(raw) : value
}
