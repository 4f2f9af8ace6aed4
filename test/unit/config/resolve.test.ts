import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ResolvedConfig, resolveConfig } from '../../../src/config/resolve.ts'
import { shownSettings } from '../../../src/config/show.ts'
import { isCode } from '../../../src/core/errors.ts'

type Flags = Parameters<typeof resolveConfig>[0]['flags']

function file(content: unknown, name = 'moonmq.json') {
  const style = name.startsWith('appsettings') ? ('appsettings' as const) : ('moonmq' as const)
  return { name, text: typeof content === 'string' ? content : JSON.stringify(content), style }
}

function resolved(content: unknown, env: Record<string, string> = {}, flags: Flags = []): ResolvedConfig {
  return resolveConfig({ files: [file(content)], env, flags })
}

/** Runs, and checks that it is refused with a message that holds every word. */
function refused(run: () => unknown, ...words: (string | RegExp)[]): void {
  assert.throws(run, (error) => {
    assert.ok(isCode(error, 'SETTING_INVALID'), String(error))
    for (const word of words) {
      const found = typeof word === 'string' ? error.message.includes(word) : word.test(error.message)
      assert.ok(found, `"${error.message}" lacks ${word}`)
    }
    return true
  })
}

test('without anything the defaults hold: loopback, one listener for both protocols, no login needed', () => {
  const { settings, origins, warnings } = resolveConfig({ files: [], env: {}, flags: [] })
  assert.deepEqual(settings.listeners, [
    { name: 'default', host: '127.0.0.1', port: 9092, protocols: ['native', 'kafka'], advertised: null, allowPlaintext: false },
  ])
  assert.deepEqual(settings.http, { host: '127.0.0.1', port: 9090 })
  assert.equal(settings.server.groupCommit.lingerMs, 0)
  assert.equal(settings.server.maxTopics, null)
  assert.equal(settings.kafka.size, 0)
  assert.equal(origins.size, 0)
  assert.deepEqual(warnings, [])
})

test('files, variables and flags win in this order, and every value knows where it came from', () => {
  const files = [
    file({ server: { port: 1, maxConnections: 1, idleDeadline: 1, maxFrameSize: 2048 } }),
    file({ server: { maxConnections: 2, idleDeadline: 2, maxFrameSize: 4096 } }, 'moonmq.test.json'),
  ]
  const env = { MOONMQ_SERVER__IDLE_DEADLINE: '3', MOONMQ_SERVER__MAX_FRAME_SIZE: '8192', PATH: '/bin' }
  const config = resolveConfig({ files, env, flags: [{ flag: '--set', path: 'server.maxFrameSize', value: 16_384 }] })
  const { port, maxConnections, idleDeadline, maxFrameSize } = config.settings.server
  assert.deepEqual(
    { port, maxConnections, idleDeadline, maxFrameSize },
    { port: 1, maxConnections: 2, idleDeadline: 3, maxFrameSize: 16_384 },
  )
  const from = (path: string) => config.origins.get(path)?.name
  assert.equal(from('server.port'), 'moonmq.json')
  assert.equal(from('server.maxConnections'), 'moonmq.test.json')
  assert.equal(from('server.idleDeadline'), 'MOONMQ_SERVER__IDLE_DEADLINE')
  assert.equal(from('server.maxFrameSize'), '--set')
})

test('objects merge, lists replace, keys with an underscore in front are comments', () => {
  const files = [
    file({ $schema: './moonmq.schema.json', _note: 'x', listeners: [{ port: 1 }, { port: 2 }], logging: { level: 'debug', _why: 1 } }),
    file({ listeners: [{ name: 'only', port: 3, protocols: ['kafka'] }], logging: { file: 'a.log' } }, 'moonmq.test.json'),
  ]
  const { settings } = resolveConfig({ files, env: {}, flags: [] })
  assert.deepEqual(
    settings.listeners.map(({ name, port, protocols }) => ({ name, port, protocols })),
    [{ name: 'only', port: 3, protocols: ['kafka'] }],
  )
  assert.deepEqual(settings.logging, { level: 'debug', file: 'a.log', logToStderr: true })
})

test('server.host, server.port and --listen are the first listener', () => {
  const listeners = [
    { name: 'a', port: 1 },
    { name: 'b', port: 2 },
  ]
  const ports = (config: ResolvedConfig) => config.settings.listeners.map((listener) => listener.port)
  assert.deepEqual(ports(resolved({ server: { port: 5 } })), [5])
  assert.deepEqual(ports(resolved({ server: { port: 5 }, listeners })), [1, 2])
  const flags = [{ flag: '--listen', path: 'server.port', value: 7 }]
  const config = resolved({ listeners }, {}, flags)
  assert.deepEqual(ports(config), [7, 2])
  assert.equal(config.settings.server.port, 7)
  assert.deepEqual(ports(resolved({}, { MOONMQ_LISTENERS: '[{"port":8}]' })), [8])
})

test('an unknown key stops the start naming key, value and the nearest known key with its range', () => {
  refused(() => resolved({ server: { maxConections: 5 } }), 'server.maxConections=5', 'moonmq.json', 'server.maxConnections', '1..1000000')
  refused(() => resolved({ Server: { Port: 5 } }), 'Server.Port=5', 'server.port')
  refused(() => resolved({ kafka: { 'num.partition': 5 } }), 'num.partition=5', 'num.partitions')
  refused(() => resolved({ listeners: [{ prot: 1 }] }), 'listeners[0].prot', 'port')
  refused(() => resolved({}, { MOONMQ_SERVER__PROT: '1' }), 'MOONMQ_SERVER__PROT', 'MOONMQ_SERVER__PORT')
  refused(() => resolved({}, { MOONMQ_ENVIROMENT: 'x' }), 'MOONMQ_ENVIRONMENT')
})

test('a bad value stops the start naming key, value, range and where it stands', () => {
  refused(() => resolved({ server: { port: 65_536 } }), 'server.port=65536', '0..65535', 'moonmq.json')
  refused(() => resolved({ server: { port: '9092' } }), 'server.port="9092"')
  refused(() => resolved({ server: { port: 1.5 } }), 'a whole number')
  refused(() => resolved({ server: { acks: 'quorum' } }), 'server.acks="quorum"', 'none, leader, all')
  refused(() => resolved({ server: { host: '' } }), 'not empty')
  refused(() => resolved({ server: { port: null } }), 'server.port=null')
  refused(() => resolved({ server: 5 }), 'server=5')
  refused(() => resolved({}, { MOONMQ_SERVER__PORT: 'many' }), 'server.port="many"', 'MOONMQ_SERVER__PORT')
  refused(() => resolved({ kafka: { 'num.partitions': 0 } }), 'num.partitions=0', '1..100000', 'moonmq.json')
  refused(() => resolved({ kafka: { 'num.partitions': [1] } }), 'num.partitions', 'one value')
  refused(() => resolved({ listeners: [] }), 'listeners')
  refused(() => resolved({ listeners: [{ protocols: ['mqtt'] }] }), 'listeners[0].protocols=["mqtt"]', 'native, kafka')
  refused(() => resolved('{'), 'moonmq.json is not valid JSON')
  refused(() => resolved('[]'), 'one JSON object')
  refused(() => resolved('['.repeat(100_000)), 'moonmq.json')
})

test('a secret is not shown in an error nor by config show', () => {
  refused(() => resolved({ server: { metricsAuth: { token: 12_345 } } }), '(secret)', /^(?!.*12345)/)
  const config = resolved({ server: { metricsAuth: { token: 'hunter2' } } })
  assert.equal(config.settings.server.metricsAuth.token, 'hunter2')
  assert.ok(!JSON.stringify(shownSettings(config)).includes('hunter2'))
})

test('the token comes from MOONMQ_METRICS_TOKEN when the key is absent or empty', () => {
  const env = { MOONMQ_METRICS_TOKEN: 'from-env' }
  const token = (content: unknown) => resolved(content, env).settings.server.metricsAuth.token
  assert.equal(token({}), 'from-env')
  assert.equal(token({ server: { metricsAuth: { token: '' } } }), 'from-env')
  assert.equal(token({ server: { metricsAuth: { token: 'own' } } }), 'own')
})

test('a listener that other machines reach needs security.allowAnonymous', () => {
  refused(() => resolved({ server: { host: '0.0.0.0' } }), '0.0.0.0:9092', 'security.allowAnonymous')
  refused(() => resolved({ listeners: [{}, { name: 'wide', host: '10.0.0.1', port: 1 }] }), '"wide"', '10.0.0.1:1')
  refused(() => resolved({ http: { host: '::' } }), '[::]:9090', 'security.allowAnonymous')
  const open = resolved({ server: { host: '0.0.0.0' }, http: { host: '::' }, security: { allowAnonymous: true } })
  assert.equal(open.settings.listeners[0]?.host, '0.0.0.0')
  assert.equal(resolved({ http: { host: '::' }, server: { metricsAuth: { token: 't' } } }).settings.http.host, '::')
  assert.equal(resolved({ http: { host: '::', port: null } }).settings.http.port, null)
  for (const host of ['127.0.0.2', '::1', 'localhost']) assert.equal(resolved({ server: { host } }).settings.server.host, host)
})

test('what cannot both be true is refused', () => {
  refused(
    () =>
      resolved({
        listeners: [
          { name: 'a', port: 1 },
          { name: 'a', port: 2 },
        ],
      }),
    'named "a"',
  )
  refused(
    () =>
      resolved({
        listeners: [
          { name: 'a', port: 1 },
          { name: 'b', port: 1 },
        ],
      }),
    '127.0.0.1:1',
  )
  refused(() => resolved({ http: { port: 9092 } }), 'http.port=9092')
  refused(() => resolved({ listeners: [{ advertised: 'nowhere' }] }), 'advertised="nowhere"', 'HOST:PORT')
  refused(
    () => resolved({ kafka: { 'group.min.session.timeout.ms': 9, 'group.max.session.timeout.ms': 8 } }),
    'group.min.session.timeout.ms=9',
  )
  const anyPort = resolved({
    listeners: [
      { name: 'a', port: 0 },
      { name: 'b', port: 0 },
    ],
  })
  assert.equal(anyPort.settings.listeners.length, 2)
})

test('blocks of later versions stop the start, a gateway block warns', () => {
  for (const content of [
    { server: { tls: true } },
    { server: { tls: { certFile: 'a' } } },
    { server: { replication: { enabled: false } } },
    { server: { cluster: { brokerId: 'a' } } },
    { server: { autobalance: {}, cluster: { brokerId: 'a' } } },
    { server: { tls: {} } },
    { server: { metricsTls: { _comment: 'all defaults' } } },
    { auth: { username: 'admin' } },
    { auth: {} },
    { server: { metricsAuth: { basic: true } } },
  ]) {
    refused(() => resolved(content), 'not in this version')
  }
  const { warnings } = resolved({ gateway: { port: 8080 } })
  assert.equal(warnings.length, 1)
  assert.match(warnings[0] ?? '', /gateway\.port .*http\.port/)
  assert.equal(resolved({ gateway: {} }).warnings.length, 1)
})

test('variables of such blocks are treated as their keys are', () => {
  for (const name of ['MOONMQ_AUTH__USERNAME', 'MOONMQ_SERVER__TLS__CERT_FILE', 'MOONMQ_SERVER__METRICS_TLS']) {
    refused(() => resolved({}, { [name]: 'x' }), name, 'not in this version')
  }
  const { warnings } = resolved({}, { MOONMQ_GATEWAY__MOON_MQ_HOST: '127.0.0.1' })
  assert.match(warnings[0] ?? '', /^gateway\.moonMqHost \(MOONMQ_GATEWAY__MOON_MQ_HOST\) has no effect/)
})

test('a block is a block: other values are refused, an empty one sets nothing, an unknown one is no setting', () => {
  for (const value of [5, null, [], 'x']) refused(() => resolved({ server: value }), 'server=', 'expected a block of settings')
  refused(() => resolved({ serv: {} }), 'serv={}', 'is not a setting')
  refused(() => resolved({ server: { port: {} } }), 'server.port={}', 'expected a whole number')
  assert.equal(resolved({ server: { groupCommit: {} }, kafka: {}, http: { _: 1 } }).origins.size, 0)
})

test('a name that has another place here is shown the way', () => {
  refused(() => resolved({ server: { metricsPort: 1 } }), 'did you mean http.port')
  refused(() => resolved({}, { MOONMQ_SERVER__METRICS_PORT: '1' }), 'did you mean MOONMQ_HTTP__PORT')
})

test('appsettings.json is read in PascalCase, its metrics listener being the HTTP listener', () => {
  const content = {
    Server: { Port: 9192, MaxConnectionsPerIP: 7, GroupCommit: { LingerMs: 2 }, MetricsPort: 9191, DataDir: './d', _Comment: 1 },
    Logging: { Level: 'WARN', LogToStderr: false },
    Gateway: { MoonMQHost: '127.0.0.1' },
    Kafka: { 'num.partitions': 4 },
  }
  const { settings, warnings } = resolveConfig({ files: [file(content, 'appsettings.json')], env: {}, flags: [] })
  assert.equal(settings.server.port, 9192)
  assert.equal(settings.server.maxConnectionsPerIp, 7)
  assert.equal(settings.server.groupCommit.lingerMs, 2)
  assert.equal(settings.http.port, 9191)
  assert.deepEqual(settings.logging, { level: 'warn', file: '', logToStderr: false })
  assert.equal(settings.kafka.get('num.partitions'), '4')
  assert.equal(warnings.length, 1)
  const off = resolveConfig({ files: [file({ Server: { MetricsPort: 0 } }, 'appsettings.json')], env: {}, flags: [] })
  assert.equal(off.settings.http.port, null)
  refused(
    () => resolveConfig({ files: [file({ Auth: { Username: 'admin' } }, 'appsettings.json')], env: {}, flags: [] }),
    'not in this version',
  )
})

test('variables reach every kind of key', () => {
  const env = {
    MOONMQ_HTTP__PORT: 'null',
    MOONMQ_SERVER__MEMORY: 'TRUE',
    MOONMQ_SERVER__HEARTBEAT_INTERVAL: '0.5',
    MOONMQ_KAFKA__NUM_PARTITIONS: '3',
    MOONMQ_KAFKA__LOG_ROLL_MS: '77',
    MOONMQ_TEST_ANYTHING: 'belongs to the tests',
    MOONMQ_SEED: '5',
  }
  const { settings } = resolved({}, env)
  assert.equal(settings.http.port, null)
  assert.equal(settings.server.memory, true)
  assert.equal(settings.server.heartbeatInterval, 0.5)
  assert.deepEqual(
    new Map(settings.kafka),
    new Map([
      ['num.partitions', '3'],
      ['log.roll.ms', '77'],
    ]),
  )
})

test('config show has every key once, with value, default and origin', () => {
  const config = resolved({ server: { port: 5 }, kafka: { 'num.partitions': 2 } })
  const rows = shownSettings(config)
  assert.equal(new Set(rows.map((row) => row.key)).size, rows.length)
  const row = (key: string) => rows.find((candidate) => candidate.key === key)
  assert.deepEqual([row('server.port')?.value, row('server.port')?.default, row('server.port')?.from], [5, 9092, 'moonmq.json'])
  assert.deepEqual([row('kafka.num.partitions')?.value, row('kafka.num.partitions')?.source], ['2', 'file'])
  assert.deepEqual([row('http.port')?.value, row('http.port')?.source], [9090, 'default'])
})
