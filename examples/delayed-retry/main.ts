import { startBroker } from 'moonmq'
import { delayedRetry } from './delayed-retry.ts'

await using broker = await startBroker({ port: 0, memory: true })
await using client = await broker.connect()
await delayedRetry(client, '1s,2s', console.log)
