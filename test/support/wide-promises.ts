import assert from 'node:assert/strict'
import { createTopic } from './promises.ts'
import type { RawKafka } from './raw-kafka.ts'

const WIDE = 'wide'
/** Twice as many as must wait at the same time to be made durable by the journal. */
const PARTITIONS = 16

/**
 * Work that the journal is for: each request has a record for every partition of a topic. What was acknowledged of it must be there, where
 * it stands, whether a kill left it in the files or in the journal alone.
 */
export class WidePromises {
  readonly #acked: Map<number, string>[] = Array.from({ length: PARTITIONS }, () => new Map())
  #turn = 0
  #isWanted = false

  /** Creates the topic; one that was asked for and not answered is asked for again. */
  async begin(kafka: RawKafka): Promise<void> {
    this.#isWanted = true
    await createTopic(kafka, WIDE, PARTITIONS, { 'cleanup.policy': 'delete', 'retention.ms': '-1' })
  }

  /** `turns` requests, each value with `paddingBytes`. Rejects with what a request met when the broker ended. */
  async work(kafka: RawKafka, turns: number, paddingBytes: number): Promise<void> {
    for (let turn = 0; turn < turns; turn++) {
      const number = ++this.#turn
      const values = this.#acked.map((_, partition) => `${number} of ${partition} ${'.'.repeat(paddingBytes)}`)
      const answers = await kafka.produceWide(WIDE, values)
      for (const { index, errorCode, baseOffset } of answers) {
        if (errorCode === 0) this.#acked[index]?.set(baseOffset, values[index] as string)
      }
    }
  }

  /** Throws naming what was promised and is not there. */
  async check(kafka: RawKafka): Promise<void> {
    if (!this.#isWanted) return
    await this.begin(kafka)
    for (const [partition, acked] of this.#acked.entries()) {
      const read = await kafka.readAll(WIDE, partition)
      const values = new Map(read.map(({ offset, value }) => [offset, value]))
      // Values may be long: the first bytes of one name it.
      for (const [offset, value] of acked) {
        const found = values.get(offset)
        assert.ok(found === value, `${WIDE}-${partition} at ${offset}: ${found?.slice(0, 20)}, promised ${value.slice(0, 20)}`)
      }
      assert.equal(new Set(values.values()).size, read.length, `a record of ${WIDE}-${partition} stands twice`)
    }
  }
}
