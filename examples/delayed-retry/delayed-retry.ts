import type { Client } from 'moonmq/client'

/**
 * Mails over a server that is down for a while. What fails comes back after each of the delays in turn, other mails go on meanwhile, and
 * only what fails once more than there are delays becomes a dead letter.
 */
export async function delayedRetry(client: Client, delays: string, print: (line: string) => void): Promise<void> {
  await client.admin.createTopic('mails', { partitions: 1, config: { 'moonmq.retry.delays': delays } })
  const producer = client.producer()
  await producer.sendMany(
    'mails',
    ['to ada', 'to nobody', 'to grace'].map((value) => ({ value })),
  )
  const failures = new Map([
    ['to ada', 1],
    ['to nobody', 9],
  ])
  let left = 3
  for await (const mail of client.pushConsumer({ group: 'mailer', topics: ['mails'] })) {
    const value = String(mail.value)
    const failing = failures.get(value) ?? 0
    if (failing > 0) {
      failures.set(value, failing - 1)
      const { deadLetterTopic, attempts } = await mail.nack('the server is down')
      print(`${value}: failed ${attempts} times, in ${deadLetterTopic}`)
      if (deadLetterTopic === 'mails.dlq') left--
    } else {
      print(`${value}: sent`)
      left--
    }
    if (left > 0) continue
    await mail.ack()
    return
  }
}
