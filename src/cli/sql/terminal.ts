import { createInterface, type Interface } from 'node:readline'
import type { Writable } from 'node:stream'
import type { Repl } from '../../mql/repl.ts'
import type { CliContext } from '../context.ts'
import { History } from './history.ts'

/**
 * A person at a terminal, until QUIT or the end of the input. An interrupt gives up the statement that runs, else what was begun, else
 * the console.
 */
export async function converse(context: CliContext, repl: Repl, output: Writable = process.stdout): Promise<void> {
  const history = new History(context)
  const terminal = createInterface({
    input: context.stdin,
    output,
    terminal: true,
    history: await history.load().catch(() => []),
    historySize: 1000,
    removeHistoryDuplicates: true,
    completer: (line: string, done: (error: Error | null, found: [string[], string]) => void) => {
      repl.complete(line, context.signal).then(
        (found) => done(null, found),
        () => done(null, [[], line]),
      )
    },
  })
  const lines = new Lines(terminal)
  let running: AbortController | null = null
  terminal.on('SIGINT', () => {
    if (running !== null) running.abort()
    else if (terminal.line === '' && repl.prompt === FIRST_PROMPT) terminal.close()
    else {
      repl.discard()
      terminal.write(null, { ctrl: true, name: 'u' })
      show(terminal, repl)
    }
  })
  try {
    for (;;) {
      show(terminal, repl)
      const line = await lines.next()
      if (line === null) return
      history.add(line)
      running = new AbortController()
      const outcome = await repl.line(line, AbortSignal.any([context.signal, running.signal]))
      running = null
      if (outcome === 'quit') return
    }
  } finally {
    terminal.close()
    await history.save().catch((error: unknown) => context.err(`moonmq: the history was not kept: ${String(error)}\n`))
  }
}

const FIRST_PROMPT = 'mq> '

function show(terminal: Interface, repl: Repl): void {
  terminal.setPrompt(repl.prompt)
  terminal.prompt()
}

/** Lines one by one: those that come while a statement runs, as when somebody pastes, wait for their turn. */
class Lines {
  readonly #waiting: string[] = []
  #closed = false
  #wake: (() => void) | null = null

  constructor(terminal: Interface) {
    terminal.on('line', (line) => {
      this.#waiting.push(line)
      this.#wake?.()
    })
    terminal.on('close', () => {
      this.#closed = true
      this.#wake?.()
    })
  }

  /** Null at the end of the input. */
  async next(): Promise<string | null> {
    while (this.#waiting.length === 0 && !this.#closed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    return this.#waiting.shift() ?? null
  }
}
