import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import type { Acked, ProduceAcks, Producer, RecordToSend } from '../../client/types.ts'
import { asMoonMQError } from '../../core/errors.ts'
import { type ConnectOptions, withClient } from '../connect.ts'
import { type CliContext, EXIT, exitCode, hintFor, UsageError } from '../context.ts'
import { counted, printJson } from '../output.ts'
import { parseWhole } from '../parse.ts'
import { type LineFormat, parseLine } from '../records-in.ts'

export interface ProduceOptions extends ConnectOptions {
  readonly key?: string
  readonly partition?: string
  readonly header: readonly string[]
  readonly file?: string
  readonly acks: string
  readonly separator: string
  readonly raw?: boolean
  readonly jsonInput?: boolean
  readonly json?: boolean
  readonly quiet?: boolean
  /** Opens the file of `--file`; given by the program. */
  readonly openFile: (path: string) => Readable
}

/** Lines that may wait for their acks: reading goes on only below it. */
const MAX_UNACKED = 10_000

export function produce(context: CliContext, topic: string, values: readonly string[], options: ProduceOptions): Promise<number> {
  const format: LineFormat = { json: options.jsonInput === true, raw: options.raw === true, separator: options.separator }
  const common = commonFields(options)
  if (values.length > 0 && options.file !== undefined) throw new UsageError('give records as arguments or by --file, not both')
  const acks = parseAcks(options.acks)
  return withClient(context, options, async (client) => {
    await using producer = client.producer({ acks })
    const run = new Run(context, topic, producer, options)
    if (values.length > 0) {
      for (const value of values) await run.send({ ...parseLine(value, format), ...common })
    } else {
      if (options.file === undefined && context.stdinIsTerminal) context.err('one record a line, key:value or JSON; end with Ctrl-D\n')
      const input = options.file === undefined ? context.stdin : options.openFile(options.file)
      for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
        if (line !== '') await run.send({ ...parseLine(line, format), ...common })
      }
    }
    return run.finish()
  })
}

function commonFields(options: ProduceOptions): Partial<RecordToSend> {
  const headers = options.header.map((pair) => {
    const at = pair.indexOf(':')
    if (at <= 0) throw new UsageError(`--header ${pair}: expected NAME:VALUE`)
    return { key: pair.slice(0, at), value: pair.slice(at + 1) }
  })
  return {
    ...(options.key === undefined ? {} : { key: options.key }),
    ...(options.partition === undefined ? {} : { partition: parseWhole(options.partition, '--partition') }),
    ...(headers.length === 0 ? {} : { headers }),
  }
}

function parseAcks(text: string): ProduceAcks {
  const names: Record<string, ProduceAcks> = { none: 'none', leader: 'leader', all: 'all', '0': 'none', '1': 'leader', '-1': 'all' }
  const acks = names[text]
  if (acks === undefined) throw new UsageError(`--acks ${text}: expected none, leader or all`)
  return acks
}

/** Sends with many records under way and reports each in the order given. */
class Run {
  readonly #context: CliContext
  readonly #topic: string
  readonly #producer: Producer
  readonly #options: ProduceOptions
  readonly #waiting: Promise<void>[] = []
  #acked = 0
  /** Exit code of the first record that was refused. */
  #failed: number = EXIT.done
  #refusedCount = 0
  /** What the last refused record was told, said once for all that follow with the same. */
  #lastRefusal = ''
  readonly #partitions = new Set<number>()

  constructor(context: CliContext, topic: string, producer: Producer, options: ProduceOptions) {
    this.#context = context
    this.#topic = topic
    this.#producer = producer
    this.#options = options
  }

  async send(record: RecordToSend): Promise<void> {
    this.#waiting.push(
      this.#producer.send(this.#topic, record).then(
        (acked) => this.#report(acked),
        (error: unknown) => this.#refused(error),
      ),
    )
    if (this.#waiting.length >= MAX_UNACKED) await Promise.all(this.#waiting.splice(0))
  }

  async finish(): Promise<number> {
    await Promise.all(this.#waiting)
    if (!this.#options.json && !this.#options.quiet && this.#acked > 1) {
      this.#context.err(`${counted(this.#acked, 'record')} in ${counted(this.#partitions.size, 'partition')} of ${this.#topic}\n`)
    }
    const refused = this.#refusedCount
    if (refused > 1) {
      this.#context.err(`moonmq: ${counted(refused, 'record')} of ${refused + this.#acked} not written, ${this.#acked} written\n`)
    }
    return this.#failed
  }

  #report(acked: Acked): void {
    this.#acked++
    this.#partitions.add(acked.partition)
    if (this.#options.quiet) return
    if (this.#options.json) printJson(this.#context, { topic: this.#topic, partition: acked.partition, offset: acked.offset })
    else this.#context.out(`${this.#topic} partition ${acked.partition} offset ${acked.offset}\n`)
  }

  #refused(error: unknown): void {
    const { code, message } = asMoonMQError(error)
    if (this.#options.json) printJson(this.#context, { topic: this.#topic, error: code, message })
    if (this.#failed === EXIT.done) this.#failed = exitCode(code)
    this.#refusedCount++
    const refusal = `not written: ${message} (${code})`
    if (refusal === this.#lastRefusal) return
    this.#lastRefusal = refusal
    this.#context.err(`moonmq: ${refusal}\n${hintFor(code)}`)
  }
}
