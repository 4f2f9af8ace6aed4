import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { ByteWriter } from '../../src/core/writer.ts'
import { API_KEYS } from '../../src/schema/data.generated.ts'
import { writeRequestHeader } from '../../src/schema/headers.ts'
import { type ApiName, requestCodec } from '../../src/schema/messages.ts'
import { framed, rawRequest, readResponse } from '../support/kafka-frames.ts'
import { RawKafka } from '../support/raw-kafka.ts'
import { codesOf, type Question, questionsOf, versionsOf, type World } from './wrong-questions.ts'

/** An answer that is not there by then is none: the broker is silent. */
const SILENT_AFTER_MS = 2500

export interface Answered {
  readonly question: Question
  /** Codes of the answer, or `closed`, or `silent`. */
  readonly answer: string
}

/** Makes what the questions are about. */
export async function prepareWorld(address: string, prefix = 'wrong'): Promise<World> {
  using client = await RawKafka.connect(address)
  const topic = `${prefix}-topic`
  const group = `${prefix}-group`
  const made = await client.request('CreateTopics', 7, {
    topics: [{ name: topic, numPartitions: 2, replicationFactor: 1, assignments: [], configs: [] }],
    timeoutMs: 10_000,
  })
  const topicId = made.topics[0]?.topicId ?? ''
  await until(async () => (await client.produce(topic, 0, [{ value: 'a' }, { value: 'b' }, { value: 'c' }])).errorCode === 0)
  await until(
    async () => (await client.request('FindCoordinator', 4, { keyType: 0, coordinatorKeys: [group] })).coordinators[0]?.errorCode === 0,
  )
  await until(async () => {
    const partitions = [{ partitionIndex: 0, committedOffset: 1, committedLeaderEpoch: -1, committedMetadata: '' }]
    const { topics } = await client.request('OffsetCommit', 8, {
      groupId: group,
      generationIdOrMemberEpoch: -1,
      topics: [{ name: topic, partitions }],
    })
    return topics[0]?.partitions[0]?.errorCode === 0
  })
  await until(
    async () => (await client.request('InitProducerId', 1, { transactionalId: null, transactionTimeoutMs: 60_000 })).errorCode === 0,
  )
  await until(
    async () => (await client.request('FindCoordinator', 4, { keyType: 1, coordinatorKeys: [group] })).coordinators[0]?.errorCode === 0,
  )
  await until(
    async () =>
      (await client.request('InitProducerId', 1, { transactionalId: `${prefix}-ready`, transactionTimeoutMs: 60_000 })).errorCode === 0,
  )
  const { brokers } = await client.request('DescribeCluster', 0, {})
  return { nodeId: brokers[0]?.brokerId ?? -1, topic, topicId, group }
}

async function until(done: () => Promise<boolean>): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    if (await done()) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('the broker is not ready')
}

/** Asks one question after another: about every version, or about the lowest and the highest of each API. */
export async function askAll(address: string, world: World, apis: readonly ApiName[], which: 'all' | 'ends'): Promise<Answered[]> {
  const asker = new Asker(address)
  const all: Answered[] = []
  try {
    for (const api of apis) {
      const [low, high] = versionsOf(api)
      for (const question of questionsOf(api, [low, high], world)) {
        // What is produced decides which offsets are there, so all of it is.
        if (which === 'ends' && api !== 'Produce' && question.version > low && question.version < high) continue
        all.push({ question, answer: await asker.ask(question) })
      }
    }
  } finally {
    asker.close()
  }
  return all
}

/** One connection, and another one whenever a broker closed it. */
class Asker {
  readonly #address: string
  #socket: Socket | null = null

  constructor(address: string) {
    this.#address = address
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = null
  }

  async ask(question: Question): Promise<string> {
    const frame = await this.#exchange(frameOf(question))
    if (typeof frame === 'string') {
      this.close()
      return frame
    }
    if (question.body === null) return 'answered'
    try {
      return codesOf(readResponse(question.api, question.version, frame).body)
    } catch (error) {
      return `unreadable: ${error instanceof Error ? error.message : String(error)}`
    }
  }

  async #exchange(frame: Buffer): Promise<Buffer | 'closed' | 'silent'> {
    const socket = await this.#open()
    socket.write(frame)
    return new Promise((resolve) => {
      let bytes = Buffer.alloc(0)
      const end = (result: Buffer | 'closed' | 'silent') => {
        clearTimeout(timer)
        socket.removeAllListeners('data')
        socket.removeAllListeners('close')
        resolve(result)
      }
      const timer = setTimeout(() => end('silent'), SILENT_AFTER_MS)
      socket.on('data', (chunk: Buffer) => {
        bytes = Buffer.concat([bytes, chunk])
        if (bytes.length >= 4 && bytes.length >= 4 + bytes.readInt32BE(0)) end(bytes.subarray(4, 4 + bytes.readInt32BE(0)))
      })
      socket.on('close', () => end('closed'))
      if (socket.destroyed) end('closed')
    })
  }

  async #open(): Promise<Socket> {
    if (this.#socket !== null && !this.#socket.destroyed && this.#socket.writable) return this.#socket
    const [host = '', port = ''] = this.#address.split(':')
    const socket = connect(Number(port), host)
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.setNoDelay(true)
    this.#socket = socket
    return socket
  }
}

function frameOf({ api, version, body, bytes }: Question): Buffer {
  if (body === null) return rawRequest(API_KEYS[api], version, Buffer.alloc(8))
  const header = new ByteWriter()
  writeRequestHeader(header, { apiKey: API_KEYS[api], apiVersion: version, correlationId: 1, clientId: 'wrong' })
  const encoded = new ByteWriter()
  requestCodec(api, version).encode(encoded, body as never)
  const payload = encoded.toBuffer()
  return framed(Buffer.concat([header.toBuffer(), bytes === undefined ? payload : bytes(payload)]))
}
