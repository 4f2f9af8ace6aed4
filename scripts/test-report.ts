import { relative } from 'node:path'
import { run } from 'node:test'
import { inspect } from 'node:util'

export interface Totals {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

export interface RunOptions {
  readonly root: string
  /** Time for one file. */
  readonly timeoutMs: number
  readonly concurrency: number
}

interface FileState {
  seconds: number
  passed: number
  failed: number
  skipped: number
  readonly notes: string[]
  output: string
}

/** How much of what a failing file printed is repeated: enough to find the fault, little enough to read. */
const MAX_OUTPUT_CHARS = 20_000
const MAX_FAILURE_CHARS = 5000

/** Runs the files, `concurrency` at a time, prints a line a file and each failure in full, and counts tests; suites do not count. */
export async function runFiles(files: readonly string[], options: RunOptions): Promise<Totals> {
  const sum = { passed: 0, failed: 0, skipped: 0 }
  const waiting = [...files]
  const worker = async (): Promise<void> => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const state = await runFile(file, options.timeoutMs)
      printFile(relative(options.root, file), state)
      sum.passed += state.passed
      sum.failed += state.failed
      sum.skipped += state.skipped
    }
  }
  await Promise.all(Array.from({ length: options.concurrency }, worker))
  return sum
}

/** One file in a process of its own. An event names the file in which a test is written, which may be a helper that several files run. */
async function runFile(file: string, timeoutMs: number): Promise<FileState> {
  const state = newState()
  const start = performance.now()
  for await (const event of run({ files: [file], concurrency: 1, timeout: timeoutMs })) {
    if (event.type === 'test:stdout' || event.type === 'test:stderr') state.output += event.data.message
    if (event.type === 'test:pass') notePass(state, event.data)
    if (event.type === 'test:fail') noteFailure(state, event.data)
  }
  state.seconds = (performance.now() - start) / 1000
  if (state.passed + state.failed + state.skipped === 0) fail(state, 'no test ran in this file')
  return state
}

function newState(): FileState {
  return { seconds: 0, passed: 0, failed: 0, skipped: 0, notes: [], output: '' }
}

interface Passed {
  readonly name: string
  readonly file?: string
  readonly skip?: string | boolean
  readonly todo?: string | boolean
  readonly details: { readonly type?: string | undefined }
}

function notePass(state: FileState, data: Passed): void {
  if (data.details.type === 'suite') return
  // A file without a test passes under its own name; that is no test.
  if (data.name === data.file) return
  if (data.skip === undefined && data.todo === undefined) {
    state.passed++
    return
  }
  state.skipped++
  const reason = data.skip ?? data.todo
  state.notes.push(`  skipped: ${data.name}${typeof reason === 'string' && reason !== '' ? ` (${reason})` : ''}`)
}

interface Failed {
  readonly name: string
  readonly file?: string
  readonly line?: number
  readonly details: { readonly type?: string | undefined; readonly error: Error }
}

function noteFailure(state: FileState, data: Failed): void {
  const error: Error & { failureType?: string } = data.details.error
  // What failed inside has been told already.
  if (error.failureType === 'subtestsFailed') return
  const where = data.name === data.file ? 'the file itself' : data.name
  fail(state, `${where}: ${told(error.cause ?? error)}`)
}

/** Message, place and causes; not the properties, which repeat the message of a failed comparison at length. */
function told(error: unknown): string {
  if (!(error instanceof Error)) return cut(inspect(error, { depth: 4, maxStringLength: 1000 }))
  const cause = error.cause === undefined ? '' : `\ncaused by: ${told(error.cause)}`
  return `${cut(error.stack ?? String(error))}${cause}`
}

function cut(text: string): string {
  return text.length > MAX_FAILURE_CHARS ? `${text.slice(0, MAX_FAILURE_CHARS)}\n(cut)` : text
}

function fail(state: FileState, text: string): void {
  state.failed++
  state.notes.push(`  failed: ${text.replaceAll('\n', '\n    ')}`)
}

function printFile(path: string, state: FileState): void {
  const counts = [`${state.passed} passed`]
  if (state.failed > 0) counts.push(`${state.failed} FAILED`)
  if (state.skipped > 0) counts.push(`${state.skipped} skipped`)
  console.log(`${path}: ${counts.join(', ')} (${state.seconds.toFixed(1)} s)`)
  for (const note of state.notes) console.log(note)
  if (state.failed > 0 && state.output !== '') {
    const shown = state.output.length > MAX_OUTPUT_CHARS ? `${state.output.slice(0, MAX_OUTPUT_CHARS)}\n(cut)` : state.output
    console.log(`  output:\n    ${shown.trimEnd().replaceAll('\n', '\n    ')}`)
  }
}
