import { startBroker } from 'moonmq'
import { deadLetters } from './dead-letters.ts'

await using broker = await startBroker({ port: 0, memory: true })
await using client = await broker.connect()
await deadLetters(client, console.log)
