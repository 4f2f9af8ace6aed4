import { MoonMQError } from '../../core/errors.ts'
import type { TopicPartition } from '../../core/types.ts'
import type { ProducerIdentity } from '../txn-ports.ts'
import {
  bumped,
  type ClientVersion,
  hasPartition,
  isEnding,
  isExhausted,
  isKept,
  isKeptBack,
  NO_EPOCH,
  NO_ID,
  NO_PARTITIONS,
  ownerOf,
  type Transaction,
  withPartitions,
} from './transaction.ts'

/**
 * What becomes of a transactional id: pure, told the time. `concurrent`: an end is under way, ask again after it. `needsId`: ask again
 * with a fresh producer id. `next`: to be stored before the answer is given; absent, nothing changes.
 */
export type Step<T> =
  | { readonly kind: 'done'; readonly answer: T; readonly next?: Transaction }
  /** Somebody else's transaction must be ended first: store this, and ask again after it. */
  | { readonly kind: 'fence'; readonly next: Transaction }
  | { readonly kind: 'concurrent' }
  | { readonly kind: 'needsId' }

const CONCURRENT = { kind: 'concurrent' } as const
const NEEDS_ID = { kind: 'needsId' } as const

function fenced(): MoonMQError {
  return new MoonMQError('PRODUCER_FENCED')
}

function badState(txn: Transaction, wish: string): MoonMQError {
  return new MoonMQError('INVALID_TXN_STATE', { reason: `a transaction in state ${txn.state} cannot ${wish}` })
}

// ---- a producer begins ----------------------------------------------------------------------------------------------------

export interface Init {
  readonly timeoutMs: number
  readonly expected: ProducerIdentity | null
  readonly keepPrepared: boolean
  /** A fresh id, where the step before asked for one. */
  readonly freshId: number | null
  /** See `fence`. */
  readonly goesOnAfterAbort: boolean
  /** Default false. */
  readonly isNative?: boolean
}

export interface InitAnswer extends ProducerIdentity {
  readonly kept: ProducerIdentity | null
}

/** Throws PRODUCER_FENCED. */
export function initProducer(txn: Transaction | undefined, init: Init, nowMs: number): Step<InitAnswer> {
  if (txn === undefined) return first(init, nowMs)
  const owner = ownerOf(txn)
  const { expected } = init
  if (expected !== null && expected.producerId !== owner.producerId) {
    // A resend after its id was used up and replaced: it never saw the answer.
    const isResend = expected.producerId === txn.previousProducerId && isExhausted(expected.producerEpoch)
    if (!isResend) throw fenced()
  }
  if (isEnding(txn)) return CONCURRENT
  if (txn.state !== 'Ongoing') return begin(txn, init, nowMs)
  if (init.keepPrepared) return keep(txn, init, nowMs)
  return { kind: 'fence', next: init.isNative === true ? abandon(txn, init, nowMs) : fence(txn, init, nowMs) }
}

function first({ timeoutMs, freshId, isNative = false }: Init, nowMs: number): Step<InitAnswer> {
  if (freshId === null) return NEEDS_ID
  const next: Transaction = {
    state: 'Empty',
    producerId: freshId,
    producerEpoch: 0,
    previousProducerId: NO_ID,
    lastProducerEpoch: NO_EPOCH,
    nextProducerId: NO_ID,
    nextProducerEpoch: NO_EPOCH,
    timeoutMs,
    partitions: NO_PARTITIONS,
    startedAtMs: -1,
    updatedAtMs: nowMs,
    clientVersion: 0,
    isNative,
  }
  return begun(next)
}

function begun(next: Transaction): Step<InitAnswer> {
  return { kind: 'done', next, answer: { producerId: next.producerId, producerEpoch: next.producerEpoch, kept: null } }
}

/** Another epoch, or another id where epochs are used up. */
function begin(txn: Transaction, { timeoutMs, expected, freshId, isNative = false }: Init, nowMs: number): Step<InitAnswer> {
  const cleared = { ...txn, state: 'Empty', timeoutMs, partitions: NO_PARTITIONS, startedAtMs: -1, updatedAtMs: nowMs, isNative } as const
  const epoch = txn.producerEpoch
  const isLastOfAbort = isKeptBack(epoch) && expected?.producerEpoch === txn.lastProducerEpoch
  if (isExhausted(epoch) && (expected === null || expected.producerEpoch === epoch || isLastOfAbort)) {
    if (freshId === null) return NEEDS_ID
    const lastProducerEpoch = expected?.producerEpoch ?? NO_EPOCH
    return begun({ ...cleared, producerId: freshId, producerEpoch: 0, previousProducerId: txn.producerId, lastProducerEpoch })
  }
  if (expected === null) return begun({ ...cleared, producerEpoch: epoch + 1, lastProducerEpoch: NO_EPOCH })
  if (expected.producerEpoch === epoch) return begun({ ...cleared, producerEpoch: epoch + 1, lastProducerEpoch: epoch })
  // A resend of a call that succeeded: nobody else has begun since, for that would have cleared the last epoch.
  if (expected.producerEpoch === txn.lastProducerEpoch) return begun(cleared)
  throw fenced()
}

/** KIP-939: the open transaction stays under its own id and epoch; who asked gets later ones, with which it can only be ended. */
function keep(txn: Transaction, { timeoutMs, freshId }: Init, nowMs: number): Step<InitAnswer> {
  const owner = ownerOf(txn)
  const isUsedUp = isExhausted(owner.producerEpoch)
  if (isUsedUp && freshId === null) return NEEDS_ID
  const identity = {
    producerId: isUsedUp && freshId !== null ? freshId : owner.producerId,
    producerEpoch: isUsedUp ? 0 : owner.producerEpoch + 1,
  }
  const next = { ...txn, timeoutMs, nextProducerId: identity.producerId, nextProducerEpoch: identity.producerEpoch, updatedAtMs: nowMs }
  return { kind: 'done', next, answer: { ...identity, kept: { producerId: txn.producerId, producerEpoch: txn.producerEpoch } } }
}

/**
 * The open transaction is aborted under an epoch that no client has, so that nothing late of its own can follow. With
 * `transaction.version` 2 whoever had it may ask for that epoch and go on; before, it is fenced for good.
 */
export function fence(txn: Transaction, { goesOnAfterAbort }: Pick<Init, 'goesOnAfterAbort'>, nowMs: number): Transaction {
  const next = prepared(txn, false, 2, nowMs)
  return goesOnAfterAbort ? next : { ...next, lastProducerEpoch: NO_EPOCH }
}

/**
 * The open transaction of a native producer is aborted under its own epoch: the broker itself holds the only session that could write in
 * it, and knows that it is over.
 */
export function abandon(txn: Transaction, wish: Pick<Init, 'goesOnAfterAbort'>, nowMs: number): Transaction {
  return txn.isNative ? prepared(txn, false, 0, nowMs) : fence(txn, wish, nowMs)
}

/** The identity that follows when the end under way is over: its client knows it already. */
function isComing(txn: Transaction | undefined, { producerId, producerEpoch }: ProducerIdentity): boolean {
  if (txn === undefined || !isEnding(txn)) return false
  const coming = complete(txn, txn.updatedAtMs)
  return coming.producerId === producerId && coming.producerEpoch === producerEpoch
}

// ---- what is part of it ---------------------------------------------------------------------------------------------------

/** Throws PRODUCER_ID_MAPPING, PRODUCER_FENCED. */
function checkOwner(txn: Transaction | undefined, { producerId, producerEpoch }: ProducerIdentity): asserts txn is Transaction {
  if (txn === undefined) throw new MoonMQError('PRODUCER_ID_MAPPING', { producerId })
  const owner = ownerOf(txn)
  if (owner.producerId !== producerId) throw new MoonMQError('PRODUCER_ID_MAPPING', { producerId })
  if (owner.producerEpoch !== producerEpoch) throw fenced()
}

/** Throws PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE. */
export function addPartitions(
  txn: Transaction | undefined,
  producer: ProducerIdentity,
  added: readonly TopicPartition[],
  clientVersion: ClientVersion,
  nowMs: number,
): Step<null> {
  if (isComing(txn, producer)) return CONCURRENT
  checkOwner(txn, producer)
  if (isEnding(txn)) return CONCURRENT
  if (isKept(txn)) throw badState(txn, 'get more partitions after its client has gone: it can only be ended')
  const isOngoing = txn.state === 'Ongoing'
  const partitions = withPartitions(isOngoing ? txn.partitions : NO_PARTITIONS, added)
  if (isOngoing && partitions === txn.partitions) return { kind: 'done', answer: null }
  const startedAtMs = isOngoing ? txn.startedAtMs : nowMs
  return { kind: 'done', answer: null, next: { ...txn, state: 'Ongoing', partitions, startedAtMs, updatedAtMs: nowMs, clientVersion } }
}

/** Whether a partition is part of the transaction that is open. Throws like `addPartitions`. */
export function isPart(txn: Transaction | undefined, producer: ProducerIdentity, partition: TopicPartition): boolean | 'concurrent' {
  if (isComing(txn, producer)) return 'concurrent'
  checkOwner(txn, producer)
  if (isEnding(txn)) return 'concurrent'
  return txn.state === 'Ongoing' && !isKept(txn) && hasPartition(txn.partitions, partition.topic, partition.partition)
}

// ---- its end --------------------------------------------------------------------------------------------------------------

export interface End extends ProducerIdentity {
  readonly commit: boolean
  readonly clientVersion: ClientVersion
  readonly freshId: number | null
}

/** Throws PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE. */
export function endTransaction(txn: Transaction | undefined, end: End, nowMs: number): Step<ProducerIdentity> {
  return end.clientVersion === 2 ? endBumping(txn, end, nowMs) : endPlain(txn, end, nowMs)
}

function identityOf({ producerId, producerEpoch }: Transaction): ProducerIdentity {
  return { producerId, producerEpoch }
}

/** Whether the last transaction of an id in this state was committed. */
export const COMPLETE: ReadonlyMap<string, boolean> = new Map([
  ['CompleteCommit', true],
  ['CompleteAbort', false],
])

function endPlain(txn: Transaction | undefined, end: End, nowMs: number): Step<ProducerIdentity> {
  checkOwner(txn, end)
  const wish = end.commit ? 'be committed' : 'be aborted'
  if (txn.state === 'Ongoing') return prepare(txn, end, nowMs)
  if (isEnding(txn)) {
    if ((txn.state === 'PrepareCommit') === end.commit) return CONCURRENT
    throw badState(txn, wish)
  }
  if (COMPLETE.get(txn.state) === end.commit) return { kind: 'done', answer: identityOf(txn) }
  throw badState(txn, wish)
}

/**
 * With an epoch for each transaction, the epoch tells a resend from the next request. An abort of nothing is taken: a client that had an
 * error does not know whether anything of its transaction arrived, and the new epoch keeps what is still under way out.
 */
function endBumping(txn: Transaction | undefined, end: End, nowMs: number): Step<ProducerIdentity> {
  if (txn === undefined) throw new MoonMQError('PRODUCER_ID_MAPPING', { producerId: end.producerId })
  if (isComing(txn, end)) return CONCURRENT
  const owner = ownerOf(txn)
  const knowsBumps = txn.clientVersion === 2
  const isAfterBump = knowsBumps && txn.producerEpoch === end.producerEpoch + 1
  const isAfterNewId = knowsBumps && txn.producerEpoch === 0 && txn.previousProducerId === end.producerId && isExhausted(end.producerEpoch)
  if (owner.producerId !== end.producerId && !isAfterNewId) throw new MoonMQError('PRODUCER_ID_MAPPING', { producerId: end.producerId })
  const isCurrent = owner.producerEpoch === end.producerEpoch
  const wish = end.commit ? 'be committed' : 'be aborted'
  if (txn.state === 'Ongoing' || txn.state === 'Empty') {
    if (!isCurrent) throw fenced()
    if (txn.state === 'Empty' && end.commit) throw badState(txn, wish)
    return prepare(txn, end, nowMs)
  }
  if (isEnding(txn)) {
    if (!isAfterBump) throw fenced()
    if ((txn.state === 'PrepareCommit') === end.commit) return CONCURRENT
    throw badState(txn, wish)
  }
  const isResend = isAfterBump || isAfterNewId
  if (!isResend && !isCurrent) throw fenced()
  if (isResend) {
    if (COMPLETE.get(txn.state) === end.commit) return { kind: 'done', answer: identityOf(txn) }
    throw badState(txn, wish)
  }
  if (end.commit) throw badState(txn, wish)
  return prepare(txn, end, nowMs)
}

function prepare(txn: Transaction, end: End, nowMs: number): Step<ProducerIdentity> {
  const { commit, clientVersion, freshId } = end
  if (clientVersion !== 2) {
    const next = prepared(txn, commit, clientVersion, nowMs)
    return { kind: 'done', next, answer: identityOf(next) }
  }
  const owner = ownerOf(txn)
  const hasOwnId = owner.producerId !== txn.producerId
  const isUsedUp = !hasOwnId && isExhausted(owner.producerEpoch)
  if (isUsedUp && freshId === null) return NEEDS_ID
  const base = prepared(txn, commit, clientVersion, nowMs)
  const nextProducerId = hasOwnId ? owner.producerId : isUsedUp && freshId !== null ? freshId : NO_ID
  const next = { ...base, nextProducerId, nextProducerEpoch: hasOwnId ? owner.producerEpoch + 1 : NO_EPOCH }
  return { kind: 'done', next, answer: identityOf(complete(next, nowMs)) }
}

/** The decision. With an epoch for each transaction the markers carry the new one already, so that nothing late follows them. */
function prepared(txn: Transaction, commit: boolean, clientVersion: ClientVersion, nowMs: number): Transaction {
  const owner = ownerOf(txn)
  const last = owner.producerId === txn.producerId ? owner.producerEpoch : txn.producerEpoch
  const isBegun = txn.state === 'Ongoing'
  return {
    ...txn,
    state: commit ? 'PrepareCommit' : 'PrepareAbort',
    ...(clientVersion === 2 ? { producerEpoch: bumped(last), lastProducerEpoch: last } : { producerEpoch: last }),
    nextProducerId: NO_ID,
    nextProducerEpoch: NO_EPOCH,
    partitions: isBegun ? txn.partitions : NO_PARTITIONS,
    startedAtMs: isBegun ? txn.startedAtMs : nowMs,
    updatedAtMs: nowMs,
    clientVersion,
  }
}

/** Every marker is durable. */
export function complete(txn: Transaction, nowMs: number): Transaction {
  const hasNextId = txn.nextProducerId !== NO_ID
  return {
    ...txn,
    state: txn.state === 'PrepareCommit' ? 'CompleteCommit' : 'CompleteAbort',
    ...(hasNextId ? { producerId: txn.nextProducerId, producerEpoch: Math.max(0, txn.nextProducerEpoch) } : {}),
    previousProducerId: txn.clientVersion === 2 ? txn.producerId : txn.previousProducerId,
    nextProducerId: NO_ID,
    nextProducerEpoch: NO_EPOCH,
    partitions: NO_PARTITIONS,
    updatedAtMs: nowMs,
  }
}
