import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatAddress, isLoopback, parseAddress } from '../../../src/config/address.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { camelCase } from '../../../src/config/overlay.ts'
import { isCode } from '../../../src/core/errors.ts'
import { nearest } from '../../../src/core/nearest.ts'

function load(files: Record<string, unknown>, env: Record<string, string> = {}, configFile: string | null = null) {
  const readText = async (path: string) => (path in files ? JSON.stringify(files[path]) : null)
  return loadConfig({ readText, env, flags: [], configFile })
}

async function refused(run: Promise<unknown>, word: string): Promise<void> {
  await assert.rejects(run, (error) => isCode(error, 'SETTING_INVALID') && error.message.includes(word))
}

test('the file of the environment lies over the base file', async () => {
  const files = {
    'moonmq.json': { server: { port: 1, maxConnections: 1 } },
    'moonmq.development.json': { server: { port: 2 } },
    'moonmq.production.json': { server: { port: 3 } },
  }
  const development = await load(files)
  assert.deepEqual([development.settings.server.port, development.settings.server.maxConnections], [2, 1])
  assert.deepEqual(development.files, ['moonmq.json', 'moonmq.development.json'])
  const production = await load(files, { MOONMQ_ENVIRONMENT: 'production' })
  assert.deepEqual([production.settings.server.port, production.environment], [3, 'production'])
  assert.equal((await load({})).settings.server.port, 9092)
  assert.equal((await load({ 'moonmq.development.json': { server: { port: 4 } } })).settings.server.port, 4)
})

test('appsettings files work the same, and both kinds together are refused', async () => {
  const files = { 'appsettings.json': { Server: { Port: 1 } }, 'appsettings.Development.json': { Server: { Port: 2 } } }
  assert.equal((await load(files)).settings.server.port, 2)
  await refused(load({ ...files, 'moonmq.json': {} }), 'both here')
})

test('--config names the base file, its overlay lies beside it, and it must exist', async () => {
  const files = {
    'moonmq.json': { server: { port: 1 } },
    'etc/broker.json': { server: { port: 2 } },
    'etc/broker.blue.json': { server: { acks: 'all' } },
  }
  const { settings } = await load(files, { MOONMQ_ENVIRONMENT: 'blue' }, 'etc/broker.json')
  assert.deepEqual([settings.server.port, settings.server.acks], [2, 'all'])
  assert.equal((await load({ 'etc/appsettings.json': { Server: { Port: 6 } } }, {}, 'etc/appsettings.json')).settings.server.port, 6)
  await refused(load({}, {}, 'gone.json'), 'gone.json does not exist')
})

test('the name of the environment cannot lead to another folder', async () => {
  await refused(load({}, { MOONMQ_ENVIRONMENT: '../x' }), 'MOONMQ_ENVIRONMENT')
})

test('addresses', () => {
  assert.deepEqual(parseAddress('127.0.0.1:9092'), { host: '127.0.0.1', port: 9092 })
  assert.deepEqual(parseAddress('[::1]:0'), { host: '::1', port: 0 })
  assert.deepEqual(parseAddress('broker.example:65535'), { host: 'broker.example', port: 65_535 })
  for (const bad of ['', '9092', 'a:', 'a:65536', '::1:9092', '[::1]', 'a b:1', 'http://a:1/']) assert.equal(parseAddress(bad), null, bad)
  assert.equal(formatAddress({ host: '::1', port: 1 }), '[::1]:1')
  assert.ok(isLoopback('127.9.9.9') && isLoopback('::ffff:127.0.0.1') && isLoopback('LOCALHOST'))
  assert.ok(!isLoopback('0.0.0.0') && !isLoopback('::') && !isLoopback('127.0.0.1.example.org') && !isLoopback(''))
})

test('a name in PascalCase becomes one of ours', () => {
  assert.equal(camelCase('MaxConnectionsPerIP'), 'maxConnectionsPerIp')
  assert.equal(camelCase('LogToStderr'), 'logToStderr')
  assert.equal(camelCase('Tls'), 'tls')
  assert.equal(camelCase('port'), 'port')
})

test('the nearest name is found despite a swap, a missing letter or other case, and none when nothing is near', () => {
  const known = ['server.port', 'server.host', 'retention.ms']
  assert.equal(nearest('retention.sm', known), 'retention.ms')
  assert.equal(nearest('SERVER.PORT', known), 'server.port')
  assert.equal(nearest('server.hst', known), 'server.host')
  assert.equal(nearest('completely.else', known), null)
})
