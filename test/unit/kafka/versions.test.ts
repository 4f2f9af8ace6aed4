import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SystemClock } from '../../../src/core/clock.ts'
import { MoonMQError } from '../../../src/core/errors.ts'
import { SILENT } from '../../../src/core/logger.ts'
import { ByteReader } from '../../../src/core/reader.ts'
import { ByteWriter } from '../../../src/core/writer.ts'
import { Dispatch } from '../../../src/kafka/dispatch.ts'
import type { KafkaCall } from '../../../src/kafka/handler.ts'
import { KAFKA_APIS } from '../../../src/kafka/handlers/index.ts'
import { LentMemory } from '../../../src/kafka/lent-memory.ts'
import { type ApiName, apiInfo, hasFlexibleHeader, requestCodec } from '../../../src/schema/messages.ts'
import { batchOf, contextOf, createTopic, produceOne } from '../../support/fake-broker.ts'
import { noSessions, testDoor } from '../../support/kafka-door.ts'
import { frames, readResponse } from '../../support/kafka-frames.ts'
import { SAMPLES } from '../../support/kafka-samples.ts'

function call(version: number): KafkaCall {
  return {
    version,
    context: contextOf(),
    broker: { cluster: { clusterId: 'c', nodeId: 0 } } as KafkaCall['broker'],
    advertised: { host: 'h', port: 1 },
    clock: new SystemClock(),
    log: SILENT,
    offer: [],
    lent: new LentMemory(1),
    sessions: noSessions(),
    afterSent() {},
  }
}

const dispatch = new Dispatch(KAFKA_APIS)

describe('kafka handlers at every version', () => {
  for (const { key, name: apiName, versions, refuse } of KAFKA_APIS) {
    const name = apiName as ApiName
    it(`${name}: its key, name and versions are of the schema`, () => {
      const info = apiInfo(key)
      assert.equal(info?.name, name)
      assert.ok(info && versions[0] >= info.versions[0] && versions[1] <= info.versions[1])
      assert.ok(!info.latestVersionUnstable || versions[1] < info.versions[1], 'an unstable version is not offered')
    })

    for (let version = versions[0]; version <= versions[1]; version++) {
      it(`${name} ${version}: a refusal as a whole can be said`, () => {
        const sample = (SAMPLES[name]?.(version, 'AAAAAAAAAAAAAAAAAAAAAQ') ?? {}) as never
        const writer = new ByteWriter()
        requestCodec(name, version).encode(writer, sample)
        const request = requestCodec(name, version).decode(new ByteReader(writer.toBuffer()))
        const response = refuse(new MoonMQError('INTERNAL', { reason: 'a test' }), request, call(version))
        assert.ok(response !== null)
        const route = dispatch.decode(frameOf(key, version, name, sample)).route
        assert.ok(route !== null)
        const [frame] = frames(Buffer.concat(dispatch.encode(route, 7, response)))
        assert.ok(frame)
        assert.equal(readResponse(name, version, frame).correlationId, 7)
      })

      if (SAMPLES[name] === undefined) continue
      it(`${name} ${version}: is answered`, async () => {
        const { broker, connect } = await testDoor()
        const topic = await createTopic(broker, 't')
        await produceOne(broker, 't', 0, batchOf(1))
        const client = connect()
        await client.call(name, version, SAMPLES[name]?.(version, topic.id) as never)
        assert.equal(client.socket.closed, false)
      })
    }
  }
})

function frameOf(key: number, version: number, name: ApiName, body: never): Buffer {
  const writer = new ByteWriter()
  writer.int16(key)
  writer.int16(version)
  writer.int32(7)
  writer.int16(-1)
  if (hasFlexibleHeader(key, version, 'request')) writer.uvarint(0)
  requestCodec(name, version).encode(writer, body)
  return writer.toBuffer()
}
