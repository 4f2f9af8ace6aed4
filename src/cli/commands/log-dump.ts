import { basename, dirname, resolve } from 'node:path'
import type { Disk, DiskFile } from '../../io/disk.ts'
import { codecOf, lastOffset } from '../../record/batch.ts'
import { Codecs } from '../../record/compression.ts'
import { DEFAULT_POOL_SIZE, thisMachine } from '../../server/machine.ts'
import { BufferPool } from '../../storage/buffer-pool.ts'
import { parsePartitionFolderName, parseSegmentFileName, segmentFileName } from '../../storage/files.ts'
import { walkBatches } from '../../storage/walk.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { batchLine, faultOf, recordLines, type ShowOptions } from '../dump/batches.ts'
import { DECODINGS, decodingOf } from '../dump/decode.ts'
import { sideFileKind, sideFileLines } from '../dump/side-files.ts'
import { styled } from '../output.ts'
import { parseWhole } from '../parse.ts'

export interface LogDumpOptions {
  readonly data: string
  readonly batches?: boolean
  readonly json?: boolean
  readonly hex?: boolean
  readonly from?: string
  readonly to?: string
  readonly max?: string
  readonly maxValueBytes: string
  readonly decode: string
  readonly sideFiles?: boolean
}

/** Prints what files of a log hold. Reads only; a running broker does not mind. Exit 1 when something in them is damaged. */
export async function logDump(context: CliContext, what: readonly string[], options: LogDumpOptions): Promise<number> {
  const machine = thisMachine({ poolSize: DEFAULT_POOL_SIZE, memoryBytes: null })
  const decode = Object.hasOwn(DECODINGS, options.decode) ? DECODINGS[options.decode] : undefined
  if (decode === undefined) throw new UsageError(`--decode ${options.decode}: expected one of ${Object.keys(DECODINGS).join(', ')}`)
  const show: Omit<ShowOptions, 'decoding'> = {
    json: options.json === true,
    batches: options.batches === true,
    form: options.hex === true ? 'hex' : 'text',
    maxValueBytes: parseWhole(options.maxValueBytes, '--max-value-bytes', 1),
    from: options.from === undefined ? 0 : parseWhole(options.from, '--from'),
    to: options.to === undefined ? Number.POSITIVE_INFINITY : parseWhole(options.to, '--to'),
  }
  const left = options.max === undefined ? Number.POSITIVE_INFINITY : parseWhole(options.max, '--max')
  const codecs = new Codecs({ loader: machine.loader })
  const dump = new Dump(context, { disk: machine.disk, codecs, pool: new BufferPool({ maxKeptBytes: 16 * 1024 * 1024 }) }, left)
  let code: number = EXIT.done
  for (const each of what) {
    if (dump.isDone || context.signal.aborted) break
    const found = await locate(context, machine.disk, each, options.data)
    if (found === null) {
      context.err(`moonmq: there is no file or folder ${each}, and no partition ${each} in ${resolve(context.cwd, options.data)}\n`)
      code = EXIT.notFound
      continue
    }
    for (const path of await filesOf(machine.disk, found, show, options.sideFiles === true)) {
      const topic = parsePartitionFolderName(basename(dirname(path)))?.topic ?? null
      await dump.file(path, { ...show, decoding: decode === 'auto' ? decodingOf(topic) : decode })
      if (dump.isDone || context.signal.aborted) break
    }
  }
  if (context.signal.aborted) return EXIT.interrupted
  return code === EXIT.done && dump.faults > 0 ? EXIT.failed : code
}

async function locate(context: CliContext, disk: Disk, what: string, data: string): Promise<string | null> {
  for (const path of [resolve(context.cwd, what), resolve(context.cwd, data, what)]) if ((await disk.stat(path)) !== null) return path
  return null
}

/** The files to dump, in the order of their offsets: of a partition's folder the logs that reach into the range. */
async function filesOf(disk: Disk, path: string, range: { from: number; to: number }, sideFiles: boolean): Promise<string[]> {
  if ((await disk.stat(path))?.kind === 'file') return [path]
  const names = (await disk.list(path)).filter((entry) => entry.kind === 'file').map((entry) => entry.name)
  const bases = names.flatMap((name) => {
    const parsed = parseSegmentFileName(name)
    return parsed?.kind === 'log' ? [parsed.baseOffset] : []
  })
  if (bases.length === 0) {
    const partitions = (await disk.list(path)).filter((entry) => parsePartitionFolderName(entry.name) !== null).map((entry) => entry.name)
    const which =
      partitions.length === 0 ? '' : `; it holds the partitions ${partitions.slice(0, 10).join(' ')}${partitions.length > 10 ? ' …' : ''}`
    throw new UsageError(`${path} is no folder of a partition${which}`)
  }
  const logs = bases
    .filter((base, index) => base < range.to && (bases[index + 1] ?? Number.POSITIVE_INFINITY) > range.from)
    .map((base) => segmentFileName(base, 'log'))
  const others = sideFiles ? names.filter((name) => sideFileKind(name) !== null || name.endsWith('.checkpoint')) : []
  return [...logs, ...others].map((name) => `${path}/${name}`)
}

/** Prints file after file and keeps count of what was shown and what was damaged. */
class Dump {
  readonly #context: CliContext
  readonly #deps: { readonly disk: Disk; readonly codecs: Codecs; readonly pool: BufferPool }
  #left: number
  faults = 0

  constructor(context: CliContext, deps: { disk: Disk; codecs: Codecs; pool: BufferPool }, left: number) {
    this.#context = context
    this.#deps = deps
    this.#left = left
  }

  /** As much as was asked for was shown. */
  get isDone(): boolean {
    return this.#left <= 0
  }

  async file(path: string, options: ShowOptions): Promise<void> {
    if (!options.json) this.#context.out(`${styled(this.#context, 'bold', path)}\n`)
    const name = basename(path)
    const kind = sideFileKind(name)
    if (kind !== null) return this.#sideFile(path, kind, options)
    if (parseSegmentFileName(name) === null && !name.endsWith('.checkpoint') && !/\.log(\.|$)|\.cut-/.test(name)) {
      throw new UsageError(`${path}: a file of this name is none that a dump can read`)
    }
    const file = await this.#deps.disk.open(path, 'read')
    try {
      await this.#log(file, path, options)
    } finally {
      await file.close()
    }
  }

  async #sideFile(path: string, kind: NonNullable<ReturnType<typeof sideFileKind>>, options: ShowOptions): Promise<void> {
    for await (const line of sideFileLines(this.#deps.disk, path, kind)) {
      if ('fault' in line) this.#fault(path, line.fault.position, line.fault.reason, options)
      else if (!(await this.#print(options.json ? JSON.stringify({ file: path, ...line.json }) : line.text))) return
    }
  }

  async #log(file: DiskFile, path: string, options: ShowOptions): Promise<void> {
    const { pool } = this.#deps
    const baseOffset = parseSegmentFileName(basename(path))?.baseOffset ?? 0
    let expected = baseOffset
    for await (const step of walkBatches(file, pool, {
      from: 0,
      to: file.sizeBytes,
      minOffset: baseOffset,
      holesBelow: Number.POSITIVE_INFINITY,
    })) {
      if (this.#context.signal.aborted) return
      if (step.kind === 'damage') {
        const behind = step.hasBatchesBehind ? `the next whole batch begins at byte ${step.endPosition}` : 'no whole batch follows'
        const size = step.endPosition - step.position
        this.#fault(path, step.position, `${step.reason}; ${size} bytes are no batch, ${behind}`, options)
        continue
      }
      const { header } = step
      if (header.baseOffset > expected && lastOffset(header) >= options.from) this.#gap(path, expected, header.baseOffset - 1, options)
      expected = lastOffset(header) + 1
      if (header.baseOffset >= options.to) return
      if (lastOffset(header) < options.from) continue
      const place = { file: path, position: step.position }
      if (options.batches) {
        if (!(await this.#print(batchLine(header, place, options.json)))) return
        continue
      }
      try {
        await this.#deps.codecs.ready(codecOf(header))
        for (const line of recordLines(header, step, place, this.#deps.codecs, options)) if (!(await this.#print(line))) return
      } catch (error) {
        this.#fault(path, step.position, `the records of offsets ${header.baseOffset} to ${lastOffset(header)}: ${faultOf(error)}`, options)
      }
    }
  }

  /** False when no more may be shown. Waits while the reader of the output does not keep up. */
  async #print(line: string): Promise<boolean> {
    if (this.#left <= 0) return false
    this.#left--
    this.#context.out(`${line}\n`)
    await this.#context.drained?.()
    return this.#left > 0
  }

  #gap(path: string, from: number, to: number, { json }: ShowOptions): void {
    const text = `no batch has the offsets ${from} to ${to}`
    this.#context.out(
      json
        ? `${JSON.stringify({ kind: 'gap', file: path, fromOffset: from, toOffset: to })}\n`
        : `${styled(this.#context, 'dim', `-- ${text}`)}\n`,
    )
  }

  #fault(path: string, position: number | null, reason: string, { json }: ShowOptions): void {
    this.faults++
    const where = position === null ? '' : ` at byte ${position}`
    if (json) this.#context.out(`${JSON.stringify({ kind: 'damage', file: path, position, reason })}\n`)
    else this.#context.out(`${styled(this.#context, 'red', `!! damaged${where}`)}: ${reason}\n`)
  }
}
