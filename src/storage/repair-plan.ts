import { MoonMQError } from '../core/errors.ts'
import { readInt64, writeInt64 } from '../core/int64.ts'
import { BATCH_HEADER_BYTES } from '../core/limits.ts'
import type { Disk, DiskFile } from '../io/disk.ts'
import { AT, BATCH_PREFIX_BYTES, type BatchHeader, codecOf, computeBatchCrc, MAGIC, nextOffset } from '../record/batch.ts'
import type { Codecs } from '../record/compression.ts'
import { recordsSection, validateRecords } from '../record/record.ts'
import { MAX_BATCH_BYTES } from './batch-rules.ts'
import type { BufferPool } from './buffer-pool.ts'
import { segmentFileName } from './files.ts'
import { type Walked, walkBatches } from './walk.ts'

/**
 * One thing that a repair does to the log files of a partition. Offsets are half-open: from, and below `toOffset`.
 *
 * - `header`: base offset, length, epoch or magic of a batch are wrong, its checksum fits and its neighbours tell what they were: nothing is lost.
 * - `drop`: bytes are taken out. Where offsets went with them, an empty batch takes their place, so that no later record moves.
 * - `fill`: records are missing at the end of a file; an empty batch takes their place.
 * - `cut`: the log ends here from now on.
 * - `set-aside`: the whole file lies behind the new end.
 * - `begin`: nothing is left; an empty log begins where the old one ended.
 */
export type LogRepair =
  | { readonly kind: 'header'; readonly file: string; readonly position: number; readonly bytes: Buffer; readonly reason: string }
  | {
      readonly kind: 'drop'
      readonly file: string
      readonly position: number
      readonly endPosition: number
      readonly fromOffset: number
      readonly toOffset: number
      readonly leaderEpoch: number
      readonly reason: string
    }
  | {
      readonly kind: 'fill'
      readonly file: string
      readonly fromOffset: number
      readonly toOffset: number
      readonly leaderEpoch: number
      readonly reason: string
    }
  | {
      readonly kind: 'cut'
      readonly file: string
      readonly position: number
      readonly endPosition: number
      readonly fromOffset: number
      readonly reason: string
    }
  | { readonly kind: 'set-aside'; readonly file: string; readonly reason: string }
  | { readonly kind: 'begin'; readonly baseOffset: number; readonly reason: string }

/** What to do about damage with whole batches behind it. */
export type MiddleChoice = 'gap' | 'cut'

export interface DiagnosisDeps {
  readonly disk: Disk
  readonly pool: BufferPool
  readonly codecs: Codecs
  /** Codecs whose package is missing: such batches are not looked into. */
  readonly missingCodecs: ReadonlySet<number>
}

export interface DiagnosisOptions {
  readonly folder: string
  /** First offsets of the segments, ascending. */
  readonly bases: readonly number[]
  /** Below it compaction may have left holes. */
  readonly holesBelow: number
  /** Everything below was acknowledged: the log must reach up to here, so that no offset is given twice. */
  readonly acknowledgedOffset: number
  readonly maxEpoch: number | null
  readonly middle: MiddleChoice
}

export interface Diagnosis {
  readonly steps: readonly LogRepair[]
  /** Damage with whole batches behind it, or below what was acknowledged: the choice of `middle` makes a difference. */
  readonly isMiddleDamaged: boolean
  readonly endOffset: number
}

/** Finds out what the log files of a partition need so that recovery takes them. Reads only. */
export async function diagnoseLog(deps: DiagnosisDeps, options: DiagnosisOptions): Promise<Diagnosis> {
  const diagnosis = new LogDiagnosis(deps, options)
  await diagnosis.run()
  return { steps: diagnosis.steps, isMiddleDamaged: diagnosis.isMiddleDamaged, endOffset: diagnosis.expected }
}

interface Damage {
  readonly position: number
  readonly endPosition: number
  readonly reason: string
  /** Offset after the damage where that is known without a batch behind it. */
  readonly nextOffset: number | null
}

class LogDiagnosis {
  readonly #deps: DiagnosisDeps
  readonly #options: DiagnosisOptions
  readonly steps: LogRepair[] = []
  isMiddleDamaged = false
  expected = 0
  #epoch = -1
  #isCut = false

  constructor(deps: DiagnosisDeps, options: DiagnosisOptions) {
    this.#deps = deps
    this.#options = options
  }

  async run(): Promise<void> {
    const { bases, acknowledgedOffset, middle } = this.#options
    const first = bases[0]
    if (first === undefined) {
      this.expected = acknowledgedOffset
      this.steps.push({ kind: 'begin', baseOffset: acknowledgedOffset, reason: 'there are no segments' })
      return
    }
    this.expected = first
    for (const [index, base] of bases.entries()) {
      const file = segmentFileName(base, 'log')
      if (this.#isCut) {
        this.steps.push({ kind: 'set-aside', file, reason: 'it lies behind the new end of the log' })
        continue
      }
      if (base > this.expected && base > this.#options.holesBelow) this.#fillBefore(index, base)
      if (this.#isCut) this.steps.push({ kind: 'set-aside', file, reason: 'it lies behind the new end of the log' })
      else await this.#segment(index, file)
    }
    if (this.expected < acknowledgedOffset && !this.#isCut && middle === 'gap') {
      const file = segmentFileName(bases[bases.length - 1] as number, 'log')
      this.isMiddleDamaged = true
      this.#fill(file, acknowledgedOffset, `everything below offset ${acknowledgedOffset} was acknowledged, the log ends before`)
    } else if (this.expected < acknowledgedOffset) this.isMiddleDamaged = true
  }

  /** Between two files. */
  #fillBefore(index: number, base: number): void {
    this.isMiddleDamaged = true
    const previous = segmentFileName(this.#options.bases[index - 1] as number, 'log')
    const reason = `${previous} ends at offset ${this.expected}, the next file begins at ${base}`
    if (this.#options.middle === 'cut') {
      this.#isCut = true
      return
    }
    this.#fill(previous, base, reason)
  }

  #fill(file: string, toOffset: number, reason: string): void {
    this.steps.push({ kind: 'fill', file, fromOffset: this.expected, toOffset, leaderEpoch: this.#epoch, reason })
    this.expected = toOffset
  }

  async #segment(index: number, name: string): Promise<void> {
    const { folder, bases, holesBelow, maxEpoch } = this.#options
    const base = bases[index] as number
    const file = await this.#deps.disk.open(`${folder}/${name}`, 'read')
    try {
      let damage = null as Damage | null
      const minOffset = Math.max(base, this.expected)
      this.expected = minOffset
      const request = { from: 0, to: file.sizeBytes, minOffset, holesBelow, maxEpoch }
      for await (const step of walkBatches(file, this.#deps.pool, request)) {
        const found: Damage | 'restored' | null =
          step.kind === 'batch' ? this.#recordFault(step) : await this.#judge(file, name, index, step, damage !== null)
        if (found === 'restored') continue
        if (found !== null) {
          damage = damage === null ? found : { ...damage, endPosition: found.endPosition, nextOffset: found.nextOffset }
          continue
        }
        const { header } = step as Extract<Walked, { kind: 'batch' }>
        if (damage !== null) this.#drop(file, name, damage, header.baseOffset)
        if (this.#isCut) return
        damage = null
        this.expected = nextOffset(header)
        this.#epoch = header.leaderEpoch
      }
      if (damage !== null) this.#endDamage(file, name, index, damage)
    } finally {
      await file.close()
    }
  }

  /** Damage that reaches to the end of its file. */
  #endDamage(file: DiskFile, name: string, index: number, damage: Damage): void {
    const next = this.#options.bases[index + 1] ?? damage.nextOffset
    if (next !== null && next >= this.expected) this.#drop(file, name, damage, next)
    else {
      const { position, reason } = damage
      this.steps.push({ kind: 'cut', file: name, position, endPosition: file.sizeBytes, fromOffset: this.expected, reason })
    }
  }

  /** Offsets up to `toOffset` went with the damaged bytes; or, where that was chosen, everything from the damage on. */
  #drop(file: DiskFile, name: string, damage: Damage, toOffset: number): void {
    this.isMiddleDamaged = true
    const { position, endPosition, reason } = damage
    if (this.#options.middle === 'cut') {
      this.steps.push({ kind: 'cut', file: name, position, endPosition: file.sizeBytes, fromOffset: this.expected, reason })
      this.#isCut = true
      return
    }
    const fromOffset = this.expected
    this.steps.push({ kind: 'drop', file: name, position, endPosition, fromOffset, toOffset, leaderEpoch: this.#epoch, reason })
    this.expected = toOffset
  }

  /** A batch whose checksum fits and whose records cannot be walked: a consumer would stop at it for ever. */
  #recordFault({ header, position, bytes, at }: Extract<Walked, { kind: 'batch' }>): Damage | null {
    if (this.#deps.missingCodecs.has(codecOf(header)) || header.recordCount === 0) return null
    try {
      const section = this.#deps.codecs.inflate(codecOf(header), recordsSection(bytes, at, header))
      validateRecords(section, header, { dense: nextOffset(header) > this.#options.holesBelow })
      return null
    } catch (error) {
      if (!(error instanceof MoonMQError)) throw error
      return { position, endPosition: position + header.sizeBytes, reason: error.message, nextOffset: nextOffset(header) }
    }
  }

  /** Whether the damage is only in what the checksum does not cover; then the step that restores it is noted. */
  async #judge(
    file: DiskFile,
    name: string,
    index: number,
    step: Extract<Walked, { kind: 'damage' }>,
    isBehindDamage: boolean,
  ): Promise<Damage | 'restored'> {
    const { position, endPosition, reason } = step
    const damage: Damage = { position, endPosition, reason, nextOffset: null }
    if (isBehindDamage || this.expected < this.#options.holesBelow) return damage
    const restored = await this.#restoredHeader(file, index, step)
    if (restored === null) return damage
    this.steps.push({ kind: 'header', file: name, position, bytes: restored.bytes, reason })
    this.expected = nextOffset(restored.header)
    this.#epoch = restored.header.leaderEpoch
    return 'restored'
  }

  /**
   * The 17 bytes before the checksum as they must have been. The batch must reach up to what lies behind it, in bytes and in offsets:
   * two witnesses that do not depend on the damaged fields.
   */
  async #restoredHeader(
    file: DiskFile,
    index: number,
    { position, endPosition, hasBatchesBehind }: Extract<Walked, { kind: 'damage' }>,
  ): Promise<{ bytes: Buffer; header: Pick<BatchHeader, 'baseOffset' | 'lastOffsetDelta' | 'leaderEpoch'> & BatchHeader } | null> {
    const sizeBytes = endPosition - position
    if (sizeBytes < BATCH_HEADER_BYTES || sizeBytes > MAX_BATCH_BYTES) return null
    const batch = Buffer.alloc(sizeBytes)
    if ((await file.read(batch, position)) !== sizeBytes) return null
    if (computeBatchCrc(batch, 0, sizeBytes) !== batch.readUInt32BE(AT.crc)) return null
    const lastOffsetDelta = batch.readInt32BE(AT.lastOffsetDelta)
    const recordCount = batch.readInt32BE(AT.recordCount)
    if (lastOffsetDelta < 0 || recordCount !== lastOffsetDelta + 1) return null
    const behind = hasBatchesBehind ? await offsetAt(file, endPosition) : (this.#options.bases[index + 1] ?? null)
    if (behind !== null && behind !== this.expected + lastOffsetDelta + 1) return null
    const leaderEpoch = this.#plausibleEpoch(batch.readInt32BE(AT.leaderEpoch))
    writeInt64(batch, this.expected, AT.baseOffset)
    batch.writeInt32BE(sizeBytes - BATCH_PREFIX_BYTES, AT.batchLength)
    batch.writeInt32BE(leaderEpoch, AT.leaderEpoch)
    batch.writeInt8(MAGIC, AT.magic)
    const header = { baseOffset: this.expected, lastOffsetDelta, leaderEpoch } as BatchHeader
    return { bytes: Buffer.from(batch.subarray(0, AT.crc)), header }
  }

  #plausibleEpoch(stored: number): number {
    const { maxEpoch } = this.#options
    return stored >= this.#epoch && (maxEpoch === null || stored <= maxEpoch) ? stored : Math.max(this.#epoch, 0)
  }
}

async function offsetAt(file: DiskFile, position: number): Promise<number> {
  const bytes = Buffer.alloc(8)
  await file.read(bytes, position)
  return readInt64(bytes, 0)
}
