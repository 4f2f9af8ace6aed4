import { fnv1a } from '../../src/core/hash.ts'
import { type Random, SeededRandom } from '../../src/core/random.ts'
import { type BodyData, type FieldData, within } from '../../src/schema/fields.ts'

/** Random messages that depend on nothing but their name, so that a fixture needs only the bytes of them. */
export function randomMessage(name: string, body: BodyData, version: number, variant = 0): Record<string, unknown> {
  return randomFields(new SeededRandom(fnv1a(Buffer.from(`${name} ${version} ${variant}`))), body.fields, version)
}

const TEXTS = ['', 'a', 'orders', 'größe', '日本', '😀', 'x'.repeat(130)]

function randomFields(random: Random, fields: readonly FieldData[], version: number): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  for (const field of fields) {
    if (!within(field.versions, version)) continue
    const tagged = field.tag !== undefined && within(field.tagVersions ?? field.versions, version)
    if (tagged && random.below(3) === 0) continue
    out[field.name] = randomField(random, field, version)
  }
  return out
}

function randomField(random: Random, field: FieldData, version: number): unknown {
  const nullable = field.nullable === true || (field.nullable !== undefined && within(field.nullable, version))
  if (nullable && random.below(4) === 0) return null
  if (field.type.startsWith('[]')) {
    return Array.from({ length: random.below(3) }, () => randomElement(random, field, field.type.slice(2), version))
  }
  return randomElement(random, field, field.type, version)
}

function randomElement(random: Random, field: FieldData, type: string, version: number): unknown {
  if (field.fields !== undefined) return randomFields(random, field.fields, version)
  const signed = (bits: number) => {
    const edge = random.below(6)
    const half = 2 ** (bits - 1)
    if (edge === 0) return -half
    if (edge === 1) return half - 1
    return edge < 4 ? random.below(100) - 1 : random.below(half * 2) - half
  }
  switch (type) {
    case 'bool':
      return random.below(2) === 1
    case 'int8':
      return signed(8)
    case 'int16':
      return signed(16)
    case 'int32':
      return signed(32)
    case 'int64':
      return signed(53)
    case 'hash64':
      return String(signed(53))
    case 'uint16':
      return random.below(65536)
    case 'uint32':
      return random.below(4294967296)
    case 'float64':
      return random.below(100_000) / 8 - 5000
    case 'uuid':
      return random.bytes(16).toString('base64url')
    case 'string':
      return TEXTS[random.below(TEXTS.length)]
    default:
      return random.bytes(random.below(20))
  }
}
