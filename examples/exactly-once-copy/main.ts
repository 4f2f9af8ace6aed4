import { startBroker } from 'moonmq'
import { exactlyOnceCopy } from './exactly-once-copy.ts'

await using broker = await startBroker({ port: 0, memory: true })
await using client = await broker.connect()
await exactlyOnceCopy(client, console.log)
