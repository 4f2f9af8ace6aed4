import { Backoff } from '../../core/backoff.ts'
import { type Clock, sleep } from '../../core/clock.ts'
import { asMoonMQError, isCode, MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import type { Random } from '../../core/random.ts'
import type { TopicPartition } from '../../core/types.ts'
import { readBatchHeader } from '../../record/batch.ts'
import { buildEndTxnMarker, type EndTxnMarker } from '../../record/control.ts'
import { INTERNAL_CONTEXT } from '../context.ts'
import { CONSUMER_OFFSETS } from '../internal-topics.ts'
import { leaderEpochOf, type Partitions } from '../topics/partitions.ts'
import type { PendingCommits } from './pending-commits.ts'

export interface MarkersDeps {
  readonly partitions: Partitions
  readonly commits: PendingCommits
  readonly clock: Clock
  readonly random: Random
  readonly log: Logger
}

/** Writes the markers that end a transaction, each into the log that holds records of it. */
export class Markers {
  readonly #deps: MarkersDeps

  constructor(deps: MarkersDeps) {
    this.#deps = deps
  }

  /** Tries until the marker is durable or the partition is gone. Rejects with ABORTED when `signal` fires first. */
  async writeUntilDone(to: TopicPartition, marker: EndTxnMarker, signal: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#deps
    const retry = new Backoff(random, { initialMs: 50, maxMs: 5000 })
    for (;;) {
      if (signal.aborted) throw new MoonMQError('ABORTED')
      try {
        await this.write(to, marker)
        return
      } catch (error) {
        // Nobody is left to be told.
        if (isCode(error, 'TOPIC_MISSING') || isCode(error, 'PARTITION_MISSING')) return
        const delayMs = retry.nextMs()
        const level = retry.attempts === 1 ? 'warn' : 'debug'
        const text = `the end of a transaction of producer ${marker.producerId} is not in ${to.topic}-${to.partition} yet: ${asMoonMQError(error).message}`
        log[level]('transaction.marker_delayed', text, { topic: to.topic, partition: to.partition, retryInMs: Math.round(delayMs) })
        await sleep(clock, delayMs, signal)
      }
    }
  }

  /** Once. Resolves when the marker is durable. Throws TOPIC_MISSING, PARTITION_MISSING, STORAGE_FAILED, COORDINATOR_NOT_AVAILABLE. */
  async write({ topic, partition }: TopicPartition, marker: EndTxnMarker): Promise<void> {
    if (topic === CONSUMER_OFFSETS) {
      await this.#deps.commits.endTransaction(partition, marker)
      return
    }
    const { partitions } = this.#deps
    for (;;) {
      const served = partitions.forClient(INTERNAL_CONTEXT, topic, partition)
      const room = served.log.ready()
      if (room !== undefined) {
        await room
        continue
      }
      const batch = buildEndTxnMarker(marker)
      const { lastOffset } = served.log.append(batch, readBatchHeader(batch), { leaderEpoch: leaderEpochOf(served) })
      await served.log.whenDurable(lastOffset + 1)
      return
    }
  }
}
