import { VirtualClock } from '../../src/core/virtual-clock.ts'
import { MemoryDisk } from '../../src/io/memory-disk.ts'
import { diskContract } from './disk.ts'

for (const tracksDurability of [true, false]) {
  diskContract(`MemoryDisk, durability ${tracksDurability ? '' : 'not '}tracked`, async () => {
    const disk = new MemoryDisk({ clock: new VirtualClock() }, { tracksDurability })
    await disk.makeDirectory('/base')
    return { disk, base: '/base', close: async () => {} }
  })
}
