import { startBroker } from 'moonmq'
import { requestReply } from './request-reply.ts'

await using broker = await startBroker({ port: 0, memory: true })
await using client = await broker.connect()
await requestReply(client, console.log)
