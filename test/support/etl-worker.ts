/**
 * Consume, transform, produce: a program of its own, so that it can be killed. `node etl-worker.js ADDRESS`. One transactional id for
 * each input partition: who gets a partition takes its id over first, which ends what the one before left open, and only then asks where
 * to go on. Every record becomes two, in two partitions; every fifth transaction is aborted once and done again.
 */
import kafkajs from 'kafkajs'

const { Kafka, logLevel } = kafkajs

export const ETL = { input: 'etl-in', output: 'etl-out', group: 'etl', partitions: 3, aborted: 'aborted' } as const
const MAX_RECORDS = 10

interface Source {
  readonly producer: kafkajs.Producer
  transactions: number
}

async function main(address: string): Promise<void> {
  const retry = { initialRetryTime: 50, maxRetryTime: 500, retries: 1000 }
  const kafka = new Kafka({ clientId: 'etl', brokers: [address], logLevel: logLevel.NOTHING, retry })
  const admin = kafka.admin()
  await admin.connect()
  const sources = new Map<number, Source>()
  const consumer = kafka.consumer({ groupId: ETL.group, sessionTimeout: 6000, heartbeatInterval: 500, readUncommitted: false, retry })
  await consumer.connect()
  await consumer.subscribe({ topic: ETL.input, fromBeginning: true })

  const takeOver = async (partition: number): Promise<void> => {
    const producer = kafka.producer({ transactionalId: `etl-${partition}`, idempotent: true, maxInFlightRequests: 1, retry })
    await producer.connect()
    sources.set(partition, { producer, transactions: 0 })
    const [committed] = await admin.fetchOffsets({ groupId: ETL.group, topics: [ETL.input] })
    const offset = committed?.partitions.find((each) => each.partition === partition)?.offset ?? '-1'
    consumer.seek({ topic: ETL.input, partition, offset: offset === '-1' ? '0' : offset })
  }

  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isStale, isRunning }) => {
      const { partition } = batch
      const source = sources.get(partition)
      if (source === undefined) {
        await takeOver(partition)
        return
      }
      for (let from = 0; from < batch.messages.length && isRunning() && !isStale(); from += MAX_RECORDS) {
        const messages = batch.messages.slice(from, from + MAX_RECORDS)
        const last = messages[messages.length - 1]
        if (last === undefined) return
        try {
          if (source.transactions++ % 5 === 0) await transform(source.producer, partition, messages, false)
          await transform(source.producer, partition, messages, true)
        } catch {
          // Fenced, or its transaction timed out: from the beginning.
          sources.delete(partition)
          await source.producer.disconnect().catch(() => {})
          await takeOver(partition)
          return
        }
        resolveOffset(last.offset)
        await heartbeat()
      }
    },
  })
}

async function transform(producer: kafkajs.Producer, partition: number, messages: kafkajs.KafkaMessage[], commit: boolean): Promise<void> {
  const transaction = await producer.transaction()
  const prefix = commit ? '' : `${ETL.aborted} `
  const next = (partition + 1) % ETL.partitions
  try {
    await transaction.send({
      topic: ETL.output,
      messages: messages.flatMap(({ offset }) => [
        { partition, value: `${prefix}${partition}-${offset} first` },
        { partition: next, value: `${prefix}${partition}-${offset} second` },
      ]),
    })
    const offset = `${Number(messages[messages.length - 1]?.offset ?? 0) + 1}`
    await transaction.sendOffsets({ consumerGroupId: ETL.group, topics: [{ topic: ETL.input, partitions: [{ partition, offset }] }] })
    if (commit) await transaction.commit()
    else await transaction.abort()
  } catch (error) {
    if (transaction.isActive()) await transaction.abort().catch(() => {})
    throw error
  }
}

const address = process.argv[2]
if (address !== undefined && process.argv[1]?.endsWith('etl-worker.js')) await main(address)
