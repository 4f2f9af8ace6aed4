import { join } from 'node:path'
import { test } from 'node:test'
import { BrokerProcess } from '../support/broker-process.ts'
import { fillAndFree } from '../support/full-disk.ts'
import { noVolumes, SmallVolume, type VolumeKind } from '../support/small-volume.ts'

const SIZE_MIB = 16

for (const kind of ['tmpfs', 'ext4'] satisfies VolumeKind[]) {
  const skip = await noVolumes(kind)
  test(`O29: ${SIZE_MIB} MiB of ${kind} are filled: only records are refused, a topic is deleted, it goes on; a start on the full disk deletes nothing`, {
    skip,
  }, async () => {
    await using volume = await SmallVolume.make(kind, SIZE_MIB)
    await using broker = await BrokerProcess.start({
      dataDir: join(volume.path, 'data'),
      env: { MOONMQ_KAFKA__OFFSETS_TOPIC_NUM_PARTITIONS: '2' },
    })
    await fillAndFree({
      address: () => broker.address,
      freeBytes: () => volume.freeBytes(),
      async crash() {
        await broker.kill()
        await broker.start()
      },
    })
    await broker.kill()
  })
}
