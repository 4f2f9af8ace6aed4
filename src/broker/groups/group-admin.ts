import type { Clock } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { inTurns } from '../../core/in-turns.ts'
import type { MetadataImage } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import type { GroupDescription, GroupListing, InspectedGroup } from '../ports.ts'
import { describeGroup, describeMissing, inspectGroup, listGroup } from './describe.ts'
import type { GroupTable } from './group-table.ts'
import type { GroupKindRules } from './machine.ts'

/** Listing, describing and deleting groups of any kind. */
export class GroupAdmin {
  readonly #clock: Clock
  readonly #table: GroupTable
  readonly #kinds: readonly GroupKindRules[]
  readonly #image: () => MetadataImage

  constructor(deps: { clock: Clock; table: GroupTable; kinds: readonly GroupKindRules[]; image: () => MetadataImage }) {
    this.#image = deps.image
    this.#clock = deps.clock
    this.#kinds = deps.kinds
    this.#table = deps.table
  }

  async describe(_context: RequestContext, groups: readonly string[]): Promise<readonly GroupDescription[]> {
    return await inTurns(this.#clock, groups, (group) => {
      try {
        const entry = this.#table.ready(group, true).groups.get(group)
        if (entry === undefined) return describeMissing(group, new MoonMQError('GROUP_MISSING', { group }))
        return describeGroup(entry.machine, this.#image())
      } catch (error) {
        return describeMissing(group, asMoonMQError(error))
      }
    })
  }

  async list(
    _context: RequestContext,
    filter: { states: readonly string[]; kinds: readonly string[] },
  ): Promise<{ readonly groups: readonly GroupListing[]; readonly loading: boolean }> {
    const states = new Set(filter.states.map((state) => state.toLowerCase()))
    const kinds = new Set(filter.kinds.map((kind) => kind.toLowerCase()))
    const groups: GroupListing[] = []
    for (const shard of this.#table.shards) {
      for (const { machine } of shard.groups.values()) {
        const listing = listGroup(machine)
        if (states.size > 0 && !states.has(listing.state.toLowerCase())) continue
        if (kinds.size > 0 && !kinds.has(listing.kind)) continue
        groups.push(listing)
      }
    }
    return { groups, loading: this.#table.shards.some((shard) => shard.state === 'idle' || shard.state === 'loading') }
  }

  async inspect(_context: RequestContext, group: string): Promise<InspectedGroup> {
    const shard = this.#table.ready(group, true)
    const entry = shard.groups.get(group)
    if (entry === undefined) throw new MoonMQError('GROUP_MISSING', { group })
    // Nobody is shown an offset that a power cut can take back.
    await shard.whenDurable(entry)
    return inspectGroup(entry, this.#image())
  }

  async delete(_context: RequestContext, groups: readonly string[]): Promise<readonly (MoonMQError | null)[]> {
    return await inTurns(this.#clock, groups, async (group) => {
      try {
        await this.#delete(group)
        return null
      } catch (error) {
        return asMoonMQError(error)
      }
    })
  }

  async #delete(group: string): Promise<void> {
    const shard = this.#table.ready(group, true)
    const entry = shard.groups.get(group)
    if (entry === undefined) throw new MoonMQError('GROUP_MISSING', { group })
    if (entry.machine.state !== 'Empty') throw new MoonMQError('GROUP_NOT_EMPTY', { group })
    const cleared = this.#kinds.find(({ kind }) => kind === entry.machine.kind)?.cleared?.(group)
    if (cleared !== undefined) {
      await cleared
      if (shard.groups.get(group) !== entry) throw new MoonMQError('COORDINATOR_NOT_AVAILABLE', { group })
      if (entry.machine.state !== 'Empty') throw new MoonMQError('GROUP_NOT_EMPTY', { group })
    }
    shard.deleteOffsets(entry, entry.offsets.entries(), 'the group was deleted')
    if (shard.groups.get(group) === entry) shard.remove(entry, 'the group was deleted')
    shard.checkReady(group)
    await shard.whenDurable(entry)
  }
}
