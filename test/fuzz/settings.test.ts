import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BROKER_SETTINGS } from '../../src/config/broker-settings.ts'
import { OTHER_VARIABLES, variableOf } from '../../src/config/environment.ts'
import { allKeys } from '../../src/config/keys.ts'
import type { ConfigFile } from '../../src/config/overlay.ts'
import { type ConfigInputs, resolveConfig } from '../../src/config/resolve.ts'
import { shownSettings } from '../../src/config/show.ts'
import { isCode } from '../../src/core/errors.ts'
import type { SeededRandom } from '../../src/core/random.ts'
import { type FuzzTarget, fuzz, mutateBytes, pick } from '../support/fuzz.ts'

/**
 * Settings from files, variables and flags: known keys with values at and beyond their ranges, misspelt keys, wrong types, blocks where
 * values belong, texts that are no JSON. Whatever comes is in force or refused by name; nothing else leaves the reader.
 */
const KEYS = [...allKeys().keys()]
const NAMES = [...KEYS, 'listeners', 'server', 'http', 'kafka', ...BROKER_SETTINGS.map((each) => `kafka.${each.name}`)]
const LISTENER = { name: 'a', host: '127.0.0.1', port: 9092, protocols: ['native', 'kafka'] }

function anyValue(random: SeededRandom, depth = 0): unknown {
  const plain = [null, true, false, '', 'x', '0', '-1', '1e9', 'gzip', '127.0.0.1', '::1', 'a:b', '\u0000', '99999999999999999999']
  const numbers = [0, 1, -1, 0.5, 65_535, 65_536, 2 ** 31, 2 ** 53, -(2 ** 53), 1e300]
  const dice = random.below(10)
  if (dice < 4) return pick(random, plain)
  if (dice < 7) return pick(random, numbers)
  if (dice === 7) return random.bytes(random.below(40)).toString('utf8')
  if (dice === 8 && depth < 4) return Array.from({ length: random.below(4) }, () => anyValue(random, depth + 1))
  const blocks = [LISTENER, [LISTENER], [{ ...LISTENER, port: 0 }, LISTENER], [{ ...LISTENER, [pick(random, KEYS)]: 1 }], {}]
  // A copy: `nested` puts further values into it, the same block perhaps.
  return structuredClone(pick(random, blocks))
}

/** Mostly a key that exists; else one that nearly does. */
function anyPath(random: SeededRandom): string {
  const path = pick(random, NAMES)
  const at = random.below(path.length)
  const dice = random.below(12)
  if (dice === 0) return path.slice(0, at) + path.slice(at + 1)
  if (dice === 1) return `${path}.${pick(random, KEYS)}`
  if (dice === 2) return pick(random, ['', '.', '__proto__', 'constructor', 'server.__proto__.x', 'gateway.port', 'toString'])
  return path
}

function nested(paths: readonly (readonly [string, unknown])[]): object {
  const root: Record<string, unknown> = {}
  for (const [path, value] of paths) {
    const isKafka = path.startsWith('kafka.')
    const parts = isKafka ? ['kafka', path.slice('kafka.'.length)] : path.split('.')
    const last = parts.pop() as string
    let node = root
    for (const part of parts) {
      const next = Object.hasOwn(node, part) ? node[part] : undefined
      const block: Record<string, unknown> = typeof next === 'object' && next !== null ? (next as Record<string, unknown>) : {}
      Object.defineProperty(node, part, { value: block, enumerable: true, configurable: true, writable: true })
      node = block
    }
    Object.defineProperty(node, last, { value, enumerable: true, configurable: true, writable: true })
  }
  return root
}

function anyFile(random: SeededRandom): ConfigFile {
  const given = Array.from({ length: random.below(5) }, () => [anyPath(random), anyValue(random)] as const)
  let text = JSON.stringify(nested(given))
  if (random.below(6) === 0) text = mutateBytes(random, Buffer.from(text)).toString('utf8')
  if (random.below(60) === 0) text = '{"a":'.repeat(5_000) + text
  const style = random.below(4) === 0 ? 'appsettings' : 'moonmq'
  return { name: `${style}.json`, text, style }
}

const target: FuzzTarget<ConfigInputs> = {
  name: 'settings',
  make(random) {
    const env: Record<string, string> = {}
    for (let count = random.below(3); count > 0; count--) {
      const name =
        random.below(4) === 0 ? pick(random, [...OTHER_VARIABLES.keys(), 'MOONMQ_', 'MOONMQ_X__', 'PATH']) : variableOf(anyPath(random))
      env[name] = String(anyValue(random))
    }
    const flags = Array.from({ length: random.below(2) }, () => ({ flag: '--set', path: anyPath(random), value: anyValue(random) }))
    return { files: Array.from({ length: random.below(3) }, () => anyFile(random)), env, flags }
  },
  run(inputs) {
    const resolved = resolveConfig(inputs)
    assert.ok(resolved.settings.listeners.every(({ port }) => Number.isInteger(port) && port >= 0 && port <= 65_535))
    assert.ok(shownSettings(resolved).length > 0)
    assert.equal(({} as Record<string, unknown>)['x'], undefined, 'a key reached the prototype of all objects')
  },
  isExpected: (error) => isCode(error, 'SETTING_INVALID') && error.message.length < 20_000,
  show: (inputs) => JSON.stringify(inputs).slice(0, 4000),
}

test('settings are in force or refused by name', async (t) => {
  const { rounds, accepted } = await fuzz(target)
  t.diagnostic(`${rounds} rounds, ${accepted} in force`)
  assert.ok(accepted > 0 && accepted < rounds)
})

test('planted: a setting that lets another error out is found', async () => {
  const run = (inputs: ConfigInputs) => {
    for (const { text } of inputs.files) JSON.parse(text)
  }
  await assert.rejects(fuzz({ ...target, run }, 0), /MOONMQ_SEED=\d+ begins with it/)
})
