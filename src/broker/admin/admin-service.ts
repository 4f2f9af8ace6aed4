import { MoonMQError } from '../../core/errors.ts'
import type { LogLevel, LogLevels } from '../../core/logger.ts'
import { setFeatures } from '../../metadata/plans.ts'
import type { Metadata, MetadataImage } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import { featureLevel, findFeature } from '../features.ts'
import type { LogSource } from '../log-source.ts'
import type { AdminPort, FeatureUpdate, LogFolder, PartitionSize } from '../ports.ts'
import type { Partitions } from '../topics/partitions.ts'

export interface AdminDeps {
  readonly metadata: Metadata
  readonly logs: LogSource
  readonly partitions: Partitions
  /** Null: the log belongs to the program that the broker is a part of. */
  readonly logLevels: LogLevels | null
}

/** The one logger that there is, by Kafka's name for the one above all others. */
const ROOT = 'root'

/** What operators ask of the broker as a whole. */
export class AdminService implements AdminPort {
  readonly #metadata: Metadata
  readonly #logs: LogSource
  readonly #partitions: Partitions
  readonly #logLevels: LogLevels | null

  constructor(deps: AdminDeps) {
    this.#metadata = deps.metadata
    this.#logs = deps.logs
    this.#partitions = deps.partitions
    this.#logLevels = deps.logLevels
  }

  async updateFeatures(_context: RequestContext, updates: readonly FeatureUpdate[], options?: { validateOnly?: boolean }): Promise<void> {
    const plan = (image: MetadataImage) => {
      const levels = new Map<string, number>()
      for (const update of updates) {
        checkUpdate(image, update)
        levels.set(update.name, update.level)
      }
      return { records: setFeatures(levels), result: undefined }
    }
    if (options?.validateOnly === true) plan(this.#metadata.image)
    else await this.#metadata.change(plan)
  }

  get metadataEpoch(): number {
    return this.#metadata.epoch
  }

  get folder(): string {
    return this.#logs.folder
  }

  async describeFolder(_context: RequestContext): Promise<LogFolder> {
    const { freeBytes, totalBytes } = await this.#logs.space()
    return { path: this.#logs.folder, freeBytes, totalBytes }
  }

  sizes(_context: RequestContext, topic: string): readonly PartitionSize[] {
    const served = this.#partitions.topic(topic)
    if (served === undefined || served.settings.inMemory) return []
    const sizes: PartitionSize[] = []
    for (const { partition, log } of served.partitions) if (log !== undefined) sizes.push({ partition, sizeBytes: log.sizeBytes })
    return sizes
  }

  get logLevels(): ReadonlyMap<string, string> {
    return new Map(this.#logLevels === null ? [] : [[ROOT, this.#logLevels.level.toUpperCase()]])
  }

  setLogLevel(_context: RequestContext, logger: string, level: string, options?: { validateOnly?: boolean }): void {
    if (this.#logLevels === null || logger !== ROOT) {
      throw new MoonMQError('CONFIG_INVALID', { key: logger, value: level, reason: `there is no such logger; there is ${ROOT}` })
    }
    const known = LEVELS.get(level.toUpperCase())
    if (known === undefined) {
      throw new MoonMQError('CONFIG_INVALID', { key: logger, value: level, reason: `levels are ${[...LEVELS.keys()].join(', ')}` })
    }
    if (options?.validateOnly !== true) this.#logLevels.level = known
  }
}

/** Kafka's levels, with ours: there is nothing below debug and nothing above error. */
const LEVELS: ReadonlyMap<string, LogLevel> = new Map([
  ['TRACE', 'debug'],
  ['DEBUG', 'debug'],
  ['INFO', 'info'],
  ['WARN', 'warn'],
  ['ERROR', 'error'],
  ['FATAL', 'error'],
])

/** Throws FEATURE_UPDATE_REFUSED. Going down needs to be said; there is no level yet whose loss would cost data. */
function checkUpdate(image: MetadataImage, { name, level, kind }: FeatureUpdate): void {
  const refused = (reason: string) => new MoonMQError('FEATURE_UPDATE_REFUSED', { feature: name, level, reason })
  const feature = findFeature(name)
  if (feature === undefined) throw refused('there is no such feature')
  if (level < feature.min || level > feature.max) throw refused(`levels ${feature.min} to ${feature.max} are possible`)
  if (kind === 'unknown') throw refused('this type of upgrade is not known')
  if (kind === 'upgrade' && level < featureLevel(image, feature.name)) throw refused('it is a downgrade, and was not asked for as one')
}
