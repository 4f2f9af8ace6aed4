import { connect } from '../../src/client/index.ts'
import type { Client } from '../../src/client/types.ts'
import { JOBS } from './nack-jobs.ts'

/** Consumes, processes and refuses until it is killed: what begins with `bad` cannot be processed, the rest is written to another topic. */
async function work(client: Client): Promise<void> {
  const producer = client.producer()
  for await (const record of client.pushConsumer({ group: JOBS.group, topics: [JOBS.topic], maxRecords: 50, commit: 'manual' })) {
    const value = String(record.value)
    if (value.startsWith('bad')) await record.nack(`cannot process ${value}`)
    else {
      await producer.send(JOBS.done, { value })
      await record.ack()
    }
  }
}

const [address] = process.argv.slice(2)
for (; address !== undefined; ) {
  try {
    await using client = await connect({ address, timeoutMs: 5000 })
    await work(client)
  } catch {
    // The broker was killed: the loop begins again, from what the group has committed.
  }
}
