import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ProducerIds } from '../../../src/broker/producers/producer-ids.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { contextOf } from '../../support/fake-broker.ts'
import { FakeMetadata } from '../../support/fake-metadata.ts'

function ids(metadata: FakeMetadata): ProducerIds {
  return new ProducerIds({ metadata, log: SILENT }, { nodeId: 0 })
}

it('producer ids start at 1, rise, and are never given twice', async () => {
  const metadata = new FakeMetadata()
  const source = ids(metadata)
  const given: number[] = []
  for (let i = 0; i < 2500; i++) given.push((await source.newProducerId(contextOf())).producerId)
  assert.deepEqual(
    given,
    Array.from({ length: 2500 }, (_, i) => i + 1),
  )
})

it('many at once share one block', async () => {
  const metadata = new FakeMetadata()
  const source = ids(metadata)
  const given = await Promise.all(Array.from({ length: 400 }, () => source.newProducerId(contextOf())))
  assert.equal(new Set(given.map((each) => each.producerId)).size, 400)
  assert.equal(metadata.changes, 1)
  assert.ok(given.every((each) => each.producerEpoch === 0))
})

it('after a crash the rest of the block is left alone', async () => {
  const metadata = new FakeMetadata()
  await ids(metadata).newProducerId(contextOf())
  const restarted = ids(new FakeMetadata(metadata.image))
  assert.ok((await restarted.newProducerId(contextOf())).producerId > 1000)
})

it('the next block is fetched ahead; its failure is the error of whoever needs it', async () => {
  const metadata = new FakeMetadata()
  const source = ids(metadata)
  for (let i = 0; i < 600; i++) await source.newProducerId(contextOf())
  assert.equal(metadata.changes, 2)
  metadata.failure = new Error('the metadata log failed')
  for (let i = 600; i < 2000; i++) await source.newProducerId(contextOf())
  await assert.rejects(source.newProducerId(contextOf()), /the metadata log failed/)
  metadata.failure = undefined
  assert.equal((await source.newProducerId(contextOf())).producerId, 2001)
})
