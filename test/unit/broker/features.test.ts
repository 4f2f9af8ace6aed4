import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FEATURES, featureLevel, finalizeDefaults } from '../../../src/broker/features.ts'
import { setFeatures } from '../../../src/metadata/plans.ts'
import { FakeMetadata } from '../../support/fake-metadata.ts'

describe('features', () => {
  it('the first start over a folder writes the default of each, later ones write nothing', async () => {
    const metadata = new FakeMetadata()
    await finalizeDefaults(metadata)
    assert.deepEqual(Object.fromEntries(metadata.image.features), {
      'group.version': 1,
      'kraft.version': 0,
      'metadata.version': 7,
      'share.version': 2,
      'transaction.version': 2,
    })
    await finalizeDefaults(metadata)
    assert.equal(metadata.changes, 1)
  })

  it('one that was switched off stays off, while a new one comes with its default', async () => {
    const metadata = new FakeMetadata()
    await metadata.change(() => ({ records: setFeatures(new Map([['group.version', 0]])), result: null }))
    assert.equal(featureLevel(metadata.image, 'group.version'), 0)
    assert.equal(featureLevel(metadata.image, 'transaction.version'), 2)
    await finalizeDefaults(metadata)
    assert.equal(featureLevel(metadata.image, 'group.version'), 0)
    assert.equal(metadata.image.features.get('transaction.version'), 2)
  })

  it('each default lies within its range', () => {
    for (const feature of FEATURES) assert.ok(feature.min <= feature.default && feature.default <= feature.max, feature.name)
  })
})
