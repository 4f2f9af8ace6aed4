import { SystemClock } from '../../src/core/clock.ts'
import { SeededRandom } from '../../src/core/random.ts'
import { AT_ONCE } from '../../src/io/completions.ts'
import { VirtualNet } from '../../src/io/virtual-net.ts'
import { netContract } from './net.ts'

const clock = new SystemClock()
netContract('VirtualNet', (options) => new VirtualNet({ clock }, options))
netContract('VirtualNet in microtasks, cut at any byte', (options) => {
  return new VirtualNet({ clock, completions: AT_ONCE, random: new SeededRandom(1) }, options)
})
