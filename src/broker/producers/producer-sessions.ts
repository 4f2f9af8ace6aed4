import { MoonMQError } from '../../core/errors.ts'
import type { RequestContext } from '../context.ts'
import type {
  ProducerIdentity,
  ProducerSession,
  ProducerSessionPort,
  SequencedBatch,
  SequencedOptions,
  SequencedTicket,
  TransactionOwner,
} from '../ports.ts'
import { type SequencedDeps, SequencedProducer } from '../produce/sequenced-producer.ts'
import { NamedSession } from './named-session.ts'
import type { SessionDeps } from './session-deps.ts'

/** How long a transaction of a native client may be open when it says nothing itself. */
const DEFAULT_TIMEOUT_MS = 60_000

/** Producers of native connections: with a name, which one session has at a time, or without. */
export class ProducerSessions implements ProducerSessionPort {
  readonly #deps: SessionDeps

  constructor(deps: Omit<SessionDeps, 'sequenced'>, appends: SequencedDeps) {
    this.#deps = { ...deps, sequenced: new SequencedProducer(appends) }
  }

  async open(
    context: RequestContext,
    { name, timeoutMs = DEFAULT_TIMEOUT_MS }: { name: string; timeoutMs?: number },
  ): Promise<ProducerSession> {
    if (name === '') return this.#ephemeral(await this.#newId(context))
    return await NamedSession.take(this.#deps, name, timeoutMs)
  }

  async resume(_context: RequestContext, owner: TransactionOwner): Promise<ProducerSession> {
    return await NamedSession.resume(this.#deps, owner)
  }

  append(
    context: RequestContext,
    producer: ProducerIdentity,
    batches: readonly SequencedBatch[],
    options: SequencedOptions,
  ): Promise<SequencedTicket> {
    return appendFree(this.#deps.sequenced, context, producer, batches, options)
  }

  /** Ids of the native protocol begin at 1. */
  async #newId(context: RequestContext): Promise<ProducerIdentity> {
    const identity = await this.#deps.producers.newProducerId(context)
    return identity.producerId === 0 ? await this.#deps.producers.newProducerId(context) : identity
  }

  #ephemeral(identity: ProducerIdentity): ProducerSession {
    const { sequenced } = this.#deps
    return {
      ...identity,
      name: '',
      inTransaction: false,
      append: (context, batches, options) => appendFree(sequenced, context, identity, batches, options),
      begin: () => Promise.reject(withoutName()),
      end: () => Promise.reject(withoutName()),
      commitOffsets: () => Promise.reject(withoutName()),
      close: () => Promise.resolve(),
    }
  }
}

function withoutName(): MoonMQError {
  return new MoonMQError('INVALID_TXN_STATE', { reason: 'a transaction needs a producer with a name' })
}

async function appendFree(
  sequenced: SequencedProducer,
  context: RequestContext,
  producer: ProducerIdentity,
  batches: readonly SequencedBatch[],
  options: SequencedOptions,
): Promise<SequencedTicket> {
  const packed = await sequenced.pack(context, batches, options)
  return await sequenced.append(context, { ...producer, transactional: false, admit: () => undefined }, packed, options)
}
