import { setMaxListeners } from 'node:events'
import { ChaosNet, ChaosProducer, FAULTS, type Fault, type Found, judge, type Sent, type Verdict } from '../../chaos/index.ts'
import { connect, systemNet } from '../../client/index.ts'
import type { Acked, Client } from '../../client/types.ts'
import { SystemClock, sleep } from '../../core/clock.ts'
import { asMoonMQError, MoonMQError } from '../../core/errors.ts'
import { SystemRandom } from '../../core/random.ts'
import { newUuid } from '../../core/uuid.ts'
import { brokerAddress } from '../connect.ts'
import { type CliContext, EXIT, UsageError } from '../context.ts'
import { printJson, styled, table } from '../output.ts'
import { parseWhole } from '../parse.ts'
import { startScratchBroker } from '../scratch-broker.ts'

export type ChaosCommandOptions = { readonly [F in Fault]?: string } & {
  readonly broker?: string
  readonly topic?: string
  readonly seed?: string
  readonly records: string
  readonly partitions: string
  readonly retries: string
  readonly maxDelayMs: string
  readonly atLeastOnce?: boolean
  readonly json?: boolean
}

const KEYS = 10
/** Records under way: as many as a program would have. */
const WINDOW = 20
const DEFAULT_RATE = 0.05
const RESTART_PAUSE_MS = 200
const TELL_EVERY_MS = 5000

/** Produces through faults from a seed, reads all of it back, and says what was acknowledged, lost, doubled, out of order. */
export async function chaos(context: CliContext, options: ChaosCommandOptions): Promise<number> {
  const plan = planOf(options)
  const scratch = options.broker === undefined ? await startScratchBroker() : null
  try {
    const net = new ChaosNet(systemNet())
    const address = scratch?.address ?? brokerAddress(context, options)
    await using client = await connect({ address, net, name: 'moonmq-chaos', signal: context.signal })
    const topic =
      options.topic ??
      `chaos-${newUuid(new SystemRandom())
        .slice(0, 8)
        .replace(/[^A-Za-z0-9]/g, 'x')}`
    if (options.topic === undefined) await client.admin.createTopic(topic, { partitions: plan.partitions })
    const start = new Map((await client.admin.describeTopic(topic)).partitions.map((each) => [each.partition, each.highWatermark]))
    const { sent, counts } = await produce({ client, net, topic, signal: context.signal, tell: (text) => context.err(text) }, plan)
    const found: Found[] = []
    for await (const record of client.reader({ topic, positions: start })) {
      const { partition, offset, headers, value } = record
      const id = headers.find(({ key }) => key === 'chaos.id')?.value?.toString() ?? null
      if (id === null || id.startsWith(`${plan.run}-`)) found.push({ id, value: String(value), partition, offset })
    }
    const verdict = judge(sent, found)
    print(context, options, { topic, seed: plan.seed, sent, counts, verdict })
    return verdict.holds ? EXIT.done : EXIT.failed
  } finally {
    await scratch?.remove()
  }
}

interface Plan {
  readonly seed: number
  readonly records: number
  readonly partitions: number
  readonly retries: number
  readonly maxDelayMs: number
  readonly idempotent: boolean
  readonly rates: Readonly<Record<Fault, number>>
  /** Tells the records of this run from others of the topic. */
  readonly run: string
}

function planOf(options: ChaosCommandOptions): Plan {
  const random = new SystemRandom()
  const rate = (fault: Fault) => {
    const text = options[fault]
    const value = text === undefined ? DEFAULT_RATE : Number(text)
    if (text?.trim() === '' || !(value >= 0 && value <= 1)) throw new UsageError(`--${fault} ${text}: expected a number from 0 to 1`)
    return value
  }
  return {
    seed: options.seed === undefined ? random.below(2 ** 31) : parseWhole(options.seed, '--seed', 0, 2 ** 32 - 1),
    records: parseWhole(options.records, '--records', 1, 1_000_000),
    partitions: parseWhole(options.partitions, '--partitions', 1, 1000),
    retries: parseWhole(options.retries, '--retries', 0, 100),
    maxDelayMs: parseWhole(options.maxDelayMs, '--max-delay-ms', 0, 60_000),
    idempotent: options.atLeastOnce !== true,
    rates: Object.fromEntries(FAULTS.map((fault) => [fault, rate(fault)])) as Record<Fault, number>,
    run: newUuid(random).slice(0, 8),
  }
}

interface Run {
  readonly client: Client
  readonly net: ChaosNet
  readonly topic: string
  readonly signal: AbortSignal
  /** Progress, on stderr: broken connections make a run long. */
  tell(text: string): void
}

async function produce(
  { client, net, topic, signal, tell }: Run,
  plan: Plan,
): Promise<{ sent: readonly Sent[]; counts: Readonly<Record<Fault, number>> }> {
  await using inner = client.producer({ idempotent: plan.idempotent })
  await using producer = new ChaosProducer({ producer: inner, net }, plan)
  // Every record under way may wait on it.
  const stop = AbortSignal.any([signal])
  setMaxListeners(0, stop)
  const sent: Sent[] = []
  const waiting: Promise<void>[] = []
  const clock = new SystemClock()
  let toldMs = clock.monotonicMs()
  for (let n = 0; n < plan.records; n++) {
    const id = `${plan.run}-${n}`
    const value = `record ${n} of run ${plan.run}`
    const record = { key: `key-${n % KEYS}`, value, headers: [{ key: 'chaos.id', value: id }] }
    const place = sent.push({ id, value, acked: null }) - 1
    const told = persistently(() => producer.send(topic, record), plan.retries, stop).then((acked) => {
      sent[place] = { id, value, acked }
    })
    // One that fails while others are waited for is heard of when its turn comes.
    told.catch(() => {})
    waiting.push(told)
    if (waiting.length >= WINDOW) await Promise.all(waiting.splice(0))
    if (clock.monotonicMs() - toldMs >= TELL_EVERY_MS) {
      toldMs = clock.monotonicMs()
      tell(`sent ${n + 1} of ${plan.records} records, ${producer.counts.disconnect} broken connections\n`)
    }
  }
  await producer.flush()
  await Promise.all(waiting)
  return { sent, counts: producer.counts }
}

/** As a program that tries again what may pass; null when it gives up. */
async function persistently(send: () => Promise<Acked>, retries: number, signal: AbortSignal): Promise<Acked | null> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await send()
    } catch (cause) {
      const error = asMoonMQError(cause)
      const isOver = attempt >= retries
      if (!error.retriable || (isOver && error.code === 'CONNECT_FAILED')) {
        throw new MoonMQError(error.code, error.details, error, error.message)
      }
      if (isOver) return null
      // A broker that restarts takes a while; what chaos does needs no pause.
      if (error.code === 'CONNECT_FAILED') await sleep(new SystemClock(), Math.min(5000, RESTART_PAUSE_MS * 2 ** attempt), signal)
    }
  }
}

interface Report {
  readonly topic: string
  readonly seed: number
  readonly sent: readonly Sent[]
  readonly counts: Readonly<Record<Fault, number>>
  readonly verdict: Verdict
}

function print(context: CliContext, options: ChaosCommandOptions, { topic, seed, sent, counts, verdict }: Report): void {
  const { partitions, totals, holds } = verdict
  const gaveUp = sent.filter(({ acked }) => acked === null).length
  if (options.json) {
    printJson(context, { topic, seed, records: sent.length, gaveUp, faults: counts, partitions, totals, holds })
    return
  }
  context.out(`topic ${topic}, seed ${seed} (--seed ${seed} does the same again)\n`)
  context.out(`happened: ${FAULTS.map((fault) => `${fault} ${counts[fault]}`).join(', ')}\n`)
  context.out(`the program sent ${sent.length}, was told ${sent.length - gaveUp} times that a record is stored, and gave up on ${gaveUp}\n`)
  const columns = ['acked', 'read', 'lost', 'misplaced', 'unacked', 'duplicated', 'reordered', 'corrupted'] as const
  const rows = [...partitions.map((each) => [String(each.partition), ...columns.map((column) => each[column])])]
  rows.push(['all', ...columns.map((column) => totals[column])])
  context.out(table(context, ['PARTITION', ...columns.map((column) => column.toUpperCase())], rows))
  const told = `${totals.lost} of ${totals.acked} acknowledged records lost, ${totals.duplicated} duplicated, ${totals.reordered} out of order`
  context.out(
    `${styled(context, holds ? 'green' : 'red', holds ? 'every acknowledgement holds' : 'ACKNOWLEDGED RECORDS ARE MISSING')}: ${told}\n`,
  )
}
