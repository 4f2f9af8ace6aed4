import { randomUUID } from 'node:crypto'
import type { Client, ClientRecord, Producer, Reader } from 'moonmq/client'

const REQUESTS = 'tax.requests'
const REPLIES = 'tax.replies'

/** Answers requests until it is closed. A request is committed once its answer is stored, so none is lost when the service dies. */
export async function serve(client: Client, answer: (question: string) => string, signal: AbortSignal): Promise<void> {
  const producer = client.producer()
  try {
    for await (const request of client.consumer({ group: 'tax-service', topics: [REQUESTS], signal })) {
      const replyTo = header(request, 'reply-to')
      const correlation = header(request, 'correlation-id')
      if (replyTo === null || correlation === null || request.value === null) continue
      await producer.send(replyTo, { value: answer(request.value.toString()), headers: [{ key: 'correlation-id', value: correlation }] })
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** Asks and waits for the answer that has the same id. One of them serves any number of questions at a time. */
export class Requester {
  readonly #producer: Producer
  readonly #replies: Reader
  readonly #waiting = new Map<string, { resolve: (answer: string) => void; reject: (error: Error) => void }>()
  readonly #reading: Promise<void>

  private constructor(producer: Producer, replies: Reader) {
    this.#producer = producer
    this.#replies = replies
    this.#reading = this.#read()
  }

  /** Notes where the replies end before anything is asked, so that no answer comes too early to be seen. */
  static async open(client: Client): Promise<Requester> {
    const { partitions } = await client.admin.describeTopic(REPLIES)
    const positions = new Map(partitions.map(({ partition, highWatermark }) => [partition, highWatermark]))
    return new Requester(client.producer(), client.reader({ topic: REPLIES, positions, follow: true }))
  }

  async ask(question: string, timeoutMs: number): Promise<string> {
    const correlation = randomUUID()
    let timer: NodeJS.Timeout | undefined
    const answer = new Promise<string>((resolve, reject) => {
      this.#waiting.set(correlation, { resolve, reject })
      timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    })
    try {
      const headers = [
        { key: 'reply-to', value: REPLIES },
        { key: 'correlation-id', value: correlation },
      ]
      const [reply] = await Promise.all([answer, this.#producer.send(REQUESTS, { value: question, headers })])
      return reply
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(correlation)
    }
  }

  async close(): Promise<void> {
    await this.#replies.close()
    await this.#reading
    await this.#producer.close()
  }

  async #read(): Promise<void> {
    let failure = new Error('the requester is closed')
    try {
      for await (const reply of this.#replies) this.#waiting.get(header(reply, 'correlation-id') ?? '')?.resolve(String(reply.value))
    } catch (error) {
      failure = error as Error
    }
    for (const { reject } of this.#waiting.values()) reject(failure)
  }
}

function header(record: ClientRecord, key: string): string | null {
  return record.headers.find((each) => each.key === key)?.value?.toString() ?? null
}

/** A service, and two questions asked at once. */
export async function requestReply(client: Client, print: (line: string) => void): Promise<void> {
  await client.admin.createTopic(REQUESTS, { partitions: 2 })
  // Answers that nobody waited for are of no use for long.
  await client.admin.createTopic(REPLIES, { partitions: 1, config: { 'retention.ms': '60000' } })
  const stopped = new AbortController()
  const serving = serve(client, (price) => String(Number(price) * 1.25), stopped.signal)
  const requester = await Requester.open(client)
  const answers = await Promise.all(['100', '80'].map((price) => requester.ask(price, 10_000)))
  print(`with tax: ${answers.join(' and ')}`)
  await requester.close()
  stopped.abort()
  await serving
}
