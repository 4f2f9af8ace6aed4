import { MoonMQError } from '../../core/errors.ts'
import type { Logger } from '../../core/logger.ts'
import { allocateProducerIds } from '../../metadata/plans.ts'
import type { Metadata } from '../../metadata/types.ts'
import type { RequestContext } from '../context.ts'
import type { ProducerPort } from '../ports.ts'

/** Ids left when the next block is asked for, so that nobody waits for the sync of its record. */
const RESERVE_BELOW = 500
/** The largest id that every protocol and the API can carry (DESIGN D12). */
const LAST_ID = Number.MAX_SAFE_INTEGER

interface Block {
  next: number
  readonly end: number
}

/**
 * Producer ids from blocks that are records of the metadata log: a block is used only when its record is durable, and what a crash
 * leaves of it is never given again.
 */
export class ProducerIds implements ProducerPort {
  readonly #metadata: Metadata
  readonly #log: Logger
  readonly #nodeId: number
  #block: Block = { next: 0, end: 0 }
  #reserve: Block | undefined
  #fetching: Promise<void> | undefined

  constructor(deps: { metadata: Metadata; log: Logger }, options: { nodeId: number }) {
    this.#metadata = deps.metadata
    this.#log = deps.log
    this.#nodeId = options.nodeId
  }

  async newProducerId(_context: RequestContext): Promise<{ readonly producerId: number; readonly producerEpoch: number }> {
    for (;;) {
      const producerId = this.#take()
      if (producerId !== undefined) return { producerId, producerEpoch: 0 }
      await this.#fetch()
    }
  }

  #take(): number | undefined {
    if (this.#block.next >= this.#block.end) {
      if (this.#reserve === undefined) return undefined
      this.#block = this.#reserve
      this.#reserve = undefined
    }
    const producerId = this.#block.next++
    if (this.#reserve === undefined && this.#block.end - this.#block.next < RESERVE_BELOW) {
      this.#fetch().catch((error: unknown) => {
        // The next request without an id tries again and gets the error itself.
        this.#log.warn('producer_ids.reserve_failed', `no block of producer ids could be reserved: ${String(error)}`)
      })
    }
    return producerId
  }

  #fetch(): Promise<void> {
    this.#fetching ??= this.#reserveBlock().finally(() => {
      this.#fetching = undefined
    })
    return this.#fetching
  }

  async #reserveBlock(): Promise<void> {
    const nodeId = this.#nodeId
    const { firstProducerId, count } = await this.#metadata.change((image) => allocateProducerIds(image, { nodeId }))
    if (firstProducerId + count > LAST_ID) throw new MoonMQError('INTERNAL', { reason: 'all producer ids are used up' })
    this.#reserve = { next: firstProducerId, end: firstProducerId + count }
  }
}
