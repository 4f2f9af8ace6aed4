import assert from 'node:assert/strict'
import { it } from 'node:test'
import { NodeLoader, PreloadedLoader } from '../../../src/io/loader.ts'

it('loads packages, the same each time, and says which is missing', async () => {
  const loader = new NodeLoader()
  assert.equal(await loader.load('snappyjs'), await loader.load('snappyjs'))
  await assert.rejects(loader.load('no-such-package-here'), { code: 'ERR_MODULE_NOT_FOUND' })
})

it('gives what was loaded before, when the completions say so', async () => {
  const labels: string[] = []
  const completions = { arrive: async (label: string) => void labels.push(label) }
  const loader = new PreloadedLoader({ completions }, { codec: 'module' })
  assert.equal(await loader.load('codec'), 'module')
  await assert.rejects(loader.load('toString'), { code: 'ERR_MODULE_NOT_FOUND' })
  assert.deepEqual(labels, ['load codec', 'load toString'])
})
