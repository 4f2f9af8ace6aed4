import type { ClientRecord } from '../client/types.ts'
import type { Clock } from '../core/clock.ts'
import { MIB } from '../core/limits.ts'
import type { Bound, Column, Select } from './ast.ts'
import { type Cell, Moment, type Result } from './format.ts'
import type { Operations, ScanBound } from './operations.ts'
import { matches, RecordView } from './where.ts'

/** What one SELECT may look at. */
export interface ScanLimits {
  readonly maxRecords: number
  readonly maxBytes: number
  readonly maxMs: number
}

export const DEFAULT_SCAN_LIMITS: ScanLimits = { maxRecords: 1_000_000, maxBytes: 256 * MIB, maxMs: 30_000 }

const DEFAULT_ROWS = 100
/** Places that a note names. */
const MAX_PLACES = 10

type Stop = 'records' | 'bytes' | 'time' | null

/** Records between two bounds that fit a condition, as many as the limit says, looking at no more than the limits of a scan. */
export async function select(
  deps: { readonly operations: Operations; readonly clock: Clock },
  limits: ScanLimits,
  statement: Select,
  signal: AbortSignal,
): Promise<Result> {
  const scan = new Scan(deps, limits, statement)
  await scan.run(signal)
  return scan.result()
}

class Scan {
  readonly #deps: { readonly operations: Operations; readonly clock: Clock }
  readonly #limits: ScanLimits
  readonly #statement: Select
  readonly #rows: Cell[][] = []
  readonly #next = new Map<number, number>()
  readonly #maxRows: number
  #found = 0
  #records = 0
  #bytes = 0
  #stop: Stop = null
  #hasMore = false

  constructor(deps: { readonly operations: Operations; readonly clock: Clock }, limits: ScanLimits, statement: Select) {
    this.#deps = deps
    this.#limits = limits
    this.#statement = statement
    this.#maxRows = statement.count ? Number.POSITIVE_INFINITY : (statement.limit ?? DEFAULT_ROWS)
  }

  async run(signal: AbortSignal): Promise<void> {
    const { operations, clock } = this.#deps
    const { topic, partitions, from, to } = this.#statement
    const late = new AbortController()
    const timer = clock.setTimer(this.#limits.maxMs, () => late.abort(), { keepAlive: true })
    const nowMs = clock.nowMs()
    const request = { topic, partitions, from: boundOf(from, nowMs) ?? 'earliest', to: boundOf(to, nowMs) } as const
    try {
      for await (const record of operations.scan(request, AbortSignal.any([signal, late.signal]))) {
        if (!this.#look(record)) break
        if (late.signal.aborted) this.#stop = 'time'
        if (this.#stop !== null) break
      }
    } catch (error) {
      // Its own time is over: what was found until then is the answer.
      if (!late.signal.aborted || signal.aborted) throw error
      this.#stop = 'time'
    } finally {
      timer.cancel()
    }
  }

  /** False: there are as many rows as were asked for, and this one would be the next. */
  #look(record: ClientRecord): boolean {
    const { where, columns } = this.#statement
    const view = new RecordView(record)
    if (where === null || matches(where, view)) {
      if (this.#found >= this.#maxRows) {
        this.#hasMore = true
        return false
      }
      this.#found++
      if (!this.#statement.count) this.#rows.push(columns.map((column) => cellOf(view, column)))
    }
    this.#next.set(record.partition, record.offset + 1)
    this.#records++
    this.#bytes += (record.key?.length ?? 0) + (record.value?.length ?? 0)
    if (this.#records >= this.#limits.maxRecords) this.#stop = 'records'
    else if (this.#bytes >= this.#limits.maxBytes) this.#stop = 'bytes'
    return true
  }

  result(): Result {
    const { count, columns } = this.#statement
    const notes: string[] = []
    if (this.#stop !== null) notes.push(this.#stopNote(this.#stop))
    if (this.#hasMore) notes.push(`the first ${this.#maxRows}; there are more (LIMIT)`)
    if (count) return { columns: ['count'], rows: [[this.#found]], facts: null, notes }
    if (this.#rows.length === 0) notes.unshift(`no records among the ${this.#records} that were looked at`)
    return { columns: columns.map(({ title }) => title), rows: this.#rows, facts: null, notes, keepsTitles: true }
  }

  #stopNote(stop: Exclude<Stop, null>): string {
    const { maxRecords, maxBytes, maxMs } = this.#limits
    const bound = { records: `${maxRecords} records`, bytes: `${maxBytes} bytes`, time: `${maxMs / 1000} seconds` }[stop]
    const places = [...this.#next].sort(([a], [b]) => a - b)
    const shown = places.slice(0, MAX_PLACES).map(([partition, offset]) => `partition ${partition} offset ${offset}`)
    const rest = places.length > MAX_PLACES ? `, and ${places.length - MAX_PLACES} more` : ''
    return `stopped early, after looking at ${bound}, before: ${shown.join(', ')}${rest}`
  }
}

function boundOf(bound: Bound | null, nowMs: number): ScanBound | null {
  if (bound === null) return null
  switch (bound.kind) {
    case 'earliest':
    case 'latest':
      return bound.kind
    case 'offset':
      return { offset: bound.offset }
    case 'time':
      return { timestampMs: bound.timestampMs }
    case 'age':
      return { timestampMs: nowMs - bound.ageMs }
  }
}

function cellOf(view: RecordView, column: Column): Cell {
  const found = view.get(column)
  return column.source === 'timestamp' ? new Moment(view.record.timestampMs) : found
}
