/** docs/CONFIG.md and docs/moonmq.schema.json, from the tables of src/config. */
import { toJsonSchema } from '@valibot/to-json-schema'
import * as v from 'valibot'
import { BROKER_SETTINGS, isChangeable } from '../src/config/broker-settings.ts'
import { OTHER_VARIABLES, variableOf } from '../src/config/environment.ts'
import { GROUP_SETTINGS, type GroupSetting } from '../src/config/group-settings.ts'
import { type KafkaSetting, kafkaRange } from '../src/config/kafka-setting.ts'
import { type Key, rangeOf, schemaOf } from '../src/config/key.ts'
import { allKeys, LISTENER_FIELDS, LISTENER_PROTOCOLS_DOC, PROTOCOLS, SETTINGS } from '../src/config/keys.ts'
import { PRESETS, TOPIC_SETTINGS, type TopicSetting } from '../src/config/topic-settings.ts'

const NO_EFFECT = ' *No effect in this version.*'

const HEAD = `# Settings

<!-- Made by scripts/docs-config.ts from the tables in src/config. Do not edit. -->

Settings come from five places; a later one wins over an earlier one:

1. the defaults below,
2. \`moonmq.json\` in the working folder, or the file that \`--config FILE\` names,
3. \`moonmq.<environment>.json\` beside it; the environment is \`MOONMQ_ENVIRONMENT\`, by default \`development\`,
4. environment variables: \`server.maxFrameSize\` is \`MOONMQ_SERVER__MAX_FRAME_SIZE\`, two underscores between levels,
5. flags of \`moonmq start\`.

\`moonmq config show --all\` prints every setting with its value and where it came from. A key that does not exist or a value that is not acceptable
stops the start, with the key, the value, what is accepted, and the nearest key that exists. Objects of an overlay merge key by key;
lists and single values replace. Keys that start with \`_\` are comments. \`docs/moonmq.schema.json\` tells an editor all of this:

\`\`\`json
{ "$schema": "node_modules/moonmq/docs/moonmq.schema.json", "server": { "port": 9092 } }
\`\`\`

\`appsettings.json\`, with the same keys in PascalCase, is read when there is no \`moonmq.json\`; both together are refused. In it,
\`Server.MetricsHost\` and \`Server.MetricsPort\` are \`http.host\` and \`http.port\`. A \`gateway\` block has no effect and is warned about. Blocks for
TLS, login, replication, clusters and balancing stop the start: they are not in this version, and a broker without them would be
less safe than the file says.

Settings are read at the start; a change in a file or variable needs a restart. What can change while the broker runs: the settings of a
[topic](#topic-settings), and those [broker settings](#broker-settings-under-kafkas-names) that are marked *Live*. *Reloadable* marks a key whose part of
the program could follow a change; nothing sends it one in this version.

## Keys

| key | default | accepted | what it does |
| --- | --- | --- | --- |
`

/** The settings document as text. */
export function configDocument(): string {
  const rows = [...allKeys()].map(([path, key]) => {
    const marks = [key.secret ? ' *Secret.*' : '', key.reloadable ? ' *Reloadable.*' : '', key.idle ? NO_EFFECT : ''].join('')
    return `| \`${path}\` | ${value(key.default)} | ${cell(rangeOf(key))} | ${cell(key.doc)}${marks} |`
  })
  const fields = Object.entries<Key>(LISTENER_FIELDS).map(
    ([name, key]) => `| \`${name}\` | ${value(key.default)} | ${cell(rangeOf(key))} | ${cell(key.doc)}${key.idle ? NO_EFFECT : ''} |`,
  )
  const others = [...OTHER_VARIABLES].map(([name, doc]) => `| \`${name}\` | ${cell(doc)} |`)
  return `${HEAD}${rows.join('\n')}

## Listeners

\`listeners\` is a list of addresses that clients connect to. Without it there is one, of \`server.host\` and \`server.port\`; with it, \`server.host\`,
\`server.port\` and \`--listen\` that are given later change its first entry. A listener on an address that other machines reach needs
\`security.allowAnonymous\`.

| field | default | accepted | what it does |
| --- | --- | --- | --- |
${fields.join('\n')}
| \`protocols\` | \`${JSON.stringify(PROTOCOLS)}\` | a list of ${PROTOCOLS.join(', ')} | ${LISTENER_PROTOCOLS_DOC} |

## Broker settings under Kafka's names

They stand in the block \`kafka\` with their dotted names: \`{ "kafka": { "num.partitions": 3 } }\`, or as \`${variableOf('kafka.num.partitions')}=3\`.
Those marked *Live* can also be changed while the broker runs, for this broker or for all (\`kafka-configs.sh --entity-type brokers\` and admin clients). Such
a change is stronger than the settings file and stays over a restart.

${brokerTable()}

## Topic settings

Set for one topic when it is created or later, while it is used: \`moonmq topic config NAME KEY=VALUE\`, Kafka's \`kafka-configs.sh\` and
admin clients, or ALTER_TOPIC_CONFIG. A change is all or nothing, durable when it is answered, and in force for the next batch; records that are
there stay as they are. \`moonmq topic config NAME\` shows every value and where it comes from. Internal topics keep their flush settings and stay
compacted.

A topic without a value of its own takes that of its backend, then the broker setting named in the last column, then the default. Defaults are
Kafka's, with one exception: \`flush.messages\` is 1, so that what is acknowledged is on disk. Most of the
broker settings named there are *Live*: a change of one changes every topic that has no value of its own.

| setting | default | accepted | what it does | native name | broker setting |
| --- | --- | --- | --- | --- | --- |
${TOPIC_SETTINGS.map((row) => `${kafkaRow(row)} ${nativeCell(row)} | ${row.broker.map(({ name }) => `\`${name}\``).join(', ')} |`).join('\n')}

\`moonmq.backend\` is a preset: values of a topic that chose it, weaker than its own and stronger than the broker's. It is chosen when a topic is made
and never changed; \`server.storageBackend\` chooses for topics that are made without one.

| backend | means |
| --- | --- |
${[...PRESETS].map(([name, values]) => `| \`${name}\` | ${[...values].map(([key, value]) => `\`${key}=${value}\``).join(', ')} |`).join('\n')}

${groupSection()}

## Other environment variables

Any other name that starts with \`MOONMQ_\` stops the start; \`MOONMQ_TEST_\` names belong to tests.

| variable | what it does |
| --- | --- |
${others.join('\n')}
`
}

function groupSection(): string {
  return `## Group settings

Set for one group, which need not exist yet, with \`kafka-configs.sh --entity-type groups\` and admin clients. A change is durable when it is answered and in
force for the next request of the group. A group without a value of its own has that of the broker setting in the last column. What the broker allows is
bounded by its settings of the same name with \`min\` and \`max\` in it: a value beyond them is refused, and where they changed since, they win.

| setting | default | accepted | what it does | broker setting |
| --- | --- | --- | --- | --- |
${GROUP_SETTINGS.map((row) => `${kafkaRow(row)} ${brokerCell(row)} |`).join('\n')}`
}

function brokerCell({ broker }: GroupSetting): string {
  return broker === null ? '' : `\`${broker}\``
}

function brokerTable(): string {
  const rows = BROKER_SETTINGS.map((row) => kafkaRow(row, isChangeable(row.name) ? ' *Live.*' : ''))
  return `| setting | default | accepted | what it does |\n| --- | --- | --- | --- |\n${rows.join('\n')}`
}

/** The native name with its unit where that is another one. */
function nativeCell({ native }: TopicSetting): string {
  if (native === null) return ''
  return native.factor === 1000 ? `\`${native.name}\` (seconds)` : `\`${native.name}\``
}

function kafkaRow(row: KafkaSetting, mark = ''): string {
  const fallback = row.default === '' ? 'empty' : `\`${row.default}\``
  return `| \`${row.name}\` | ${fallback} | ${cell(kafkaRange(row))} | ${cell(row.doc)}${row.inForce ? '' : NO_EFFECT}${mark} |`
}

function value(fallback: unknown): string {
  return fallback === '' ? 'empty' : `\`${fallback}\``
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}

/** JSON schema of `moonmq.json` as text. */
export function configSchema(): string {
  const kafka = v.object(Object.fromEntries(BROKER_SETTINGS.map((row) => [row.name, v.optional(kafkaSchema(row))])))
  const fields = Object.entries<Key>(LISTENER_FIELDS).map(([name, key]) => [name, v.optional(described(key))] as const)
  const protocols = v.pipe(v.array(v.picklist(PROTOCOLS)), v.minLength(1), v.description(LISTENER_PROTOCOLS_DOC))
  const listener = v.object({ ...Object.fromEntries(fields), protocols: v.optional(protocols) })
  const root = v.object({
    $schema: v.optional(v.string()),
    ...tree(SETTINGS),
    listeners: v.optional(v.pipe(v.array(listener), v.minLength(1), v.description('Addresses that clients connect to.'))),
    kafka: v.optional(v.pipe(kafka, v.description("Broker settings under Kafka's names."))),
  })
  const schema = toJsonSchema(root, { typeMode: 'input' })
  return `${JSON.stringify(strict({ ...schema, title: 'Settings of MoonMQ' }), null, 2)}\n`
}

type Entries = Record<string, v.GenericSchema>

function tree(node: object): Entries {
  const entries: Entries = {}
  for (const [name, child] of Object.entries(node)) {
    entries[name] = v.optional('kind' in child ? described(child) : v.object(tree(child)))
  }
  return entries
}

function described(key: Key): v.GenericSchema {
  return v.pipe(key.values ? v.picklist(key.values) : schemaOf(key), v.description(key.doc), v.metadata({ default: key.default }))
}

function kafkaSchema(row: KafkaSetting): v.GenericSchema {
  const text = row.values && row.type === 'string' ? v.picklist(row.values) : v.string()
  const whole = ['int', 'short', 'long'].includes(row.type)
  const typed = row.type === 'boolean' ? v.union([v.boolean(), text]) : whole ? v.union([v.pipe(v.number(), v.integer()), text]) : text
  return v.pipe(typed, v.description(`${row.doc} Default: ${row.default}.`))
}

/** Objects take no other keys but comments. */
function strict(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(strict)
  if (typeof node !== 'object' || node === null) return node
  const copy = Object.fromEntries(Object.entries(node).map(([name, child]) => [name, strict(child)]))
  if (copy.type !== 'object') return copy
  const { required: _, ...rest } = copy
  return { ...rest, patternProperties: { '^_': {} }, additionalProperties: false }
}
