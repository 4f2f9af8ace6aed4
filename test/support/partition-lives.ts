import { NodeLoader, PreloadedLoader } from '../../src/io/loader.ts'
import { CODEC, Codecs } from '../../src/record/compression.ts'
import type { WorldOptions } from './partition-actors.ts'
import { PartitionWorld } from './partition-world.ts'
import type { Simulation } from './simulation.ts'

const modules = { snappyjs: await new NodeLoader().load('snappyjs') }
const codecs = new Codecs({ loader: new PreloadedLoader({}, modules) })
for (const codec of Object.values(CODEC)) await codecs.ready(codec)?.catch(() => {})

/** One history of a partition, to be run by `simulate`. `seen` is told what there was. */
export function partitionLife(
  options: WorldOptions,
  seen?: (counts: PartitionWorld['counts']) => void,
): (sim: Simulation) => Promise<void> {
  return async (sim) => {
    const world = new PartitionWorld(sim, options, codecs, modules)
    await world.run()
    seen?.(world.counts)
  }
}
