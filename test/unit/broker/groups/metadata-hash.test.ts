import assert from 'node:assert/strict'
import { test } from 'node:test'
import { metadataHash } from '../../../../src/broker/groups/metadata-hash.ts'
import type { TopicImage } from '../../../../src/metadata/types.ts'

/** Name, id, partitions, and what Kafka 4.4's `Utils.computeGroupHash` says of a group with this topic alone. */
const TOPICS = [
  ['orders', 'AAECAwQFBgcICQoLDA0ODw', 1, '-7319576022351097772'],
  ['clicks', '8PHy8_T19vf4-fr7_P3-_w', 12, '-2782884636703992005'],
  ['wide', 'MkU3OEVBNTcwNTJENDM2Qk', 300, '2948197481936759682'],
] as const

/** The same of all three. */
const ALL = '-6538576518006809893'

const IMAGES = new Map(TOPICS.map(([name, id, count]) => [name as string, imageOf(name, id, count)]))

function imageOf(name: string, id: string, count: number): TopicImage {
  const partitions = Array.from({ length: count }, (_, partition) => ({
    partition,
    leader: 0,
    leaderEpoch: 0,
    partitionEpoch: 0,
    replicas: [0],
    isr: [0],
  }))
  return { name, id, internal: false, partitions, config: new Map() }
}

test('the hash of the topics of a group is the one that Kafka computes', () => {
  for (const [name, , , expected] of TOPICS) assert.equal(metadataHash([name], IMAGES), expected, name)
  assert.equal(metadataHash(['wide', 'orders', 'clicks'], IMAGES), ALL)
})

test('topics that do not exist are no part of it, and none at all is 0', () => {
  assert.equal(metadataHash(['orders', 'missing'], IMAGES), TOPICS[0][3])
  assert.equal(metadataHash(['missing'], IMAGES), '0')
  assert.equal(metadataHash([], IMAGES), '0')
})
