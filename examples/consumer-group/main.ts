import { startBroker } from 'moonmq'
import { consumerGroup } from './consumer-group.ts'

await using broker = await startBroker({ memory: true, port: 0 })
await consumerGroup(() => broker.connect(), console.log)
