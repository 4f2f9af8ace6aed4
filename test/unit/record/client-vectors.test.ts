import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { NodeLoader } from '../../../src/io/loader.ts'
import { AT, checkNewBatch, codecOf, readBatchHeader, verifyBatchCrc } from '../../../src/record/batch.ts'
import { CODEC, Codecs, codecName } from '../../../src/record/compression.ts'
import { readRecords, validateRecords } from '../../../src/record/record.ts'
import { fixture } from '../../support/root.ts'

/** What clients in the field sent, in every codec: compressed by their own libraries, snappy in both framings. */
const BATCHES = fixture('client-batches.txt')
  .toString()
  .trimEnd()
  .split('\n')
  .map((line) => {
    const [name, base64] = line.split(' ') as [string, string]
    return { name, bytes: Buffer.from(base64, 'base64') }
  })

const codecs = new Codecs({ loader: new NodeLoader() })

before(async () => {
  for (const codec of Object.values(CODEC)) await codecs.ready(codec)
})

test('batches of other clients are read in each codec', () => {
  assert.equal(BATCHES.length, 10)
  for (const { name, bytes } of BATCHES) {
    const header = readBatchHeader(bytes)
    verifyBatchCrc(bytes, 0, header)
    checkNewBatch(header)
    const codec = codecName(codecOf(header))
    assert.ok(name.endsWith(`-${codec}`), name)
    const section = codecs.inflateRecords(bytes, 0, header)
    validateRecords(section, header, { dense: true })
    const records = [...readRecords(section, header)]
    assert.deepEqual(
      records.map(({ key, value, headers }) => [String(key), String(value), headers.map((each) => `${each.key}=${each.value}`).join()]),
      Array.from({ length: 40 }, (_, i) => [`k${i + 1}`, `${codec} value ${i + 1} ${'x'.repeat(30)}`, 'h=a']),
      name,
    )
  }
})

test('snappy comes as a raw block from one and in xerial frames from another', () => {
  const raw = BATCHES.filter(({ name }) => name.endsWith('snappy')).map(
    ({ bytes }) => bytes.toString('latin1', AT.records + 1, AT.records + 7) !== 'SNAPPY',
  )
  assert.ok(raw.includes(true), 'a raw block')
  const java = fixture('kafka-batches.txt')
    .toString()
    .split('\n')
    .find((line) => line.startsWith('snappy-30 '))
  const bytes = Buffer.from(java?.split(' ')[1] ?? '', 'base64')
  assert.equal(bytes.toString('latin1', AT.records + 1, AT.records + 7), 'SNAPPY')
})
