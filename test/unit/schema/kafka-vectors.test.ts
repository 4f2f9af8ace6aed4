import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readSchemaFiles } from '../../../scripts/kafka-types.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { ByteReader } from '../../../src/core/reader.ts'
import { ByteWriter } from '../../../src/core/writer.ts'
import { type Codec, compileBody, type Steps } from '../../../src/schema/compile.ts'
import type { BodyData } from '../../../src/schema/fields.ts'
import { randomMessage } from '../../support/random-message.ts'

/** A line of the fixture: what Kafka's own class wrote for the random message of that name and version. */
interface Vector {
  readonly name: string
  readonly version: number
  readonly bytes: Buffer
}

const VECTORS: Vector[] = readFileSync('test/fixtures/kafka-messages.txt', 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => {
    const [name, version, base64] = line.split(' ') as [string, string, string]
    return { name, version: Number(version), bytes: Buffer.from(base64, 'base64') }
  })

const BODIES = bodies()

function bodies(): Map<string, { body: BodyData; versions: readonly [number, number] }> {
  const { messages, records } = readSchemaFiles('src/schema')
  const out = new Map<string, { body: BodyData; versions: readonly [number, number] }>()
  for (const api of Object.values(messages.apis)) {
    if (api.removed) continue
    out.set(`${api.name}Request`, { body: api.request, versions: api.versions })
    out.set(`${api.name}Response`, { body: api.response, versions: api.responseVersions ?? api.versions })
  }
  for (const [name, data] of Object.entries(messages.other)) out.set(name, { body: data, versions: data.versions })
  for (const group of Object.values(records)) {
    if (typeof group === 'string') continue
    for (const [name, data] of Object.entries(group.records)) out.set(name, { body: data, versions: data.versions })
  }
  return out
}

function codecOf({ name, version }: Vector): Codec<Record<string, unknown>> {
  const found = BODIES.get(name)
  assert.ok(found, name)
  return compileBody(name, found.body, version)
}

function givenTo({ name, version }: Vector): Record<string, unknown> {
  const found = BODIES.get(name)
  assert.ok(found, name)
  return randomMessage(name, found.body, version)
}

/** Everything that `given` says is in `decoded`; fields that it leaves out may have any value. */
function assertIncludes(decoded: unknown, given: unknown, path: string): void {
  if (Buffer.isBuffer(given) || given === null || typeof given !== 'object') {
    assert.deepEqual(decoded, given, path)
    return
  }
  if (Array.isArray(given)) {
    assert.ok(Array.isArray(decoded), path)
    assert.equal(decoded.length, given.length, path)
    for (const [index, each] of given.entries()) assertIncludes(decoded[index], each, `${path}[${index}]`)
    return
  }
  for (const [name, each] of Object.entries(given)) {
    assertIncludes((decoded as Record<string, unknown>)[name], each, `${path}.${name}`)
  }
}

function encode(codec: Codec<Record<string, unknown>>, value: Record<string, unknown>): Buffer {
  const writer = new ByteWriter()
  codec.encode(writer, value)
  return writer.toBuffer()
}

function allOf<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

test('there is a vector for every version of every message', () => {
  const seen = new Set(VECTORS.map(({ name, version }) => `${name} ${version}`))
  for (const [name, { versions }] of BODIES) {
    for (let version = versions[0]; version <= versions[1]; version++) assert.ok(seen.has(`${name} ${version}`), `${name} ${version}`)
  }
})

test("every message has the bytes that Kafka's own class writes", () => {
  for (const vector of VECTORS) {
    assert.equal(encode(codecOf(vector), givenTo(vector)).toString('hex'), vector.bytes.toString('hex'), `${vector.name} ${vector.version}`)
  }
})

test("what Kafka's own class wrote is read to its last byte, and written again the same", () => {
  for (const vector of VECTORS) {
    const codec = codecOf(vector)
    const reader = new ByteReader(vector.bytes)
    const decoded = codec.decode(reader)
    reader.expectEnd(vector.name)
    assertIncludes(decoded, givenTo(vector), `${vector.name} ${vector.version}`)
    assert.deepEqual(encode(codec, decoded), vector.bytes)
  }
})

test('in steps every message is read and written as it is in one go', () => {
  for (const vector of VECTORS) {
    const codec = codecOf(vector)
    const reader = new ByteReader(vector.bytes)
    const decoded = allOf(codec.decodeInSteps(reader))
    reader.expectEnd(vector.name)
    assert.deepEqual(decoded, codec.decode(new ByteReader(vector.bytes)), `${vector.name} ${vector.version}`)
    const writer = new ByteWriter()
    allOf(codec.encodeInSteps(writer, decoded))
    assert.deepEqual(writer.toBuffer(), vector.bytes, `${vector.name} ${vector.version}`)
    if (vector.bytes.length === 0) continue
    assert.throws(() => allOf(codec.decodeInSteps(new ByteReader(vector.bytes, 0, vector.bytes.length - 1))), { code: 'BAD_FRAME' })
  }
})

test('every truncation is refused with a typed error', () => {
  for (const vector of VECTORS) {
    const codec = codecOf(vector)
    for (let size = 0; size < vector.bytes.length; size++) {
      assert.throws(
        () => codec.decode(new ByteReader(vector.bytes, 0, size)),
        { code: 'BAD_FRAME' },
        `${vector.name} ${vector.version} at ${size}`,
      )
    }
  }
})

test('a flipped byte gives another message or a typed error, never anything else', () => {
  for (const vector of VECTORS) {
    const codec = codecOf(vector)
    for (let at = 0; at < vector.bytes.length; at++) {
      const copy = Buffer.from(vector.bytes)
      copy[at] = (copy[at] as number) ^ (1 << (at & 7))
      try {
        codec.decode(new ByteReader(copy))
      } catch (error) {
        assert.ok(error instanceof MoonMQError && error.code === 'BAD_FRAME', `${vector.name} ${vector.version} at ${at}: ${error}`)
      }
    }
  }
})
