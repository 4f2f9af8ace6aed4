import { deepEqual, equal, ok } from 'node:assert/strict'
import { connect as connectSocket } from 'node:net'
import test from 'node:test'
import { startBroker } from '../../src/server/embedded.ts'
import { startTestBroker } from '../../src/testing/index.ts'
import { decodePayload, encodeFrame, FrameCutter } from '../../src/wire/frame.ts'
import { MAX_REPLY_FRAME_BYTES } from '../../src/wire/limits.ts'
import { type OpName, opName } from '../../src/wire/opcodes.ts'
import { nativeVectors } from '../support/native-vectors.ts'

const ID = Buffer.alloc(16, 7)
const HELLO = encodeFrame('HELLO', ID, { version: 1 })
const AUTH = encodeFrame('AUTH', ID, { username: 'any', password: Buffer.from('any') })

type Answer = { readonly op: OpName | undefined; readonly message: Record<string, unknown> }

/** Sends over TCP, ends, and gives every answer until the broker closes. */
function talk(port: number, parts: readonly Buffer[]): Promise<Answer[]> {
  return new Promise((resolve, reject) => {
    const answers: Answer[] = []
    const cutter = new FrameCutter(MAX_REPLY_FRAME_BYTES)
    const socket = connectSocket({ port, host: '127.0.0.1' })
    socket.on('data', (bytes) => {
      cutter.push(Buffer.from(bytes))
      for (let frame = cutter.next(); frame !== null; frame = cutter.next()) {
        const op = opName(frame.opcode)
        answers.push({ op, message: op === undefined ? {} : (decodePayload(op, frame.payload) as Record<string, unknown>) })
      }
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(answers))
    socket.end(Buffer.concat(parts))
  })
}

test('every malformed input over TCP on the shared port, after HELLO or login', async () => {
  await using broker = await startTestBroker()
  const create = encodeFrame('CREATE_TOPIC', ID, { name: 't', partitions: 1 })
  await talk(broker.port, [HELLO, AUTH, create])
  for (const input of nativeVectors().malformed) {
    const before = input.state === 'new' ? [] : input.state === 'greeted' ? [HELLO] : [HELLO, AUTH]
    const answers = await talk(broker.port, [...before, Buffer.from(input.frameHex, 'hex')])
    equal(answers.length, before.length + 1, input.name)
    deepEqual([answers.at(-1)?.op, answers.at(-1)?.message['code']], ['ERROR', input.expectErrorCode], input.name)
  }
})

test('a listener for the native protocol alone answers from the first bytes on', async () => {
  const listeners = [{ name: 'native', host: '127.0.0.1', port: 0, protocols: ['native'] }]
  await using broker = await startBroker({ memory: true, config: { listeners } })
  for (const [hex, code] of [
    ['00000000', 1],
    ['00000010', 1],
    ['7fffffff', 9],
    ['47455420', 9],
  ] as const) {
    const answers = await talk(broker.port, [Buffer.from(hex, 'hex')])
    deepEqual([answers[0]?.op, answers[0]?.message['code']], ['ERROR', code], hex)
  }
})

test('values stored compressed come back plain', async () => {
  await using broker = await startTestBroker()
  const key = Buffer.from('k')
  const frames = [0, 1, 2].map((codec) => encodeFrame('PRODUCE', ID, { codec, topic: 't', key, value: Buffer.alloc(5000, 65 + codec) }))
  const create = encodeFrame('CREATE_TOPIC', ID, { name: 't', partitions: 1 })
  const fetch = encodeFrame('FETCH', ID, { topic: 't', group: '', maxRecords: 10, isolation: 0, flags: 1 })
  const answers = await talk(broker.port, [HELLO, AUTH, create, ...frames, fetch])
  const batch = answers.find((answer) => answer.op === 'RECORD_BATCH')
  const records = batch?.message['records'] as { value: Buffer }[]
  deepEqual(
    records.map((record) => record.value.toString('latin1', 0, 3) + record.value.length),
    ['AAA5000', 'BBB5000', 'CCC5000'],
  )
  ok(answers.at(-1)?.op === 'OK')
})
