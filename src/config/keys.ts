import { decimal, flag, integer, integerOrNull, type Key, text, textOrNull, word } from './key.ts'

const DAY_S = 86_400
const INT_MAX = 2 ** 31 - 1

/**
 * Every setting of `moonmq.json` but `listeners` and `kafka`, which have tables of their own. Durations keep the unit in which
 * operators know them.
 */
export const SETTINGS = {
  server: {
    host: text('127.0.0.1', {
      min: 1,
      doc: 'Address of the first listener. An address that other machines reach needs security.allowAnonymous.',
    }),
    port: integer(9092, { min: 0, max: 65_535, doc: 'Port of the first listener; 0 = any free one.' }),
    dataDir: text('./moonmq-data', { min: 1, doc: 'Folder of the data; made when it is missing.' }),
    memory: flag(false, { doc: 'Keep everything in memory: nothing is written, nothing survives the stop.' }),
    memoryTopicBytes: integer(268_435_456, {
      unit: 'bytes',
      min: 1_048_576,
      max: Number.MAX_SAFE_INTEGER,
      doc: 'Most memory for the records of all topics with moonmq.storage=memory together. What does not fit is refused until retention made room.',
    }),
    storageBackend: word('segmented', ['segmented', 'commitlog'], {
      doc: 'Preset of settings for new topics: their moonmq.backend when they are made without one.',
    }),
    maxConnections: integer(10_000, {
      min: 1,
      max: 1_000_000,
      doc: 'Most connections at once, lowered to what the descriptor limit leaves beside the files of logs and fdReserve.',
    }),
    maxConnectionsPerIp: integer(32, {
      min: 1,
      max: 1_000_000,
      doc: 'Most connections of one address that have not logged in; loopback is not counted.',
    }),
    fdReserve: integer(64, {
      min: 0,
      max: 1_000_000,
      doc: 'Descriptors that are left for what is neither a connection nor a file of a log. Files of logs have half of the descriptor limit, at most 32768.',
    }),
    maxFrameSize: integer(1_048_576, { unit: 'bytes', min: 1024, max: 104_857_600, doc: 'Largest frame that a native client may send.' }),
    maxPendingBytes: integer(16_777_216, {
      unit: 'bytes',
      min: 65_536,
      max: INT_MAX,
      doc: 'Most bytes that wait to be sent on one connection.',
    }),
    sendDeadline: decimal(30, { unit: 's', min: 0.1, max: DAY_S, doc: 'Time for a client to take what was sent to it.' }),
    handshakeDeadline: decimal(5, { unit: 's', min: 0.1, max: DAY_S, doc: 'Time for a native client to log in.' }),
    preAuthReadDeadline: decimal(5, {
      unit: 's',
      min: 0.1,
      max: DAY_S,
      doc: 'Time for each frame of a native client before it has logged in.',
    }),
    idleDeadline: decimal(60, { unit: 's', min: 0.1, max: DAY_S, doc: 'Time for a native client to finish a frame that it has begun.' }),
    heartbeatInterval: decimal(30, { unit: 's', min: 0.1, max: DAY_S, doc: 'Time between two heartbeats to a native client.' }),
    heartbeatMissThreshold: integer(3, {
      min: 1,
      max: 1000,
      doc: 'Heartbeat intervals without a frame after which a native client is gone.',
    }),
    maxTopics: integerOrNull(null, { min: 1, max: INT_MAX, nullMeans: 'no limit', doc: 'Most topics, internal ones apart.' }),
    maxListTopics: integer(1024, { min: 1, max: INT_MAX, doc: 'Most topics in one listing of the native protocol and of /stats.' }),
    producerExpirySeconds: integer(DAY_S, {
      unit: 's',
      min: 0,
      max: INT_MAX,
      doc: 'Time after which a named producer that sends nothing is forgotten; 0 = never.',
    }),
    producerExpiryCheckIntervalSeconds: integer(300, {
      unit: 's',
      min: 1,
      max: DAY_S,
      doc: 'Time between two looks for such producers.',
    }),
    acks: word('leader', ['none', 'leader', 'all'], {
      doc: 'When a record of a native client is acknowledged: after the append, on disk here, on disk on every in-sync replica.',
    }),
    groupCommit: {
      lingerMs: decimal(0, {
        unit: 'ms',
        min: 0,
        max: 1000,
        doc: 'Longest wait for more writers before a sync. The sync in flight is the window already; more only lengthens it.',
      }),
      maxWaiters: integer(64, { min: 1, max: INT_MAX, doc: 'With lingerMs: writers that start the sync at once.' }),
    },
    dlq: {
      suffix: text('.dlq', { min: 1, doc: 'What is added to the name of a topic for its dead letters.' }),
      maxDeliveries: integer(3, { min: 1, max: INT_MAX, doc: 'NACKs of a group after which a record becomes a dead letter.' }),
    },
    metricsAuth: {
      token: text('', {
        secret: true,
        doc: 'Bearer token for metrics and statistics. Empty: the variable MOONMQ_METRICS_TOKEN, and without that no token is asked for.',
      }),
      basic: flag(false, { doc: "HTTP Basic login of the broker's users. There are no users yet, so true stops the start.", idle: true }),
    },
  },
  http: {
    host: text('127.0.0.1', {
      min: 1,
      doc: 'Address of the HTTP listener: metrics, health, statistics; on a loopback address also statements (docs/MQL.md).',
    }),
    port: integerOrNull(9090, { min: 0, max: 65_535, nullMeans: 'no HTTP listener', doc: 'Its port; 0 = any free one.' }),
  },
  logging: {
    level: word('info', ['debug', 'info', 'warn', 'error'], { doc: 'Least level that is logged.', reloadable: true }),
    file: text('', { doc: 'File to append the log to; empty = none. When it cannot be opened, the log goes to standard error.' }),
    logToStderr: flag(true, { doc: 'Whether the log goes to standard error too.' }),
  },
  security: {
    allowAnonymous: flag(false, {
      doc: 'Allow listeners on addresses that other machines reach although nobody has to log in. Anybody who reaches them may read, write and delete.',
    }),
  },
} as const

/** Values of a table of keys: the same tree with each key's own type. */
export type ValuesOf<T> = T extends Key<infer V> ? V : { readonly [K in keyof T]: ValuesOf<T[K]> }

export const PROTOCOLS = ['native', 'kafka'] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** Fields of one entry of `listeners`. */
export const LISTENER_FIELDS = {
  name: text('default', { min: 1, doc: 'Its name in the log and in metrics; no two are the same.' }),
  host: text('127.0.0.1', { min: 1, doc: 'Address to listen on.' }),
  port: integer(9092, { min: 0, max: 65_535, doc: 'Port to listen on; 0 = any free one.' }),
  advertised: textOrNull(null, {
    nullMeans: 'the address that the client connected to',
    doc: 'HOST:PORT that clients are told to connect to.',
  }),
  allowPlaintext: flag(false, { doc: 'Whether a listener with a certificate takes connections without TLS too.', idle: true }),
} as const

/** Its protocols; the only field that is a list. */
export const LISTENER_PROTOCOLS_DOC = 'Protocols that are spoken there. With both, a connection is told apart by its first bytes.'

export interface ListenerSettings extends ValuesOf<typeof LISTENER_FIELDS> {
  readonly protocols: readonly Protocol[]
}

/** All settings in force. */
export interface Settings extends ValuesOf<typeof SETTINGS> {
  readonly listeners: readonly ListenerSettings[]
  /** Broker settings under Kafka's dotted names: only those that somebody set, checked. Defaults are in `broker-settings.ts`. */
  readonly kafka: ReadonlyMap<string, string>
}

/** Every key by its full path, in the order of the table. */
export function allKeys(): ReadonlyMap<string, Key> {
  const keys = new Map<string, Key>()
  const visit = (node: object, prefix: string): void => {
    for (const [name, child] of Object.entries(node)) {
      if (isKey(child)) keys.set(`${prefix}${name}`, child)
      else visit(child, `${prefix}${name}.`)
    }
  }
  visit(SETTINGS, '')
  return keys
}

function isKey(node: unknown): node is Key {
  return typeof node === 'object' && node !== null && 'kind' in node && 'doc' in node
}
