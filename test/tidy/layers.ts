/**
 * The layers of `src/` as data. A folder imports `core` and what its row names, nothing else: an upward need is an interface
 * declared in the lower folder and passed in by `server/broker-server.ts`.
 */
export interface Layer {
  readonly folder: string
  /** Folders it may import besides `core` and itself. */
  readonly may: readonly string[]
  /** Its entry modules: what other folders may import, without `.ts`; null = every one. The rest is private to it. */
  readonly entries: readonly string[] | null
}

function layer(folder: string, may: readonly string[], entries: readonly string[] | null = null): Layer {
  return { folder, may, entries }
}

const BELOW_DOORS = ['obs', 'io', 'record', 'config', 'security', 'metadata', 'broker']
const BELOW_SERVER = [...BELOW_DOORS, 'schema', 'wire', 'storage', 'native', 'kafka', 'http', 'client', 'mql']
const BELOW_COMMAND = ['server', 'client', 'mql', 'chaos', 'config', 'storage', 'record', 'schema', 'io', 'obs']

export const LAYERS: readonly Layer[] = [
  layer('core', []),
  layer('obs', [], ['logger', 'metrics', 'scrape']),
  layer(
    'io',
    [],
    [
      'atomic-file',
      'disk',
      'door',
      'failpoints',
      'host',
      'job-server',
      'loader',
      'memory-disk',
      'net',
      'node-disk',
      'node-net',
      'offload',
      'system-error',
      'virtual-net',
    ],
  ),
  layer('schema', [], ['compile', 'messages', 'primitives', 'records', 'types.generated']),
  layer('record', ['schema'], ['batch', 'batch-jobs', 'builder', 'compression', 'control', 'dead-letter', 'inflater', 'record']),
  layer(
    'config',
    [],
    [
      'address',
      'broker-settings',
      'failpoints',
      'group-settings',
      'kafka-setting',
      'keys',
      'load',
      'resolve',
      'show',
      'telemetry-settings',
      'topic-settings',
    ],
  ),
  layer('wire', ['record'], ['errors', 'frame', 'limits', 'messages', 'opcodes', 'records']),
  layer(
    'storage',
    ['obs', 'io', 'schema', 'record'],
    [
      'buffer-pool',
      'checkpoint',
      'clean-logs',
      'compaction/cleaner',
      'compaction/note',
      'compaction/swap',
      'epoch-checkpoint',
      'files',
      'identity',
      'import-partition',
      'journal-content',
      'journal-format',
      'journal-note',
      'journal-replay',
      'lock',
      'log-manager',
      'offset-index',
      'producer-snapshot',
      'producer-state',
      'repair',
      'repair-plan',
      'retention-note',
      'retention-pass',
      'scan',
      'time-index',
      'txn-index',
      'types',
      'validate',
      'validate-findings',
      'walk',
    ],
  ),
  layer('security', ['obs', 'io']),
  layer(
    'metadata',
    ['obs', 'io', 'schema', 'record', 'config', 'storage', 'security'],
    ['config-plans', 'import-topic', 'kafka-topics', 'metadata-log', 'names', 'offline', 'plans', 'types'],
  ),
  layer(
    'broker',
    ['obs', 'schema', 'record', 'config', 'storage', 'security', 'metadata'],
    ['broker', 'context', 'log-source', 'ports', 'settings', 'topics/topic-settings'],
  ),
  layer('native', [...BELOW_DOORS, 'wire'], ['listener', 'options']),
  layer('kafka', [...BELOW_DOORS, 'schema'], ['listener']),
  layer('http', BELOW_DOORS, ['app', 'statements']),
  layer('client', ['io', 'record', 'wire'], ['abortable', 'index', 'merge', 'types']),
  layer('mql', ['client']),
  layer('chaos', ['client'], ['index']),
  layer('server', BELOW_SERVER, ['broker-server', 'embedded', 'import', 'machine', 'offline', 'repair', 'signals', 'version']),
  layer('cli', BELOW_COMMAND),
  layer('testing', BELOW_COMMAND),
  // The file src/index.ts: what the package exports.
  layer('index', BELOW_COMMAND),
]

/** Node's modules that `core` may use, and where one of them alone may be used. */
export const CORE_NODE_MODULES = ['node:buffer', 'node:crypto', 'node:util'] as const
export const CORE_NODE_EXCEPTIONS: ReadonlyMap<string, readonly string[]> = new Map([
  ['src/core/clock.ts', ['node:timers']],
  // CRC-32C is the one loop that is worth a native package; it works without it.
  ['src/core/crc32c.ts', ['node:module']],
])

/** Where the package starts: what no path from here reaches is dead. */
export const ROOTS = [
  'src/index.ts',
  'src/client/index.ts',
  'src/chaos/index.ts',
  'src/testing/index.ts',
  'src/cli/main.ts',
  'src/server/codec-thread.ts',
] as const
