import type { ClientRecord } from '../client/types.ts'
import type { Clock } from '../core/clock.ts'
import { MoonMQError } from '../core/errors.ts'
import { MIB } from '../core/limits.ts'
import type { Resource } from '../core/types.ts'
import type { Statement } from './ast.ts'
import type { Cell, Result } from './format.ts'
import { helpText } from './help.ts'
import type { Connector, ConnectTo, Membership, Operations } from './operations.ts'
import { DEFAULT_RESULT_LIMITS, DEFAULT_SCAN_LIMITS, type ResultLimits, type ScanLimits, select } from './select.ts'
import { headersOf } from './where.ts'

export interface ExecutorDeps {
  readonly connect: Connector
  readonly clock: Clock
}

export interface ExecutorOptions {
  /** What CONNECT starts from. */
  readonly session: ConnectTo
  readonly scan?: Partial<ScanLimits>
  readonly result?: ResultLimits
}

type Of<K extends Statement['kind']> = Extract<Statement, { readonly kind: K }>

/** The broker gives less at once. */
const MAX_FETCH_BYTES = 64 * MIB

const DONE: Result = { columns: [], rows: [], facts: null, notes: [] }

/** Runs statements one after another. Owns the connection that CONNECT makes. */
export class Executor implements Resource {
  readonly #deps: ExecutorDeps
  readonly #scan: ScanLimits
  readonly #result: ResultLimits
  #session: ConnectTo
  #operations: Operations | null = null

  constructor(deps: ExecutorDeps, options: ExecutorOptions) {
    this.#deps = deps
    this.#session = options.session
    this.#scan = { ...DEFAULT_SCAN_LIMITS, ...options.scan }
    this.#result = options.result ?? DEFAULT_RESULT_LIMITS
  }

  /** The connection, or null. */
  get operations(): Operations | null {
    return this.#operations
  }

  /** Connects with what the session has; the way in, before any statement. */
  async open(signal: AbortSignal): Promise<void> {
    await this.close()
    this.#operations = await this.#deps.connect(this.#session, signal)
  }

  async close(): Promise<void> {
    const operations = this.#operations
    this.#operations = null
    await operations?.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** QUIT is its caller's: it does nothing here. */
  async run(statement: Statement, signal: AbortSignal): Promise<Result> {
    switch (statement.kind) {
      case 'connect':
        return this.#connect(statement, signal)
      case 'disconnect':
        await this.close()
        return done({ connected: false }, 'disconnected')
      case 'help':
        return help(statement.topic)
      case 'quit':
        return DONE
      default: {
        if (this.#operations === null) throw MoonMQError.withText('CONNECT_FAILED', 'not connected: say CONNECT first')
        const context: Context = { operations: this.#operations, clock: this.#deps.clock, scan: this.#scan, result: this.#result, signal }
        return (RUNNERS[statement.kind] as Runner<typeof statement>)(context, statement)
      }
    }
  }

  async #connect(statement: Of<'connect'>, signal: AbortSignal): Promise<Result> {
    const { host, port, user, password } = statement
    const before = this.#session
    // A new host with its port in it takes the place of both.
    const isWhole = host !== null && /:\d+$/.test(host)
    this.#session = {
      host: host ?? before.host,
      port: port ?? (isWhole ? null : before.port),
      user: user ?? before.user,
      password: password ?? before.password,
    }
    await this.open(signal)
    const target = this.#operations?.target ?? ''
    return done({ connected: true, target }, `connected to ${target}`)
  }
}

interface Context {
  readonly operations: Operations
  readonly clock: Clock
  readonly scan: ScanLimits
  readonly result: ResultLimits
  readonly signal: AbortSignal
}

type Runner<S> = (context: Context, statement: S) => Promise<Result>
type Served = Exclude<Statement['kind'], 'connect' | 'disconnect' | 'help' | 'quit'>

const RUNNERS: { readonly [K in Served]: Runner<Of<K>> } = {
  'create-topic': async ({ operations, signal }, { name, partitions, config }) => {
    await operations.createTopic(name, partitions, config, signal)
    return done({ created: name, partitions }, `created topic ${name} with ${counted(partitions, 'partition')}`)
  },
  join: async ({ operations, signal }, { group, topics }) => membership(await operations.join(group, topics, signal)),
  'list-topics': async ({ operations, signal }) => {
    const topics = await operations.listTopics(signal)
    return table(
      ['topic', 'partitions'],
      topics.map(({ name, partitions }) => [name, partitions]),
      'no topics yet; make one with: CREATE TOPIC name;',
    )
  },
  'list-groups': async ({ operations, signal }) => {
    const groups = await operations.listGroups(signal)
    return table(
      ['group', 'kind', 'state', 'members'],
      groups.map(({ group, kind, state, members }): Cell[] => [group, kind, state, members]),
      'no groups',
    )
  },
  membership: async ({ operations }) => {
    if (operations.membership !== null) return membership(operations.membership)
    return { ...DONE, columns: ['group', 'topic', 'partitions'], notes: ['this session is a member of no group'] }
  },
  'describe-topic': describeTopic,
  'describe-group': describeGroup,
  'alter-topic': async ({ operations, signal }, { name, set, unset }) => {
    const changed = await operations.alterTopic(name, { set, unset }, signal)
    const note = changed.length === 0 ? `topic ${name} has these settings already` : `changed on topic ${name}: ${changed.join(', ')}`
    return done({ topic: name, changed }, note)
  },
  'grow-topic': async ({ operations, signal }, { name, partitions }) => {
    await operations.growTopic(name, partitions, signal)
    return done({ topic: name, partitions }, `topic ${name} has ${counted(partitions, 'partition')}`)
  },
  'drop-topic': async ({ operations, signal }, { name }) => {
    await operations.dropTopic(name, signal)
    return done({ dropped: name }, `dropped topic ${name}`)
  },
  'drop-group': async ({ operations, signal }, { group }) => {
    await operations.dropGroup(group, signal)
    return done({ dropped: group }, `dropped group ${group}`)
  },
  'show-offsets': showOffsets,
  produce: async ({ operations, signal }, { topic, ...record }) => {
    const { partition, offset } = await operations.produce(topic, record, signal)
    return done({ topic, partition, offset }, `stored in ${topic} partition ${partition}${offset < 0 ? '' : ` offset ${offset}`}`)
  },
  fetch: async ({ operations, result, signal }, { topic, group, limit }) => {
    const limits = { maxRecords: Math.min(limit, result.maxRows), maxBytes: Math.min(result.maxBytes, MAX_FETCH_BYTES) }
    return recordTable(await operations.fetch(topic, group, limits, signal), topic, `nothing in ${topic} that the group has not read`)
  },
  subscribe,
  commit: async ({ operations, signal }, { topic, partition, offset }) => {
    await operations.commit(topic, partition, offset, signal)
    return done({ topic, partition, offset }, `committed ${topic} partition ${partition}: next is offset ${offset}`)
  },
  nack: async ({ operations, signal }, { topic, partition, offset, reason }) => {
    const { deadLettered, attempts, deadLetterTopic } = await operations.nack(topic, partition, offset, reason, signal)
    const after = counted(attempts, 'attempt')
    const note = deadLettered ? `moved to ${deadLetterTopic} after ${after}` : `comes again; ${after} so far`
    return done({ topic, partition, offset, deadLettered, attempts, deadLetterTopic: deadLettered ? deadLetterTopic : null }, note)
  },
  leave: async ({ operations, signal }) => {
    await operations.leave(signal)
    return done({ left: true }, 'left the group')
  },
  heartbeat: async ({ operations, signal }) => {
    await operations.heartbeat(signal)
    return done({ alive: true }, 'the group knows that this member is alive')
  },
  begin: async ({ operations, signal }, { name }) => {
    await operations.begin(name, signal)
    return done({ transaction: 'open', name }, 'transaction begun')
  },
  end: async ({ operations, signal }, { commit }) => {
    await operations.endTransaction(commit, signal)
    return done({ transaction: commit ? 'committed' : 'rolled back' }, commit ? 'transaction committed' : 'transaction rolled back')
  },
  select: ({ operations, clock, scan, result, signal }, statement) => select({ operations, clock }, { scan, result }, statement, signal),
}

async function describeTopic({ operations, signal }: Context, { name }: Of<'describe-topic'>): Promise<Result> {
  const [topic, settings] = await Promise.all([operations.describeTopic(name, signal), operations.topicSettings(name, signal)])
  const set = settings.filter(({ source }) => source === 'topic').map((each) => `${each.name}=${each.value}`)
  return {
    columns: ['partition', 'start', 'end', 'highWatermark', 'lastStable'],
    rows: topic.partitions.map((p) =>
      p.earliest < 0 ? [p.partition, 'offline'] : [p.partition, p.earliest, p.logEndOffset, p.highWatermark, p.lastStableOffset],
    ),
    facts: null,
    notes: [`topic ${topic.name}, id ${topic.id}`, set.length === 0 ? 'settings: all defaults' : `settings: ${set.join(', ')}`],
  }
}

async function describeGroup({ operations, signal }: Context, { group }: Of<'describe-group'>): Promise<Result> {
  const { state, members, offsets } = await operations.describeGroup(group, signal)
  const owners = new Map<string, string>()
  for (const { memberId, assignment } of members) {
    for (const { topic, partitions } of assignment) for (const partition of partitions) owners.set(`${topic}-${partition}`, memberId)
  }
  const committed = new Map(offsets.map((each) => [`${each.topic}-${each.partition}`, each.offset]))
  const places = [
    ...members.flatMap(({ assignment }) =>
      assignment.flatMap(({ topic, partitions }) => partitions.map((partition) => ({ topic, partition }))),
    ),
    ...offsets.filter((each) => !owners.has(`${each.topic}-${each.partition}`)),
  ]
  const rows = places
    .sort((a, b) => (a.topic === b.topic ? a.partition - b.partition : a.topic < b.topic ? -1 : 1))
    .map(({ topic, partition }): Cell[] => {
      const key = `${topic}-${partition}`
      return [topic, partition, committed.get(key), owners.get(key)]
    })
  const idle = members.filter(({ assignment }) => assignment.every(({ partitions }) => partitions.length === 0))
  const notes = [`group ${group}: ${state}, ${counted(members.length, 'member')}`]
  if (idle.length > 0) notes.push(`without partitions: ${idle.map(({ memberId }) => memberId).join(', ')}`)
  return { columns: ['topic', 'partition', 'committed', 'member'], rows, facts: null, notes }
}

async function showOffsets({ operations, signal }: Context, { topic, group }: Of<'show-offsets'>): Promise<Result> {
  const offsets = await operations.offsets(topic, group, signal)
  const columns = ['partition', 'earliest', 'latest', 'highWatermark', 'lastStable', ...(group === null ? [] : ['committed', 'lag'])]
  const rows = offsets.map(({ partition, earliest, latest, highWatermark, lastStableOffset, committed }): Cell[] => {
    const bounds = [partition, earliest, latest, highWatermark, lastStableOffset]
    if (committed === null) return bounds
    // Without a commit the group begins with the oldest record.
    const next = committed < 0 ? earliest : Math.max(committed, earliest)
    return [...bounds, committed < 0 ? undefined : committed, Math.max(0, highWatermark - next)]
  })
  return { columns, rows, facts: null, notes: [] }
}

async function subscribe(context: Context, statement: Of<'subscribe'>): Promise<Result> {
  const { topic, group, timeoutSeconds, limit } = statement
  // What is shown is kept until then.
  const { maxRows, maxBytes, maxMs } = context.result
  const most = Math.min(limit ?? maxRows, maxRows)
  const records: ClientRecord[] = []
  if (limit !== 0) {
    const limits = { maxRecords: most, maxBytes, idleMs: timeoutSeconds * 1000, totalMs: maxMs }
    try {
      for await (const record of context.operations.subscribe(topic, group, limits, context.signal)) records.push(record)
    } catch (error) {
      // Whoever gives it up sees what came: it counts as read.
      if (!context.signal.aborted || records.length === 0) throw error
    }
  }
  return recordTable(records, topic, `nothing came within ${counted(timeoutSeconds, 'second')}`)
}

function recordTable(records: readonly ClientRecord[], topic: string, whenEmpty: string): Result {
  // A consumer reads all its topics at once.
  const isMixed = records.some((record) => record.topic !== topic)
  const hasHeaders = records.some(({ headers }) => headers.length > 0)
  const columns = [...(isMixed ? ['topic'] : []), 'partition', 'offset', 'key', 'value', ...(hasHeaders ? ['headers'] : [])]
  const rows = records.map((record): Cell[] => {
    const cells: Cell[] = [record.partition, record.offset, record.key, record.value]
    if (isMixed) cells.unshift(record.topic)
    if (hasHeaders) cells.push(headersOf(record))
    return cells
  })
  return table(columns, rows, whenEmpty)
}

function membership({ group, memberId, assignment }: Membership): Result {
  const rows = assignment.map(({ topic, partitions }): Cell[] => [group, topic, partitions.join(', ')])
  return { columns: ['group', 'topic', 'partitions'], rows, facts: null, notes: [`member ${memberId} of group ${group}`] }
}

function help(word: string | null): Result {
  const text = helpText(word)
  if (text === null) return { ...DONE, facts: { help: null }, notes: [`there is no help about ${word}; HELP; lists every statement`] }
  return { ...DONE, facts: { help: text }, notes: [text.trimEnd()] }
}

function table(columns: readonly string[], rows: readonly (readonly Cell[])[], whenEmpty: string): Result {
  return { columns, rows, facts: null, notes: rows.length === 0 ? [whenEmpty] : [] }
}

function done(facts: Readonly<Record<string, unknown>>, note: string): Result {
  return { columns: [], rows: [], facts, notes: [note] }
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
