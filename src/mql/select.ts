import type { ClientRecord } from '../client/types.ts'
import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import { Turn } from '../core/in-turns.ts'
import { MIB } from '../core/limits.ts'
import type { Bound, Column, Condition, Select } from './ast.ts'
import { type Cell, Moment, type Result } from './format.ts'
import type { Operations, ScanBound } from './operations.ts'
import { matching, RecordView } from './where.ts'

/** What one SELECT may look at. */
export interface ScanLimits {
  readonly maxRecords: number
  readonly maxBytes: number
  readonly maxMs: number
}

export const DEFAULT_SCAN_LIMITS: ScanLimits = { maxRecords: 1_000_000, maxBytes: 256 * MIB, maxMs: 30_000 }

/** What a statement may give back. */
export interface ResultLimits {
  readonly maxRows: number
  /** Of keys, values and headers; at least one row is given all the same. */
  readonly maxBytes: number
  /** How long SUBSCRIBE collects. */
  readonly maxMs: number
}

export const DEFAULT_RESULT_LIMITS: ResultLimits = { maxRows: 100_000, maxBytes: 256 * MIB, maxMs: Number.POSITIVE_INFINITY }

const DEFAULT_ROWS = 100
/** Places that a note names. */
const MAX_PLACES = 10

export interface SelectLimits {
  readonly scan: ScanLimits
  readonly result: ResultLimits
}

type Stop = 'records' | 'bytes' | 'time' | 'result' | null

/** Records between two bounds that fit a condition, as many as the limit says, looking at no more than the limits of a scan. */
export async function select(
  deps: { readonly operations: Operations; readonly clock: Clock },
  limits: SelectLimits,
  statement: Select,
  signal: AbortSignal,
): Promise<Result> {
  const scan = new Scan(deps, limits, statement)
  await scan.run(signal)
  return scan.result()
}

class Scan {
  readonly #deps: { readonly operations: Operations; readonly clock: Clock }
  readonly #limits: SelectLimits
  readonly #statement: Select
  readonly #rows: Cell[][] = []
  readonly #next = new Map<number, number>()
  readonly #maxRows: number
  readonly #turn: Turn
  #found = 0
  #records = 0
  #bytes = 0
  #resultBytes = 0
  #stop: Stop = null
  #hasMore = false

  constructor(deps: { readonly operations: Operations; readonly clock: Clock }, limits: SelectLimits, statement: Select) {
    this.#deps = deps
    this.#limits = limits
    this.#statement = statement
    this.#turn = new Turn(deps.clock)
    this.#maxRows = statement.count ? Number.POSITIVE_INFINITY : Math.min(statement.limit ?? DEFAULT_ROWS, limits.result.maxRows)
  }

  async run(signal: AbortSignal): Promise<void> {
    const { operations, clock } = this.#deps
    const { topic, partitions, from, to } = this.#statement
    const late = new AbortController()
    const timer = clock.setTimer(this.#limits.scan.maxMs, () => late.abort(), { keepAlive: true })
    const nowMs = clock.nowMs()
    const request = { topic, partitions, from: boundOf(from, nowMs) ?? 'earliest', to: boundOf(to, nowMs) } as const
    const over = AbortSignal.any([signal, late.signal])
    try {
      for await (const record of operations.scan(request, over)) {
        if (!(await this.#look(record, over))) break
        if (this.#turn.isOver) await this.#turn.pause()
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
  async #look(record: ClientRecord, signal: AbortSignal): Promise<boolean> {
    const { where, columns } = this.#statement
    const view = new RecordView(record)
    if (where === null || (await this.#fits(where, view, signal))) {
      if (this.#found >= this.#maxRows) {
        this.#hasMore = true
        return false
      }
      this.#found++
      if (!this.#statement.count)
        this.#keep(
          columns.map((column) => cellOf(view, column)),
          record,
        )
    }
    this.#next.set(record.partition, record.offset + 1)
    this.#records++
    this.#bytes += (record.key?.length ?? 0) + (record.value?.length ?? 0)
    if (this.#records >= this.#limits.scan.maxRecords) this.#stop = 'records'
    else if (this.#bytes >= this.#limits.scan.maxBytes) this.#stop = 'bytes'
    else if (this.#resultBytes >= this.#limits.result.maxBytes) this.#stop = 'result'
    return true
  }

  /** One record and a long condition may take longer than others should wait, and longer than there is time. Throws ABORTED. */
  async #fits(where: Condition, view: RecordView, signal: AbortSignal): Promise<boolean> {
    const work = matching(where, view, this.#turn)
    for (;;) {
      const step = work.next()
      if (step.done === true) return step.value
      await this.#turn.pause()
      if (signal.aborted) throw new MoonMQError('ABORTED')
    }
  }

  #keep(row: Cell[], record: ClientRecord): void {
    const whole = recordBytes(record)
    let bytes = 0
    // A column may stand there many times over, and what is in JSON is as large as its record at most.
    for (const cell of row) {
      if (typeof cell === 'string' || Buffer.isBuffer(cell)) bytes += cell.length
      else bytes += typeof cell === 'object' && cell !== null && !(cell instanceof Moment) ? whole : CELL_BYTES
    }
    // A large record is given all the same, but not many times.
    if (bytes > Math.max(this.#limits.result.maxBytes, 2 * whole)) {
      const reason = `the row of partition ${record.partition} offset ${record.offset} alone has ${bytes} bytes: name fewer columns`
      throw new MoonMQError('INVALID_REQUEST', { reason })
    }
    this.#rows.push(row)
    this.#resultBytes += bytes
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
    const { scan, result } = this.#limits
    const why = {
      records: `after looking at ${scan.maxRecords} records`,
      bytes: `after looking at ${scan.maxBytes} bytes`,
      time: `after looking at ${scan.maxMs / 1000} seconds`,
      result: `with ${result.maxBytes} bytes of result`,
    }[stop]
    const places = [...this.#next].sort(([a], [b]) => a - b)
    const shown = places.slice(0, MAX_PLACES).map(([partition, offset]) => `partition ${partition} offset ${offset}`)
    const rest = places.length > MAX_PLACES ? `, and ${places.length - MAX_PLACES} more` : ''
    return `stopped early, ${why}, before: ${shown.join(', ')}${rest}`
  }
}

/** With what JSON adds to each. */
const CELL_BYTES = 16

/** Of everything that a row of it can show. */
export function recordBytes({ key, value, headers }: ClientRecord): number {
  let bytes = (key?.length ?? 0) + (value?.length ?? 0)
  for (const header of headers) bytes += header.key.length + (header.value?.length ?? 0)
  return bytes + CELL_BYTES
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
