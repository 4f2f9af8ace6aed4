/** docs/KAFKA.md, from the handlers of the Kafka door. */
import { readFileSync } from 'node:fs'
import type { AnyApi } from '../src/kafka/handler.ts'
import { KAFKA_APIS } from '../src/kafka/handlers/index.ts'
import { SKIPPED_APIS } from '../src/kafka/skipped.ts'
import { inRoot } from '../test/support/root.ts'
import { settingsSection } from './docs-settings.ts'
import { SOURCE_TESTS, suitesTable } from './docs-suites.ts'

const HEAD = `# Kafka clients and MoonMQ

<!-- Made by scripts/docs-kafka.ts from the handlers in src/kafka/handlers. Do not edit. -->

MoonMQ speaks Kafka's protocol on the same port as its own, told apart by the first bytes of a connection. Clients need no
setting but the address.

- Requests of one connection run one after another and are answered in their order. Only Produce lets the next request start before
  its answer, which comes when its records are as durable as its \`acks\` asks.
- A version of ApiVersions that is not known is answered in the layout of version 0 with error 35 and the versions that are. Any other
  version or API that is not in the table closes the connection without an answer, with a line in the log.
- With \`acks=0\` there is no answer; an error closes the connection.
- A request may have up to \`socket.request.max.bytes\` (100 MiB), and up to 512 KiB while it is the first one of its connection.
- A connection that sends no whole request and takes no answer for \`connections.max.idle.ms\` (10 minutes) is closed, and one that has said nothing
  at all after 5 seconds.
- Metadata tells clients to connect to the listener's \`advertised\` address, or to the address that they reached when it is not set.

## APIs that are served

| key | API | versions | offered | what is different |
| --- | --- | --- | --- | --- |
`

/** The document as text. */
export function kafkaDocument(apis: readonly AnyApi[] = KAFKA_APIS): string {
  const served = [...apis].sort((left, right) => left.key - right.key).map(row)
  const skipped = SKIPPED_APIS.map(({ key, name, reason }) => `| ${key} | ${name} | ${reason} |`)
  return `${HEAD}${served.join('\n')}

## APIs that are not served

| key | API | why |
| --- | --- | --- |
${skipped.join('\n')}

${settingsSection()}

## Versions of each client

The versions of each API that a client can send, read out of its own code; it picks the highest that the broker offers too. Bold: no version in common, so
that the client cannot use the API here. Empty: the client never sends it.

${clientMatrix(apis)}

## The clients' own tests

What their own test suites say, run on one machine against each broker. The names behind the numbers are in \`test/conformance/kafka-4.4.0\` and
\`test/conformance/moonmq\`, what is excepted and why in \`test/conformance/exceptions.txt\`; \`npm run suites\` runs them again. Programs of others that
run unchanged, with their commands: [EXAMPLES.md](EXAMPLES.md).

${suitesTable()}

${SOURCE_TESTS}
`
}

function row({ key, name, versions, offeredFrom, omissions }: AnyApi): string {
  const [min, max] = versions
  return `| ${key} | ${name} | ${min}–${max} | ${offeredFrom ?? min}–${max} | ${omissions.join(' ')} |`
}

type Ranges = Readonly<Record<string, readonly [number, number]>>

/** API × client, for every API that is served or that a client would like to be. */
function clientMatrix(apis: readonly AnyApi[]): string {
  const clients = Object.entries(JSON.parse(readFileSync(inRoot('scripts', 'client-versions.json'), 'utf8')) as Record<string, Ranges>)
  const served = apis.map((api) => ({ ...api, offer: [api.offeredFrom ?? api.versions[0], api.versions[1]] as const }))
  const skipped = SKIPPED_APIS.filter(({ key }) => clients.some(([, ranges]) => ranges[key] !== undefined)).map((api) => ({
    ...api,
    offer: null,
  }))
  const rows = [...served, ...skipped]
    .sort((left, right) => left.key - right.key)
    .map(({ key, name, offer }) => {
      const cells = clients.map(([, ranges]) => versionsCell(ranges[key], offer))
      return `| ${key} ${name} | ${offer === null ? 'not served' : range(offer)} | ${cells.join(' | ')} |`
    })
  const head = ['API', 'MoonMQ', ...clients.map(([client]) => client)]
  return [`| ${head.join(' | ')} |`, `| ${head.map(() => '---').join(' | ')} |`, ...rows].join('\n')
}

function versionsCell(client: readonly [number, number] | undefined, offer: readonly [number, number] | null): string {
  if (client === undefined) return ''
  const meets = offer !== null && client[0] <= offer[1] && client[1] >= offer[0]
  return meets ? range(client) : `**${range(client)}**`
}

function range([from, to]: readonly [number, number]): string {
  return from === to ? String(from) : `${from}–${to}`
}
