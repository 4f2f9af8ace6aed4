/**
 * A NestJS service over its Kafka transport, unchanged but for the address: a request with its answer, and events that a second
 * instance of the same group shares. `npm install && npm start`, with the broker's address in BROKER.
 */
import 'reflect-metadata'
import { Controller, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { type ClientKafka, ClientsModule, EventPattern, type KafkaOptions, MessagePattern, Transport } from '@nestjs/microservices'
import { firstValueFrom } from 'rxjs'

const BROKERS = [process.env.BROKER ?? '127.0.0.1:9092']
const EVENTS = 10

interface Order {
  readonly id: number
  readonly price: number
}

const shipped: number[] = []
let allShipped = () => {}
const done = new Promise<void>((resolve) => {
  allShipped = resolve
})

@Controller()
class Orders {
  /** A request: the answer goes to the topic `orders.price.reply`. */
  @MessagePattern('orders.price')
  price(order: Order) {
    return { id: order.id, withTax: order.price * 1.25 }
  }

  /** An event: nobody waits for it. */
  @EventPattern('orders.shipped')
  onShipped(order: Order) {
    shipped.push(order.id)
    if (shipped.length === EVENTS) allShipped()
  }
}

function kafka(name: string) {
  return {
    client: { clientId: name, brokers: BROKERS },
    consumer: { groupId: name, sessionTimeout: 10_000, heartbeatInterval: 1000 },
    subscribe: { fromBeginning: true },
  }
}

@Module({
  imports: [ClientsModule.register([{ name: 'ORDERS', transport: Transport.KAFKA, options: kafka('shop') }])],
  controllers: [Orders],
})
class Shop {}

const logger = ['error', 'warn'] as const
const service = await NestFactory.createMicroservice<KafkaOptions>(Shop, {
  transport: Transport.KAFKA,
  options: kafka('orders'),
  logger: [...logger],
})
await service.listen()

const orders = service.get<ClientKafka>('ORDERS')
orders.subscribeToResponseOf('orders.price')
await orders.connect()
const answer = await firstValueFrom(orders.send('orders.price', { id: 1, price: 100 }))
console.log('answer', JSON.stringify(answer))
for (let id = 1; id <= EVENTS; id++) await firstValueFrom(orders.emit('orders.shipped', { key: String(id), value: { id, price: 100 } }))
await done
console.log('shipped', shipped.join(' '))
await orders.close()
await service.close()
