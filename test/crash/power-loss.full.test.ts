import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { variableOf } from '../../src/config/environment.ts'
import { BrokerProcess } from '../support/broker-process.ts'
import { SETTINGS } from '../support/failpoint-plan.ts'
import { Promises } from '../support/promises.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { noVolumes, SmallVolume } from '../support/small-volume.ts'

const ROUNDS = 5
const SIZE_MIB = 48
const env = Object.fromEntries(Object.entries(SETTINGS.kafka).map(([name, value]) => [variableOf(`kafka.${name}`), value]))
const skip = await noVolumes('ext4')

/**
 * The image below the file system holds what a disk would after a power cut: what was synced, and of the rest nothing that the kernel
 * was not made to write, since it writes by itself only after minutes. A copy of it is mounted, and the broker starts on that.
 */
test(`the power goes ${ROUNDS} times under ext4: everything acknowledged is on the image`, { skip }, async () => {
  const promises = new Promises()
  let volume = await SmallVolume.make('ext4', SIZE_MIB, 'commit=300')
  try {
    for (let round = 1; round <= ROUNDS; round++) {
      const dataDir = join(volume.path, 'data')
      let next: SmallVolume
      {
        await using broker = await BrokerProcess.start({ env, dataDir })
        using kafka = await RawKafka.connect(broker.address)
        await promises.begin(kafka)
        if (round > 1) await promises.check(kafka)
        await promises.work(kafka, 15 + round)
        await broker.kill()
        next = await SmallVolume.ofCopy(volume.image, 'commit=300')
      }
      await volume[Symbol.asyncDispose]()
      volume = next
      await anotherBoot(join(volume.path, 'data', 'moonmq.lock'))
    }
    await using broker = await BrokerProcess.start({ env, dataDir: join(volume.path, 'data') })
    using kafka = await RawKafka.connect(broker.address)
    await promises.check(kafka)
    await broker.kill()
  } finally {
    await volume[Symbol.asyncDispose]()
  }
})

/** The lock that was left is of another boot of the machine, as after a real cut. */
async function anotherBoot(lock: string): Promise<void> {
  const text = await readFile(lock, 'utf8')
  await writeFile(lock, text.replace(/^boot=.*$/m, 'boot=before-the-cut').replace(/^recovered=.*$/m, 'recovered=before-the-cut'))
}
