import type { Clock } from '../../core/clock.ts'
import type { Metrics } from '../../core/counters.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import type { CheckedRecords } from '../../core/offload.ts'
import { NO_TIMESTAMP } from '../../core/types.ts'
import { type BatchHeader, hasProducer, isTransactional, readBatchHeader } from '../../record/batch.ts'
import type { Inflater } from '../../record/inflater.ts'
import { checkSequence } from '../../storage/producer-state.ts'
import type { Log, ProducerEntry } from '../../storage/types.ts'
import type { RequestContext } from '../context.ts'
import type { Acks, ProducePartition, ProducePort, ProduceRequest, ProduceTicket, TransactionOwner, TransactionSupport } from '../ports.ts'
import { leaderEpochOf, type Partitions, type ServedPartition } from '../topics/partitions.ts'
import type { TopicSettings } from '../topics/topic-settings.ts'
import { Deadlines, failedOutcome, Ticket } from './ticket.ts'
import { checkHeader, checkOptions, settleBatch, trustedRecords } from './validate-batch.ts'

/** Of one request, before others get their turn. */
const PARTITIONS_PER_TURN = 256
/** How long records that nobody waits for may wait for a slow disk. */
const UNANSWERED_TIMEOUT_MS = 600_000

/** Who says whether a transactional batch may be appended; the transaction coordinator. */
export interface AppendGuard {
  /** Undefined lets it pass in this turn; a promise is to be waited for, and then this asked again. Throws what refuses it. */
  admit(batch: TransactionOwner & { topic: string; partition: number; support: TransactionSupport }): Promise<void> | undefined
}

export interface ProduceDeps {
  readonly partitions: Partitions
  readonly inflater: Inflater
  readonly clock: Clock
  readonly metrics: Metrics
  readonly transactions: AppendGuard
}

export interface ProduceOptions {
  /** Bytes of all clients together that were appended and are not durable yet. Beyond it requests wait before they are looked at. */
  readonly maxInflightBytes: number
}

/** A batch whose records the broker put together itself, of an idempotent producer. */
export interface SequencedAppend {
  readonly topic: string
  readonly partition: number
  readonly producerId: number
  /** As `AppendGuard.admit`: asked in the turn of the append. */
  admit(): Promise<void> | undefined
  /** The batch with its producer and sequence; told what the partition knows of the producer. */
  seal(known: ProducerEntry | undefined): { readonly batch: Buffer; readonly header: BatchHeader }
  /** It is in the log, now or from before. */
  taken(): void
}

interface CheckedBatch {
  readonly header: BatchHeader
  readonly checked: CheckedRecords
  /** Whether each record was seen to have a key. */
  readonly keyed: boolean
  /** How the checked records are compressed, where they are not stored as they came. */
  readonly compression: TopicSettings['compression']
}

/**
 * Steps 4 and 5 of a produce request (DESIGN section 4). Everything that needs no codec to be loaded and no inflating off the loop
 * happens in the caller's turn; between a sequence check and its append nothing is awaited in any case.
 */
export class ProduceService implements ProducePort {
  readonly #partitions: Partitions
  readonly #inflater: Inflater
  readonly #clock: Clock
  readonly #metrics: Metrics
  readonly #transactions: AppendGuard
  readonly #options: ProduceOptions
  readonly #deadlines: Deadlines
  /** In the order of arrival, so requests of one connection keep theirs. */
  readonly #waitingForRoom = new Set<() => void>()
  #inflightBytes = 0

  constructor(deps: ProduceDeps, options: ProduceOptions) {
    this.#partitions = deps.partitions
    this.#inflater = deps.inflater
    this.#clock = deps.clock
    this.#metrics = deps.metrics
    this.#transactions = deps.transactions
    this.#options = options
    this.#deadlines = new Deadlines(deps.clock)
  }

  /** Appended and not durable yet. */
  get inflightBytes(): number {
    return this.#inflightBytes
  }

  append(context: RequestContext, request: ProduceRequest): ProduceTicket | Promise<ProduceTicket> {
    const ticket = this.#ticket(request)
    if (this.#inflightBytes >= this.#options.maxInflightBytes || this.#waitingForRoom.size > 0) {
      return this.#room(ticket).then(async (inTime) => {
        const appended = inTime ? await this.#appendFrom(context, request, ticket, 0) : this.#refuseFrom(request, ticket, 0)
        this.#admit()
        return appended
      })
    }
    return this.#appendFrom(context, request, ticket, 0)
  }

  /**
   * Appends a batch that the broker built itself from checked records: its records are not walked and not inflated again. Otherwise as
   * `append` for a single partition.
   */
  appendBuilt(
    context: RequestContext,
    one: ProducePartition,
    options: { acks: Acks; timeoutMs: number },
  ): ProduceTicket | Promise<ProduceTicket> {
    const ticket = this.#ticket(options)
    if (this.#inflightBytes < this.#options.maxInflightBytes && this.#waitingForRoom.size === 0) {
      return this.#appendBuilt(context, one, options.acks, ticket)
    }
    return this.#room(ticket).then(async (inTime) => {
      if (inTime) await this.#appendBuilt(context, one, options.acks, ticket)
      else this.#refuse(ticket, ticket.overdue())
      this.#admit()
      return ticket
    })
  }

  /**
   * The same for a batch of an idempotent producer: its sequence is checked, and where the broker gives the numbers chosen, in the turn of
   * its append.
   */
  appendSequenced(
    context: RequestContext,
    one: SequencedAppend,
    options: { acks: Acks; timeoutMs: number },
  ): ProduceTicket | Promise<ProduceTicket> {
    const ticket = this.#ticket(options)
    if (this.#inflightBytes < this.#options.maxInflightBytes && this.#waitingForRoom.size === 0) {
      return this.#appendSequenced(context, one, options.acks, ticket)
    }
    return this.#room(ticket).then(async (inTime) => {
      if (inTime) await this.#appendSequenced(context, one, options.acks, ticket)
      else this.#refuse(ticket, ticket.overdue())
      this.#admit()
      return ticket
    })
  }

  #appendSequenced(context: RequestContext, one: SequencedAppend, acks: Acks, ticket: Ticket): Ticket | Promise<Ticket> {
    try {
      const served = this.#target(context, one, acks)
      const waiting = served.log.ready() ?? one.admit()
      if (waiting !== undefined) {
        const again = () => this.#appendSequenced(context, one, acks, ticket)
        const refuse = (error: unknown) => {
          this.#refuse(ticket, error)
          return ticket
        }
        return this.#deadlines.inTimeOrFailed(waiting, ticket).then((inTime) => (inTime ? again() : refuse(ticket.overdue())), refuse)
      }
      const { batch, header } = one.seal(served.log.producer(one.producerId))
      const limit = served.topic.settings.log.maxMessageBytes
      if (batch.length > limit) throw new MoonMQError('RECORD_TOO_LARGE', { size: batch.length, limit })
      this.#writeOnce(served, batch, acks, header, ticket)
      one.taken()
    } catch (error) {
      this.#refuse(ticket, error)
    }
    return ticket
  }

  /** A producer that wants no answer cannot try again, so a slow disk holds it back instead of losing what it sent. */
  #ticket({ acks, timeoutMs }: { acks: Acks; timeoutMs: number }): Ticket {
    return new Ticket(this.#deadlines, acks === 'none' ? UNANSWERED_TIMEOUT_MS : timeoutMs)
  }

  #appendBuilt(context: RequestContext, one: ProducePartition, acks: Acks, ticket: Ticket): Ticket | Promise<Ticket> {
    try {
      const served = this.#target(context, one, acks)
      const room = served.log.ready()
      if (room !== undefined) {
        return this.#deadlines.inTime(room, ticket).then((inTime) => {
          if (inTime) return this.#appendBuilt(context, one, acks, ticket)
          this.#refuse(ticket, ticket.overdue())
          return ticket
        })
      }
      const limit = served.topic.settings.log.maxMessageBytes
      if (one.batch.length > limit) throw new MoonMQError('RECORD_TOO_LARGE', { size: one.batch.length, limit })
      this.#write(served, one.batch, acks, readBatchHeader(one.batch), ticket)
    } catch (error) {
      this.#refuse(ticket, error)
    }
    return ticket
  }

  #appendFrom(context: RequestContext, request: ProduceRequest, ticket: Ticket, from: number): Ticket | Promise<Ticket> {
    const { partitions, acks } = request
    for (let index = from; index < partitions.length; index++) {
      if (index - from >= PARTITIONS_PER_TURN) return this.#nextTurn().then(() => this.#appendFrom(context, request, ticket, index))
      const one = partitions[index] as ProducePartition
      try {
        const served = this.#target(context, one, acks)
        const room = served.log.ready()
        if (room !== undefined) {
          return this.#deadlines
            .inTime(room, ticket)
            .then((inTime) => (inTime ? this.#appendFrom(context, request, ticket, index) : this.#refuseFrom(request, ticket, index)))
        }
        const { settings } = served.topic
        const header = checkHeader(one.batch, settings)
        const admitted = this.#lookUp(request, one, header)
        if (admitted !== undefined) {
          return admitted.then(
            () => this.#appendFrom(context, request, ticket, index),
            (error: unknown) => {
              this.#refuse(ticket, error)
              return this.#appendFrom(context, request, ticket, index + 1)
            },
          )
        }
        const checked = this.#check(one.batch, header, settings)
        if (checked instanceof Promise) {
          return checked.then(
            (known) => {
              const found = { header, checked: known, keyed: settings.isCompacted, compression: settings.compression }
              const isDone = this.#finish(context, request, one, found, ticket)
              return this.#appendFrom(context, request, ticket, isDone ? index + 1 : index)
            },
            (error: unknown) => {
              this.#refuse(ticket, error)
              return this.#appendFrom(context, request, ticket, index + 1)
            },
          )
        }
        this.#commit(served, one.batch, acks, { header, checked, compression: settings.compression }, ticket)
      } catch (error) {
        this.#refuse(ticket, error)
      }
    }
    return ticket
  }

  /** Only the batches of transactions are looked up. Undefined: it may be appended in this turn. Throws what refuses it. */
  #lookUp(request: ProduceRequest, { topic, partition }: ProducePartition, header: BatchHeader): Promise<void> | undefined {
    if (!isTransactional(header)) return undefined
    const { transactionalId, support = 'verify' } = request
    if (transactionalId === null) {
      throw new MoonMQError('TRANSACTIONAL_ID_NOT_AUTHORIZED', { reason: 'the request names none' })
    }
    const { producerId, producerEpoch } = header
    return this.#transactions.admit({ transactionalId, producerId, producerEpoch, topic, partition, support })
  }

  #check(batch: Buffer, header: BatchHeader, settings: TopicSettings): CheckedRecords | Promise<CheckedRecords> {
    const options = checkOptions(header, settings, this.#inflater.limitFor(settings.log.maxMessageBytes))
    return trustedRecords(header, settings, options) ?? this.#inflater.check(batch, header, options)
  }

  /**
   * After an await the partition is looked up again: the topic may be gone, or its log another. False when its records need keys since
   * then: the batch must be checked again. Any other change of settings came while the batch was being stored already, and does not hold
   * it up: settings that change faster than a batch is inflated would hold it up for ever.
   */
  #finish(context: RequestContext, request: ProduceRequest, one: ProducePartition, found: CheckedBatch, ticket: Ticket): boolean {
    const { acks } = request
    try {
      const served = this.#target(context, one, acks)
      if (served.topic.settings.isCompacted && !found.keyed) return false
      if (this.#lookUp(request, one, found.header) !== undefined) return false
      this.#commit(served, one.batch, acks, found, ticket)
    } catch (error) {
      this.#refuse(ticket, error)
    }
    return true
  }

  #target(context: RequestContext, one: Pick<ProducePartition, 'topic' | 'partition'>, acks: Acks): ServedPartition & { log: Log } {
    const served = this.#partitions.forClient(context, one.topic, one.partition)
    const min = served.topic.settings.minInsyncReplicas
    const isr = served.image.isr.length
    if (acks === 'all' && isr < min) {
      throw new MoonMQError('NOT_ENOUGH_REPLICAS', { topic: one.topic, partition: one.partition, isr, min })
    }
    return served
  }

  /** From what the records were found to be to the append, in one turn. */
  #commit(served: ServedPartition & { log: Log }, sent: Buffer, acks: Acks, found: Omit<CheckedBatch, 'keyed'>, ticket: Ticket): void {
    const { batch, header } = settleBatch(sent, found, served.topic.settings, this.#clock.nowMs())
    if (hasProducer(header)) this.#writeOnce(served, batch, acks, header, ticket)
    else this.#write(served, batch, acks, header, ticket)
  }

  /** A resend is answered with where its original is. */
  #writeOnce(served: ServedPartition & { log: Log }, batch: Buffer, acks: Acks, header: BatchHeader, ticket: Ticket): void {
    const { log, topic } = served
    const producer = log.producer(header.producerId)
    checkMembership(producer, header)
    const original = checkSequence(producer, header)
    if (original === null) {
      this.#write(served, batch, acks, header, ticket)
      return
    }
    topic.counters.duplicates.add()
    // The original may still be on its way to the disk: its resend is answered when it is there, not before (DESIGN section 4).
    const outcome = {
      error: null,
      baseOffset: original.baseOffset,
      logAppendTimeMs: topic.settings.log.timestampType === 'LogAppendTime' ? original.timestampMs : NO_TIMESTAMP,
      logStartOffset: log.logStartOffset,
    }
    if (acks === 'none') ticket.done(outcome)
    else this.#follow(log.whenDurable(original.lastOffset + 1), 0, ticket, ticket.pending(outcome))
  }

  #write(served: ServedPartition & { log: Log }, batch: Buffer, acks: Acks, header: BatchHeader, ticket: Ticket): void {
    const { log, topic } = served
    const appended = log.append(batch, header, { leaderEpoch: leaderEpochOf(served) })
    topic.counters.batches.add()
    if (hasProducer(header)) topic.counters.idempotent.add()
    topic.counters.records.add(header.recordCount)
    topic.counters.bytes.add(header.sizeBytes)
    const outcome = {
      error: null,
      baseOffset: appended.baseOffset,
      logAppendTimeMs: appended.logAppendTimeMs,
      logStartOffset: appended.logStartOffset,
    }
    const durable = log.whenDurable(appended.lastOffset + 1)
    if (acks !== 'none') this.#follow(durable, header.sizeBytes, ticket, ticket.pending(outcome))
    else {
      ticket.done(outcome)
      // Its bytes count all the same, and its failure is owned here: nobody else looks at it but the log, which has reported it.
      this.#follow(durable, header.sizeBytes, ticket, -1)
    }
  }

  #follow(durable: Promise<void>, sizeBytes: number, ticket: Ticket, place: number): void {
    this.#inflightBytes += sizeBytes
    durable.then(
      () => {
        this.#inflightBytes -= sizeBytes
        if (place >= 0) ticket.landed(place)
        this.#admit()
      },
      (error: unknown) => {
        this.#inflightBytes -= sizeBytes
        this.#countFailure(error)
        if (place >= 0) ticket.failed(place, error)
        this.#admit()
      },
    )
  }

  /** The time of the request is over: what was not appended will not be. */
  #refuseFrom(request: ProduceRequest, ticket: Ticket, from: number): Ticket {
    for (let index = from; index < request.partitions.length; index++) this.#refuse(ticket, ticket.overdue())
    return ticket
  }

  #refuse(ticket: Ticket, error: unknown): void {
    this.#countFailure(error)
    ticket.done(failedOutcome(error))
  }

  #countFailure(error: unknown): void {
    this.#metrics.counter('moonmq_produce_failed_total', { error: asMoonMQError(error).code }).add()
  }

  /** Lets the next one in; it lets in the one after when it has appended. */
  #admit(): void {
    if (this.#inflightBytes >= this.#options.maxInflightBytes) return
    for (const go of this.#waitingForRoom) {
      this.#waitingForRoom.delete(go)
      go()
      return
    }
  }

  #nextTurn(): Promise<void> {
    return new Promise((resolve) => this.#clock.defer(resolve))
  }

  /** Resolves to whether there was room before the time of the request was over. */
  async #room(ticket: Ticket): Promise<boolean> {
    let enter = () => {}
    const entered = new Promise<void>((resolve) => {
      enter = resolve
    })
    this.#waitingForRoom.add(enter)
    const inTime = await this.#deadlines.inTime(entered, ticket)
    this.#waitingForRoom.delete(enter)
    return inTime
  }

  close(): void {
    this.#deadlines.close()
    for (const go of this.#waitingForRoom) go()
    this.#waitingForRoom.clear()
  }
}

/** A producer within a transaction appends nothing outside of it. Throws INVALID_TXN_STATE. */
function checkMembership(producer: ProducerEntry | undefined, header: BatchHeader): void {
  if (producer === undefined || producer.currentTxnFirstOffset < 0 || isTransactional(header)) return
  const reason = `producer ${header.producerId} has a transaction open and sends a batch outside of it`
  throw new MoonMQError('INVALID_TXN_STATE', { reason })
}
