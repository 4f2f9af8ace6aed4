import type { Client, Consumer, GroupChange } from 'moonmq/client'

const TOPIC = 'orders'
const GROUP = 'billing'

/** A member of the group with a connection of its own, as a process of its own would have. */
class Member {
  readonly consumer: Consumer
  readonly #client: Client
  readonly #done: Promise<void>

  constructor(client: Client, name: string, print: (line: string) => void, onRecord: () => void) {
    this.#client = client
    this.consumer = client.consumer({
      group: GROUP,
      memberId: name,
      topics: [TOPIC],
      onChange: (change) => print(`${name} ${describe(change)}`),
    })
    this.#done = this.#run(onRecord)
  }

  async #run(onRecord: () => void): Promise<void> {
    // A record counts as done, and is committed, when the loop asks for the next one.
    for await (const _record of this.consumer) onRecord()
  }

  /** Commits what is done and leaves. */
  async leave(): Promise<void> {
    await this.consumer.close()
    await this.#done
    await this.#client.close()
  }
}

/** Two members share a topic, one of them leaves: every change of the group as it happens, and where the group stands. */
export async function consumerGroup(connect: () => Promise<Client>, print: (line: string) => void): Promise<void> {
  await using client = await connect()
  await client.admin.createTopic(TOPIC, { partitions: 4 })
  let seen = 0
  const count = () => {
    seen++
  }
  const ada = new Member(await connect(), 'ada', print, count)
  await until(() => ada.consumer.assignment[0]?.partitions.length === 4)
  await show(client, print)
  const bob = new Member(await connect(), 'bob', print, count)
  await until(() => [ada, bob].every(({ consumer }) => consumer.assignment[0]?.partitions.length === 2))
  await show(client, print)
  await using producer = client.producer()
  for (let number = 0; number < 8; number++) await producer.send(TOPIC, { partition: number % 4, value: `order ${number}` })
  await until(() => seen === 8)
  await bob.leave()
  await until(() => ada.consumer.assignment[0]?.partitions.length === 4)
  await ada.leave()
  await show(client, print)
  print(`${seen} orders billed`)
}

async function show(client: Client, print: (line: string) => void): Promise<void> {
  const { state, members } = await client.admin.describeGroup(GROUP)
  print(`group ${GROUP} is ${state} with ${members.length} members`)
}

function describe({ kind, partitions }: GroupChange): string {
  const places = partitions.flatMap(({ topic, partitions: numbers }) => numbers.map((partition) => `${topic}:${partition}`))
  return places.length === 0 ? kind : `${kind} ${places.join(' ')}`
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5))
}
