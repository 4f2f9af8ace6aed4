/** What a program hands in, looked at before anything is done with it: a wrong argument is INVALID_REQUEST with its name and what it must be. */
import { inspect } from 'node:util'
import { MoonMQError } from '../core/errors.ts'
import type { PartitionReadersOptions, ProducerOptions, PushConsumerOptions, ReaderOptions, StartPosition } from './types.ts'

const MAX_SHOWN = 60

export function wrong(argument: string, value: unknown, wanted: string): MoonMQError {
  const reason = value === undefined ? `${argument} is missing: ${wanted}` : `${argument} must not be ${shortly(value)}: ${wanted}`
  return new MoonMQError('INVALID_REQUEST', { reason })
}

function shortly(value: unknown): string {
  const text = inspect(value, { depth: 1, breakLength: Number.POSITIVE_INFINITY, maxArrayLength: 5, maxStringLength: MAX_SHOWN })
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`
}

export function checkObject(argument: string, value: unknown, wanted: string): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(argument, value, wanted)
}

export function checkText(argument: string, value: unknown, wanted = 'give a text'): void {
  if (typeof value !== 'string') throw wrong(argument, value, wanted)
}

/** A name that stands for something, such as that of a topic. */
export function checkName(argument: string, value: unknown): void {
  if (typeof value !== 'string' || value === '') throw wrong(argument, value, 'give its name as a text')
}

export function checkNames(argument: string, value: unknown): void {
  const wanted = 'give a list of names, such as ["orders"]'
  if (!Array.isArray(value)) throw wrong(argument, value, wanted)
  for (const each of value) checkName(`a name in ${argument}`, each)
}

export function checkList(argument: string, value: unknown, wanted: string): void {
  if (!Array.isArray(value)) throw wrong(argument, value, wanted)
}

export function checkWhole(argument: string, value: unknown, least: number): void {
  if (!Number.isSafeInteger(value) || (value as number) < least) throw wrong(argument, value, `give a whole number from ${least}`)
}

function checkNumber(argument: string, value: unknown): void {
  if (typeof value !== 'number' || !(value >= 0)) throw wrong(argument, value, 'give a number from 0')
}

function checkFunction(argument: string, value: unknown): void {
  if (typeof value !== 'function') throw wrong(argument, value, 'give a function')
}

function checkChoice(argument: string, value: unknown, choices: readonly string[]): void {
  if (!choices.includes(value as string)) throw wrong(argument, value, `it is ${choices.map((each) => `"${each}"`).join(' or ')}`)
}

function checkFlag(argument: string, value: unknown): void {
  if (typeof value !== 'boolean') throw wrong(argument, value, 'it is true or false')
}

export function checkSignal(argument: string, value: unknown): void {
  if (!(value instanceof AbortSignal)) throw wrong(argument, value, 'give the signal of an AbortController')
}

/** Checks the options that are given. */
function checkGiven(options: object, checks: Readonly<Record<string, (argument: string, value: unknown) => void>>): void {
  for (const [name, check] of Object.entries(checks)) {
    const value = (options as Readonly<Record<string, unknown>>)[name]
    if (value !== undefined) check(name, value)
  }
}

const wholeFrom = (least: number) => (argument: string, value: unknown) => checkWhole(argument, value, least)
const oneOf =
  (...choices: string[]) =>
  (argument: string, value: unknown) =>
    checkChoice(argument, value, choices)
const isolation = oneOf('read_uncommitted', 'read_committed')

const SENDING = {
  lingerMs: checkNumber,
  batchBytes: wholeFrom(1),
  maxPendingBytes: wholeFrom(1),
  deliveryTimeoutMs: checkNumber,
  signal: checkSignal,
}

export function checkProducerOptions(options: ProducerOptions): void {
  checkObject('what producer() is given', options, 'give an object, such as { acks: "all" }')
  checkGiven(options, { ...SENDING, acks: oneOf('none', 'leader', 'all'), idempotent: checkFlag })
}

export function checkTransactionalOptions(options: object): void {
  checkObject('what transactionalProducer() is given', options, 'give an object, such as { transactionTimeoutMs: 60000 }')
  checkGiven(options, { ...SENDING, transactionTimeoutMs: wholeFrom(1) })
}

function checkStart(argument: string, from: unknown): asserts from is StartPosition {
  if (from === 'earliest' || from === 'latest') return
  const { offset, timestampMs } = (typeof from === 'object' && from !== null ? from : {}) as Record<string, unknown>
  if (Number.isSafeInteger(offset) || Number.isSafeInteger(timestampMs)) return
  throw wrong(argument, from, 'it is "earliest", "latest", { offset: 0 } or { timestampMs: Date.now() } with a whole number')
}

const checkPartitions = (least: number) => (argument: string, value: unknown) => {
  const wanted = 'give a list of partition numbers from 0, or leave it away for all of them'
  if (!Array.isArray(value) || value.length < least) throw wrong(argument, value, wanted)
  for (const each of value) checkWhole(`a number in ${argument}`, each, 0)
}

export function checkReaderOptions(options: ReaderOptions | PartitionReadersOptions, leastPartitions = 1): void {
  checkObject('what reader() is given', options, 'give an object, such as { topic: "orders" }')
  checkName('topic', options.topic)
  checkGiven(options, {
    partitions: checkPartitions(leastPartitions),
    from: checkStart,
    positions: (argument, value) => {
      if (!(value instanceof Map)) throw wrong(argument, value, 'give a Map of partition numbers and offsets')
    },
    follow: checkFlag,
    isolation,
    maxBytes: wholeFrom(1),
    signal: checkSignal,
  })
}

export function checkConsumerOptions(options: object): void {
  checkObject('what consumer() is given', options, 'give an object, such as { group: "billing", topics: ["orders"] }')
  const { group, topics } = options as Readonly<Record<string, unknown>>
  checkText('group', group, 'give the name of the group as a text')
  checkNames('topics', topics)
  if ((topics as readonly string[]).length === 0) throw wrong('topics', topics, 'a consumer needs a topic')
  checkGiven(options, {
    maxRecords: wholeFrom(1),
    maxBytes: wholeFrom(1),
    isolation,
    commit: oneOf('after', 'manual'),
    memberId: checkText,
    rebalanceTimeoutMs: wholeFrom(1),
    onChange: checkFunction,
    idleMs: checkNumber,
    endWhenIdle: checkFlag,
    signal: checkSignal,
  })
}

export function checkPushOptions(options: PushConsumerOptions): void {
  checkConsumerOptions(options)
  if (options.from !== undefined && options.from !== 'committed') checkStart('from', options.from)
}
